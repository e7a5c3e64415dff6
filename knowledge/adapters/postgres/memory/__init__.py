"""Statements of the learning memory, a module for each store."""
