"""Documents of knowledge bases: their texts, the passages they are cut into, and who may see them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. Only new tables: a process of the version before goes on beside them."""
    op.create_table(
        "kb_grants",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("kb", sa.String(length=50), nullable=False),
        sa.Column("scope_id", sa.String(length=200), nullable=False),
        sa.Column("principal", sa.String(length=200), nullable=False),
        sa.Column("granted_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "kb", "scope_id", "principal", name=op.f("kb_grants_pkey")),
    )
    op.create_index("ix_kb_grants_principal", "kb_grants", ["workspace", "principal"], unique=False)
    op.create_table(
        "kb_partitions",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("workspace", "partition", name=op.f("kb_partitions_pkey")),
    )
    op.create_table(
        "kb_scales",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("space", sa.String(length=64), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("passages", sa.Integer(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("low < high", name=op.f("kb_scales_order_check")),
        sa.PrimaryKeyConstraint("workspace", "space", name=op.f("kb_scales_pkey")),
    )
    op.create_table(
        "kb_sources",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("branch", sa.String(length=200), nullable=True),
        sa.Column("subdir", sa.Text(), server_default="", nullable=False),
        sa.Column("globs", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("last_commit", sa.String(length=64), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("synced_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("kb_sources_pkey")),
        sa.UniqueConstraint("workspace", "partition", "url", "subdir", name="kb_sources_url"),
    )
    op.create_table(
        "kb_terms",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("term", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("passages", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "partition", "term", name=op.f("kb_terms_pkey")),
    )
    op.create_table(
        "kb_vectors",
        sa.Column("space", sa.String(length=64), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("space", "text_hash", name=op.f("kb_vectors_pkey")),
    )
    op.create_table(
        "kb_documents",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("partition", sa.String(length=200), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=True),
        sa.Column("source_id", sa.UUID(), nullable=True),
        sa.Column("mark", sa.Text(), nullable=True),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("latest", sa.Integer(), nullable=False),
        sa.Column("active_generation", sa.Integer(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_token", sa.UUID(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("added_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("indexed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("status <> 'failed' OR error IS NOT NULL", name=op.f("kb_documents_error_check")),
        sa.CheckConstraint(
            "status <> 'indexed' OR active_generation IS NOT DISTINCT FROM latest",
            name=op.f("kb_documents_generation_check"),
        ),
        sa.CheckConstraint("lease_token IS NULL OR status = 'pending'", name=op.f("kb_documents_leased_check")),
        sa.CheckConstraint(
            "status IN ('pending', 'indexed', 'failed', 'deleting')", name=op.f("kb_documents_status_check")
        ),
        sa.CheckConstraint("(lease_token IS NULL) = (lease_until IS NULL)", name=op.f("kb_documents_lease_check")),
        sa.ForeignKeyConstraint(
            ["source_id"], ["kb_sources.id"], name=op.f("kb_documents_source_id_fkey"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["workspace", "partition"],
            ["kb_partitions.workspace", "kb_partitions.partition"],
            name=op.f("kb_documents_workspace_partition_fkey"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("kb_documents_pkey")),
    )
    op.create_index(
        "ix_kb_documents_deleting",
        "kb_documents",
        ["workspace"],
        unique=False,
        postgresql_where=sa.text("status = 'deleting'"),
    )
    op.create_index(
        "ix_kb_documents_pending",
        "kb_documents",
        ["workspace", "added_at", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index("ix_kb_documents_source", "kb_documents", ["source_id"], unique=False)
    op.create_index(
        "kb_documents_uri",
        "kb_documents",
        ["workspace", "partition", sa.literal_column("md5(uri)")],
        unique=True,
        postgresql_where=sa.text("status <> 'deleting'"),
    )
    op.create_table(
        "kb_versions",
        sa.Column("document_id", sa.UUID(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("document_type", sa.String(length=20), nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("lines", sa.Integer(), nullable=False),
        sa.Column("pages", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'::integer[]"), nullable=False),
        sa.Column("notes", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("space", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["document_id"], ["kb_documents.id"], name=op.f("kb_versions_document_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("document_id", "generation", name=op.f("kb_versions_pkey")),
    )
    op.create_table(
        "kb_chunks",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("document_id", sa.UUID(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("section", sa.Text(), nullable=True),
        sa.Column("function", sa.Text(), nullable=True),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("char_start", sa.Integer(), nullable=False),
        sa.Column("char_end", sa.Integer(), nullable=False),
        sa.Column("line_start", sa.Integer(), nullable=False),
        sa.Column("line_end", sa.Integer(), nullable=False),
        sa.Column("ts", sa.DateTime(timezone=True), nullable=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("severities", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("terms", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.CheckConstraint("kind IN ('chunk', 'summary')", name=op.f("kb_chunks_kind_check")),
        sa.ForeignKeyConstraint(
            ["document_id", "generation"],
            ["kb_versions.document_id", "kb_versions.generation"],
            name=op.f("kb_chunks_document_id_generation_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("kb_chunks_pkey")),
        sa.UniqueConstraint("document_id", "generation", "ordinal", name="kb_chunks_place"),
    )
    op.create_index("ix_kb_chunks_text_hash", "kb_chunks", ["text_hash"], unique=False)
    op.create_table(
        "kb_lines",
        sa.Column("document_id", sa.UUID(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("line", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ts", sa.DateTime(timezone=True), nullable=True),
        sa.Column("severity", sa.String(length=10), nullable=True),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id", "generation"],
            ["kb_versions.document_id", "kb_versions.generation"],
            name=op.f("kb_lines_document_id_generation_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("document_id", "generation", "line", name=op.f("kb_lines_pkey")),
    )
