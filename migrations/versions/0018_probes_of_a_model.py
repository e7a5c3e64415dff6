"""What a model made of the texts it is known by, to notice another one that answers under its name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A column that may be empty: a process of the version before goes on beside it."""
    op.add_column("embedding_spaces", sa.Column("probes", sa.LargeBinary(), nullable=True))
