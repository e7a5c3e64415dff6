"""Add tags of patterns, the key behind each deed, and sessions of the pages that were ended before their time."""

from __future__ import annotations

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE patterns ADD COLUMN tags text[] DEFAULT '{}'::text[] NOT NULL",
    "ALTER TABLE deeds ADD COLUMN key_id varchar(100)",
    """CREATE TABLE ended_sessions (
        session_id varchar(100) NOT NULL,
        ends_at timestamptz NOT NULL,
        CONSTRAINT ended_sessions_pkey PRIMARY KEY (session_id)
    )""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
