"""Add, index, synchronise and re-index documents."""
