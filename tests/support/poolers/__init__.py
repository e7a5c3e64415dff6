"""Poolers before the Postgres of the tests: PgBouncer if it is installed, and a stand-in for later releases."""
