"""Statements of document Q&A, a module for each store."""
