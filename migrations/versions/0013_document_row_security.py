"""Documents, and what was asked of them, are closed to whoever works in another workspace."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_OURS = (
    "(workspace = current_setting('hardwon.workspace', true)"
    " OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"
)
_OWNED = (
    "kb_partitions",
    "kb_grants",
    "kb_sources",
    "kb_documents",
    "kb_vectors",
    "kb_terms",
    "kb_scales",
    "answer_cache",
    "qa_events",
    "escalations",
    "answer_feedback",
)
_THROUGH = {
    "kb_versions": "(EXISTS (SELECT 1 FROM kb_documents WHERE kb_documents.id = kb_versions.document_id))",
    "kb_chunks": "(EXISTS (SELECT 1 FROM kb_documents WHERE kb_documents.id = kb_chunks.document_id))",
    "kb_lines": "(EXISTS (SELECT 1 FROM kb_documents WHERE kb_documents.id = kb_lines.document_id))",
}


def upgrade() -> None:
    """Forward only. A process of the version before names no workspace and owns the tables: it works on as it did.

    Embeddings, which all workspaces shared, become those of each one that has the text. What a process of the version
    before keeps after that belongs to none (''): the next comparison has such documents indexed again.
    """
    op.add_column("kb_vectors", sa.Column("workspace", sa.String(length=200), server_default="", nullable=False))
    op.drop_constraint(op.f("kb_vectors_pkey"), "kb_vectors", type_="primary")
    op.create_primary_key(op.f("kb_vectors_pkey"), "kb_vectors", ["workspace", "space", "text_hash"])
    op.execute(
        "INSERT INTO kb_vectors (workspace, space, text_hash, vector, made_at)"
        " SELECT holding.workspace, v.space, v.text_hash, v.vector, v.made_at FROM kb_vectors v JOIN"
        " (SELECT DISTINCT d.workspace, c.text_hash FROM kb_documents d JOIN kb_chunks c ON c.document_id = d.id)"
        " holding ON holding.text_hash = v.text_hash"
    )
    op.execute("DELETE FROM kb_vectors WHERE workspace = ''")
    for table, condition in {**dict.fromkeys(_OWNED, _OURS), **_THROUGH}.items():
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY of_workspace ON {table} USING {condition} WITH CHECK {condition}")
