"""The tables of documents, in addition to `tables.py`. Texts are in `kb_versions`, `kb_chunks` and `kb_lines`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, UUID

from knowledge.adapters.postgres.memory_tables import NOW, TIME, metadata

_ID = UUID(as_uuid=True)
answer_cache = sa.Table(
    "answer_cache",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("partitions", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("expires_at", TIME, nullable=False),
)
"""Cached answers, by a key that includes the versions of all their sources: an outdated one is never found. Deleted
when one of its `partitions` changes, in the same transaction; after expiry with the next new answer or by
`reconcile`."""
sa.Index("ix_answer_cache_expires_at", answer_cache.c.expires_at)
qa_events = sa.Table(
    "qa_events",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("session", sa.String(200)),
    sa.Column("step", sa.String(200)),
    sa.Column("payload", JSONB, nullable=False),
    sa.Column("happened_at", TIME, nullable=False, server_default=NOW),
    sa.Column("reviewed", sa.Boolean, nullable=False, server_default=sa.false()),
)
"""Events of questions."""
sa.Index("ix_qa_events_latest", qa_events.c.workspace, qa_events.c.happened_at)
escalations = sa.Table(
    "escalations",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("question_hash", sa.String(64), nullable=False),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("transcript", JSONB, nullable=False),
    sa.Column("passage_ids", sa.ARRAY(_ID), nullable=False),
    sa.Column("suggested_fix", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("asked_at", sa.ARRAY(TIME), nullable=False),
    sa.Column("due_at", TIME, nullable=False),
    sa.Column("priority", sa.String(20), nullable=False),
    sa.Column("closed_at", TIME),
    sa.CheckConstraint("priority IN ('normal', 'high')", name="escalations_priority"),
)
"""Questions that the documents do not answer; an open one counts every time it was asked."""
sa.Index(
    "ix_escalations_open",
    escalations.c.workspace,
    escalations.c.question_hash,
    unique=True,
    postgresql_where=escalations.c.closed_at.is_(None),
)
answer_feedback = sa.Table(
    "answer_feedback",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("answer_id", _ID, primary_key=True),
    sa.Column("up", sa.Boolean, nullable=False),
    sa.Column("comment", sa.Text),
    sa.Column("given_at", TIME, nullable=False),
)
"""Feedback of people on answers."""
_EMPTY = sa.text("'{}'::text[]")
kb_partitions = sa.Table(
    "kb_partitions",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("partition", sa.String(200), primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("closed_at", TIME),
)
"""Partitions of documents. `version` is incremented with every visible change, under a lock of the row, so that changes
of a partition are serial."""
kb_grants = sa.Table(
    "kb_grants",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("kb", sa.String(50), primary_key=True),
    sa.Column("scope_id", sa.String(200), primary_key=True),
    sa.Column("principal", sa.String(200), primary_key=True),
    sa.Column("granted_at", TIME, nullable=False, server_default=NOW),
)
"""Grants of single cases, and memberships of teams."""
sa.Index("ix_kb_grants_principal", kb_grants.c.workspace, kb_grants.c.principal)
kb_sources = sa.Table(
    "kb_sources",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("partition", sa.String(200), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("branch", sa.String(200)),
    sa.Column("subdir", sa.Text, nullable=False, server_default=""),
    sa.Column("globs", sa.ARRAY(sa.Text), nullable=False, server_default=_EMPTY),
    sa.Column("last_commit", sa.String(64)),
    sa.Column("last_error", sa.Text),
    sa.Column("synced_at", TIME),
    sa.UniqueConstraint("workspace", "partition", "url", "subdir", name="kb_sources_url"),
)
"""Git repositories whose files are documents."""
kb_documents = sa.Table(
    "kb_documents",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("partition", sa.String(200), nullable=False),
    sa.Column("uri", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("link", sa.Text),
    sa.Column("source_id", _ID),
    sa.Column("mark", sa.Text),
    sa.Column("content_hash", sa.String(64), nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("latest", sa.Integer, nullable=False),
    sa.Column("active_generation", sa.Integer),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("not_before", TIME),
    sa.Column("lease_token", _ID),
    sa.Column("lease_until", TIME),
    sa.Column("added_at", TIME, nullable=False, server_default=NOW),
    sa.Column("indexed_at", TIME),
    sa.Column("text_hashes", JSONB, nullable=False, server_default=sa.text("'{}'::jsonb")),
    sa.CheckConstraint("status IN ('pending', 'indexed', 'failed', 'deleting')", name="status"),
    sa.CheckConstraint("status <> 'failed' OR error IS NOT NULL", name="error"),
    sa.CheckConstraint("(lease_token IS NULL) = (lease_until IS NULL)", name="lease"),
    sa.CheckConstraint("lease_token IS NULL OR status = 'pending'", name="leased"),
    sa.CheckConstraint("status <> 'indexed' OR active_generation IS NOT DISTINCT FROM latest", name="generation"),
    sa.ForeignKeyConstraint(["workspace", "partition"], ["kb_partitions.workspace", "kb_partitions.partition"]),
    sa.ForeignKeyConstraint(["source_id"], ["kb_sources.id"], ondelete="SET NULL"),
)
"""Documents, and the queue of those to be indexed. `latest` is the generation that came last, `active_generation` the
one whose passages are shown; a document that is being deleted is shown by nothing. `text_hashes`: what the text of each
generation was, of the last thousand."""
_D = kb_documents.c
sa.Index(
    "kb_documents_uri",
    _D.workspace,
    _D.partition,
    sa.text("md5(uri)"),
    unique=True,
    postgresql_where=sa.text("status <> 'deleting'"),
)
sa.Index(
    "ix_kb_documents_pending",
    _D.workspace,
    _D.added_at,
    _D.id,
    postgresql_where=sa.text("status = 'pending'"),
)
sa.Index("ix_kb_documents_deleting", _D.workspace, postgresql_where=sa.text("status = 'deleting'"))
sa.Index("ix_kb_documents_source", _D.source_id)
kb_versions = sa.Table(
    "kb_versions",
    metadata,
    sa.Column("document_id", _ID, primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("document_type", sa.String(20), nullable=False),
    sa.Column("category", sa.Text),
    sa.Column("tags", sa.ARRAY(sa.Text), nullable=False, server_default=_EMPTY),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("text_hash", sa.String(64), nullable=False),
    sa.Column("lines", sa.Integer, nullable=False),
    sa.Column("pages", sa.ARRAY(sa.Integer), nullable=False, server_default=sa.text("'{}'::integer[]")),
    sa.Column("notes", sa.ARRAY(sa.Text), nullable=False, server_default=_EMPTY),
    sa.Column("space", sa.String(64)),
    sa.ForeignKeyConstraint(["document_id"], ["kb_documents.id"], ondelete="CASCADE"),
)
"""The texts of a document's generations: the one shown, and the next one to index. Redacted before they get here."""
REMEMBERING = (
    """CREATE FUNCTION remember_text() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE kb_documents
        SET text_hashes = (text_hashes - (NEW.generation - 1000)::text)
            || jsonb_build_object(NEW.generation, NEW.text_hash)
        WHERE id = NEW.document_id;
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER remember_text AFTER INSERT ON kb_versions
    FOR EACH ROW EXECUTE FUNCTION remember_text()""",
)
"""Texts are deleted when newer ones are shown, their hashes stay, by a trigger: the release before writes versions too,
and knows nothing of hashes. Writers hold the document's row meanwhile."""


@sa.event.listens_for(metadata, "after_create")
def _remember(_: sa.MetaData, connection: sa.Connection, **__: object) -> None:
    for statement in REMEMBERING:
        connection.execute(sa.text(statement))


kb_chunks = sa.Table(
    "kb_chunks",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("document_id", _ID, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("text_hash", sa.LargeBinary, nullable=False),
    sa.Column("section", sa.Text),
    sa.Column("function", sa.Text),
    sa.Column("page", sa.Integer),
    sa.Column("char_start", sa.Integer, nullable=False),
    sa.Column("char_end", sa.Integer, nullable=False),
    sa.Column("line_start", sa.Integer, nullable=False),
    sa.Column("line_end", sa.Integer, nullable=False),
    sa.Column("ts", TIME),
    sa.Column("until", TIME),
    sa.Column("severities", sa.ARRAY(sa.Text), nullable=False, server_default=_EMPTY),
    sa.Column("terms", sa.ARRAY(sa.BigInteger), nullable=False),
    sa.CheckConstraint("kind IN ('chunk', 'summary')", name="kind"),
    sa.ForeignKeyConstraint(
        ["document_id", "generation"], ["kb_versions.document_id", "kb_versions.generation"], ondelete="CASCADE"
    ),
    sa.UniqueConstraint("document_id", "generation", "ordinal", name="kb_chunks_place"),
)
"""Chunks of texts, one point of the index each, with the same id. `terms`: the distinct terms of the text."""
sa.Index("ix_kb_chunks_text_hash", kb_chunks.c.text_hash)
kb_vectors = sa.Table(
    "kb_vectors",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True, server_default=""),
    sa.Column("space", sa.String(64), primary_key=True),
    sa.Column("text_hash", sa.LargeBinary, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sa.Column("made_at", TIME, nullable=False, server_default=NOW),
)
"""The embedding of a chunk's text in a space, as float16: a text is embedded once in a workspace, and a rebuild needs
no call. Embeddings of another workspace are not reused: a fast answer would reveal that the text is there."""
kb_lines = sa.Table(
    "kb_lines",
    metadata,
    sa.Column("document_id", _ID, primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("line", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ts", TIME),
    sa.Column("severity", sa.String(10)),
    sa.Column("template", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(
        ["document_id", "generation"], ["kb_versions.document_id", "kb_versions.generation"], ondelete="CASCADE"
    ),
)
"""The lines of logs, so that counts and single lines are exact."""
kb_terms = sa.Table(
    "kb_terms",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("partition", sa.String(200), primary_key=True),
    sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("passages", sa.BigInteger, nullable=False),
)
"""The number of shown passages of a partition that contain a term; the row of term -1 counts the passages."""
kb_scales = sa.Table(
    "kb_scales",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("space", sa.String(64), primary_key=True),
    sa.Column("low", sa.Float, nullable=False),
    sa.Column("high", sa.Float, nullable=False),
    sa.Column("passages", sa.Integer, nullable=False),
    sa.Column("measured_at", TIME, nullable=False, server_default=NOW),
    sa.CheckConstraint("low < high", name="order"),
)
"""The range of cosines in a space, measured on a workspace's own passages: `low` is relevance 0, `high` is 1."""
__all__ = ["metadata"]
