"""Readers of text formats as Markdown, each line where it was as far as the format has lines."""
