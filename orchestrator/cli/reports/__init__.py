"""Printing of results, for people or as JSON."""
