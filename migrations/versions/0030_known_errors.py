"""Add the keys by which an entry is found without the index; those of stored entries are written by checkpoints."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE records ADD COLUMN task_key varchar(64), ADD COLUMN error_key varchar(64)",
    """CREATE INDEX ix_records_task ON records (workspace, task_key, low_trust, recorded_at DESC)
    WHERE task_key IS NOT NULL AND task_key <> ''""",
    """CREATE INDEX ix_records_error ON records (workspace, error_key, low_trust, recorded_at DESC)
    WHERE error_key IS NOT NULL AND error_key <> ''""",
    """CREATE INDEX ix_records_without_keys ON records (workspace, id)
    WHERE entry_id IS NOT NULL AND error_key IS NULL""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
