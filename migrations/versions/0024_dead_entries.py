"""What an embedder refused goes after 90 days: found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. Only an index, of few rows: a process of the version before goes on beside it."""
    op.create_index(
        "ix_knowledge_staging_dead",
        "knowledge_staging",
        ["workspace", "timestamp"],
        unique=False,
        postgresql_where=sa.text("status = 'dead'"),
    )
