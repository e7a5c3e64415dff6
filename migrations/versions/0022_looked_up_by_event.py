"""What tells of a task is found by an index, also under the policies that keep workspaces apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. No row is written anew, only an index, of what is unique already.

    A process of the version before goes on: it names no index.
    """
    op.create_index(
        "knowledge_staging_event",
        "knowledge_staging",
        [
            "workspace",
            "project_id",
            sa.text("(CASE WHEN task_id IS NULL THEN '' ELSE task_id END)"),
            sa.text("(CASE WHEN run_id IS NULL THEN '' ELSE run_id END)"),
            "content_hash",
        ],
        unique=True,
    )
