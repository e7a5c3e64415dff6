"""Outcomes say who told them, so that they can be taken back, and how far that is to be trusted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. What is there already, and what a process of the version before tells meanwhile, is of no key."""
    op.add_column("outcomes", sa.Column("recorded_by", sa.String(length=100), nullable=True))
    op.add_column("outcomes", sa.Column("low_trust", sa.Boolean(), nullable=False, server_default=sa.text("false")))
