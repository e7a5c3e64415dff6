"""Entries that no point stands for are found at once: their pattern was full when they came."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. Only a new index: a process of the version before goes on beside it."""
    op.create_index(
        "ix_knowledge_staging_out_of_reach",
        "knowledge_staging",
        ["workspace", "pattern_id"],
        unique=False,
        postgresql_where=sa.text("status = 'embedded' AND point_ids = '{}'::uuid[]"),
    )
