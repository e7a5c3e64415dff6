"""Formats of text as Markdown, line for line: markup, tables, manual pages, notebooks, encodings; pure."""
