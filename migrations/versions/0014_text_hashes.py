"""What the texts of a document were, by their hashes: two stores can see whether one only knows more than the other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A process of the version before writes versions as it did: the trigger sees to the rest."""
    op.add_column(
        "kb_documents",
        sa.Column("text_hashes", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
    )
    op.execute(
        """
        CREATE FUNCTION remember_text() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE kb_documents
            SET text_hashes = (text_hashes - (NEW.generation - 1000)::text)
                || jsonb_build_object(NEW.generation, NEW.text_hash)
            WHERE id = NEW.document_id;
            RETURN NULL;
        END $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER remember_text AFTER INSERT ON kb_versions
        FOR EACH ROW EXECUTE FUNCTION remember_text()
        """
    )
    op.execute(
        "UPDATE kb_documents SET text_hashes = kept.text_hashes FROM"
        " (SELECT document_id, jsonb_object_agg(generation, text_hash) AS text_hashes FROM kb_versions"
        " GROUP BY document_id) kept WHERE kept.document_id = kb_documents.id"
    )
