"""Tables: reads files and data frames, and encodes their columns."""
