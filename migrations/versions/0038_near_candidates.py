"""Keep with a context the candidates that were too unlike its task, so that a silence explains itself."""

from __future__ import annotations

from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    op.execute("ALTER TABLE contexts ADD COLUMN near jsonb")
