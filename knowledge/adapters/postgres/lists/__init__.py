"""Lists for people in Postgres: by keyset, newest first, and each by an index."""
