"""One index of the entries of a pattern, not two: that of trust finds them as well."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. By itself, so that whoever reads waits for no index to be built.

    A process of the version before goes on: it names no index.
    """
    op.drop_index("ix_knowledge_staging_pattern", table_name="knowledge_staging")
