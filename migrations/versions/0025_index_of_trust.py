"""Who speaks for a pattern is found by an index, in their order, however many entries the pattern has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. Only an index: a process of the version before goes on beside it, and keeps its own."""
    op.create_index(
        "ix_knowledge_staging_trust",
        "knowledge_staging",
        [
            "pattern_id",
            "low_trust",
            sa.text(
                "(CASE WHEN entry_type <> 'failure_solution' THEN 0 WHEN verified_by IS NOT NULL THEN 1 ELSE 2 END)"
            ),
            sa.text("embedded_at DESC"),
            "id",
        ],
        unique=False,
        postgresql_where=sa.text("pattern_id IS NOT NULL"),
    )
