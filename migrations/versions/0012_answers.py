"""Answers: kept for a while, told of, escalated, thought well or ill of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. Only new tables: a process of the version before goes on beside them."""
    op.create_table(
        "answer_cache",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("partitions", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "key", name=op.f("answer_cache_pkey")),
    )
    op.create_index("ix_answer_cache_expires_at", "answer_cache", ["expires_at"], unique=False)
    op.create_table(
        "qa_events",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("session", sa.String(length=200), nullable=True),
        sa.Column("step", sa.String(length=200), nullable=True),
        sa.Column("payload", postgresql.JSONB(), nullable=False),
        sa.Column("happened_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("reviewed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("qa_events_pkey")),
    )
    op.create_index("ix_qa_events_latest", "qa_events", ["workspace", "happened_at"], unique=False)
    op.create_table(
        "escalations",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("question_hash", sa.String(length=64), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("transcript", postgresql.JSONB(), nullable=False),
        sa.Column("passage_ids", sa.ARRAY(sa.UUID()), nullable=False),
        sa.Column("suggested_fix", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("asked_at", sa.ARRAY(sa.DateTime(timezone=True)), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("priority", sa.String(length=20), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("priority IN ('normal', 'high')", name="escalations_priority"),
        sa.PrimaryKeyConstraint("id", name=op.f("escalations_pkey")),
    )
    op.create_index(
        "ix_escalations_open",
        "escalations",
        ["workspace", "question_hash"],
        unique=True,
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "answer_feedback",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("answer_id", sa.UUID(), nullable=False),
        sa.Column("up", sa.Boolean(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("given_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "answer_id", name=op.f("answer_feedback_pkey")),
    )
