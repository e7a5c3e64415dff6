"""Readers of what is already there: git history, test and SARIF reports, reviews, JSON lines.

They read; capturing is the caller's.
"""
