"""Connections, transactions, the embedded server, migration and row-level security."""
