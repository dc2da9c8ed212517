"""Pages of the commands: one template, one stylesheet, charts as SVG."""
