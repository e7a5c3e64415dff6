"""The further idempotency keys of events: none of them stands for two."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_OURS = (
    "(workspace = current_setting('hardwon.workspace', true)"
    " OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"
)


def upgrade() -> None:
    """Forward only. Only a new table: a process of the version before goes on beside it, and keeps no further key."""
    op.create_table(
        "further_keys",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("entry_id", sa.UUID(), nullable=False),
        sa.Column("project_id", sa.String(length=200), nullable=False),
        sa.Column("task_id", sa.String(length=200), nullable=True),
        sa.Column("run_id", sa.String(length=200), nullable=True),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"],
            ["knowledge_staging.id"],
            name=op.f("further_keys_entry_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workspace", "idempotency_key", name=op.f("further_keys_pkey")),
    )
    op.create_index("ix_further_keys_entry", "further_keys", ["entry_id"], unique=False)
    op.execute("ALTER TABLE further_keys ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE further_keys FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY of_workspace ON further_keys USING {_OURS} WITH CHECK {_OURS}")
