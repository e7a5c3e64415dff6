"""Texts: what is cut, what is invisible, and the plural of a noun."""
