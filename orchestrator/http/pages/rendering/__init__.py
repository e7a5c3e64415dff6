"""Stored values as HTML: templates, Markdown, charts, times and counts in words."""
