"""Rows of a workspace are closed to whoever works in another one."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_OURS = (
    "(workspace = current_setting('hardwon.workspace', true)"
    " OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"
)
_OWNED = (
    "projects",
    "workspaces",
    "knowledge_staging",
    "patterns",
    "points",
    "match_keys",
    "links",
    "checkpoints",
    "contexts",
    "outcomes",
    "lexicon",
)
_THROUGH = {
    "vectors": "(EXISTS (SELECT 1 FROM points WHERE points.id = vectors.point_id))",
    "distillations": "(EXISTS (SELECT 1 FROM patterns WHERE patterns.id = distillations.pattern_id))",
    "distilled_from": "(EXISTS (SELECT 1 FROM patterns WHERE patterns.id = distilled_from.pattern_id))",
}


def upgrade() -> None:
    """Forward only. A process of the version before names no workspace and owns the tables: it works on as it did."""
    for table, condition in {**dict.fromkeys(_OWNED, _OURS), **_THROUGH}.items():
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY of_workspace ON {table} USING {condition} WITH CHECK {condition}")
