"""Orders that are known by their structure: secrets told, keys let in, foreign sources, other languages, split texts."""
