"""The reasons of contexts get their final names."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "UPDATE contexts SET reason = 'spoke' WHERE reason = 'shown'",
    "UPDATE contexts SET reason = 'not_sure' WHERE reason = 'unsure'",
    "UPDATE contexts SET reason = 'agent_knows' WHERE reason = 'alone'",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
