"""Add tags: a person's own words on a pattern."""

from __future__ import annotations

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

_STATEMENTS = ("ALTER TABLE patterns ADD COLUMN tags text[] DEFAULT '{}'::text[] NOT NULL",)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
