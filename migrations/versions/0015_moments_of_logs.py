"""Lines and passages of logs tell of no moment that Postgres has and nobody can read."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. What a process of the version before writes of such lines meanwhile is read as no moment, too."""
    op.execute("UPDATE kb_lines SET ts = NULL WHERE ts IN ('infinity', '-infinity')")
    op.execute(
        "UPDATE kb_chunks SET ts = CASE WHEN isfinite(ts) THEN ts END, until = CASE WHEN isfinite(until) THEN until END"
        " WHERE ts IN ('infinity', '-infinity') OR until IN ('infinity', '-infinity')"
    )
