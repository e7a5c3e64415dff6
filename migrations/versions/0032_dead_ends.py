"""Add what was tried for a failure and did not help; entries of before have none."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    op.execute("ALTER TABLE knowledge_staging ADD COLUMN dead_ends text[] NOT NULL DEFAULT '{}'")
    op.execute(
        "CREATE INDEX ix_knowledge_staging_dead_ends ON knowledge_staging (pattern_id) WHERE dead_ends <> '{}'::text[]"
    )
