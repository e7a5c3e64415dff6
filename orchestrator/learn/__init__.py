"""Readers of what is already there: git history, SARIF reports, JSON lines. They read; capturing is the caller's."""
