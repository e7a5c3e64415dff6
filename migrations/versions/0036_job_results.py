"""Keep when a run of a job began, apart from its heartbeat, and how many items it dealt with."""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    op.execute("ALTER TABLE job_run ADD COLUMN began_at timestamptz, ADD COLUMN dealt_with bigint")
