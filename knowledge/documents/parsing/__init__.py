"""Bytes to text, text to passages."""
