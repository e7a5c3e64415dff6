"""The map of patterns: places in two dimensions that keep neighbours together, and groups with names."""
