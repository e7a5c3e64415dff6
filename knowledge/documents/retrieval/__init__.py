"""Search for the passages that a question is about."""
