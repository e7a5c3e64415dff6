"""Poolers before the Postgres of the tests: PgBouncer where it is installed, and a stand-in for later releases of it."""
