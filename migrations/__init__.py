"""Alembic migrations: forward only; additive in one release, destructive in the next."""
