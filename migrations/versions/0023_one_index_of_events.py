"""One index of events, not two: the one before could not be used under the policies that keep workspaces apart."""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. By itself, so that whoever reads waits for no index to be built.

    A process of the version before goes on: it names no index, and what is unique stays so.
    """
    op.drop_index("knowledge_staging_event_key", table_name="knowledge_staging")
