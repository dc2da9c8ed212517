"""The commands of `keras-likelihood`, one per file."""
