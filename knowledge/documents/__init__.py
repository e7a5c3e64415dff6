"""Documents of knowledge bases: ingested, found again, and quoted in answers."""
