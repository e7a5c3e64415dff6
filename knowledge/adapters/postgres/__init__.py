"""Postgres, the truth: tables, one file a store with all its SQL, the bundled server."""
