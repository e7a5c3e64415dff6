"""Pruning, verification and repair, re-indexing, archives."""
