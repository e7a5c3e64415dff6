"""What a workspace spends at endpoints, by the day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_OURS = (
    "(workspace = current_setting('hardwon.workspace', true)"
    " OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"
)


def upgrade() -> None:
    """Forward only. Only a new table: a process of the version before goes on beside it, and counts nothing."""
    op.create_table(
        "spending",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("day", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("tokens >= 0", name="spending_tokens"),
        sa.PrimaryKeyConstraint("workspace", "day", name=op.f("spending_pkey")),
    )
    op.execute("ALTER TABLE spending ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE spending FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY of_workspace ON spending USING {_OURS} WITH CHECK {_OURS}")
