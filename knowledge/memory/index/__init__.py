"""Points of the vector index, and their reconciliation with Postgres."""
