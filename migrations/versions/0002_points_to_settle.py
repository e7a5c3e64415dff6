"""Points say whether the index may differ from them, and whether their words were counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A process of the version before goes on meanwhile: it writes neither column, and counts itself."""
    op.add_column("points", sa.Column("counted", sa.Boolean(), server_default=sa.text("true"), nullable=False))
    op.add_column("points", sa.Column("look_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_points_look_at",
        "points",
        ["workspace", "look_at"],
        unique=False,
        postgresql_where=sa.text("look_at IS NOT NULL"),
    )
    op.create_index(
        "ix_points_uncounted", "points", ["workspace"], unique=False, postgresql_where=sa.text("NOT counted")
    )
