"""Patterns have links to others, and keys beyond the one they were founded with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A process of the version before knows neither: what it repeats founds a pattern of its own."""
    op.create_table(
        "match_keys",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("match_key", sa.String(length=64), nullable=False),
        sa.Column("pattern_id", postgresql.UUID(as_uuid=True), nullable=False),
        sa.Column("why", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("ruled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["pattern_id"], ["patterns.id"], name=op.f("match_keys_pattern_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("workspace", "match_key", name=op.f("match_keys_pkey")),
    )
    op.create_index("ix_match_keys_pattern", "match_keys", ["pattern_id"], unique=False)
    op.create_table(
        "links",
        sa.Column("lower_id", postgresql.UUID(as_uuid=True), nullable=False),
        sa.Column("upper_id", postgresql.UUID(as_uuid=True), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("why", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('rival', 'twin', 'apart')", name=op.f("links_kind_check")),
        sa.CheckConstraint("lower_id < upper_id", name=op.f("links_order_check")),
        sa.ForeignKeyConstraint(["lower_id"], ["patterns.id"], name=op.f("links_lower_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["upper_id"], ["patterns.id"], name=op.f("links_upper_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("lower_id", "upper_id", name=op.f("links_pkey")),
    )
    op.create_index("ix_links_upper", "links", ["upper_id"], unique=False)
    op.create_index("ix_links_kind", "links", ["workspace", "kind", "probability"], unique=False)
