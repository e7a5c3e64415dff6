"""The tables of answers: cache, events, escalations and feedback."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, UUID

from knowledge.adapters.postgres.tables import NOW, TIME, metadata

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
