"""Seals of rows in Postgres, and the chains of their writers."""
