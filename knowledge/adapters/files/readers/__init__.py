"""Readers of document formats as Markdown, run in the process of the converter."""
