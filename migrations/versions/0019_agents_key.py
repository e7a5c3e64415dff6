"""Whose an entry of low trust is: the agent's key may have told it, or have resolved what somebody trusted told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A column that may be empty: a process of the version before goes on beside it."""
    op.add_column("knowledge_staging", sa.Column("agent_key", sa.String(length=100), nullable=True))
