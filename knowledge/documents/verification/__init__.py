"""Check a drafted answer against the passages it cites."""
