"""Add the index that lists of entries are read by, the latest first, and counted by day and project."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """CREATE INDEX ix_knowledge_staging_latest ON knowledge_staging
    (workspace, timestamp DESC, id) INCLUDE (project_id)""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
