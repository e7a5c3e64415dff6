"""Workspaces may be local only: their texts go to no endpoint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A process of the version before does not know of it, and sends on: stop it before one is set."""
    op.create_table(
        "workspaces",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("local_only", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("workspace", name=op.f("workspaces_pkey")),
    )
