"""Lessons of sessions: the changes that mended a failure, the entries made of them, and what was read already."""
