"""Add the mark that a run had read text from outside of the machine; of entries of before it is not known."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    op.execute("ALTER TABLE knowledge_staging ADD COLUMN outside_text boolean NOT NULL DEFAULT false")
