"""Entries know who captured them, some wait for a review, contexts know their entries; the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_OURS = (
    "(workspace = current_setting('hardwon.workspace', true)"
    " OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"
)
_STATUS = "status IN ('open', 'staged', 'embedded', 'dead', 'abandoned', 'quarantined')"
_RESOLUTION = (
    "status IN ('open', 'abandoned', 'quarantined') OR CASE entry_type"
    " WHEN 'failure_solution' THEN coalesce(solution_steps ~ '[^[:space:]]', false) AND success_verified"
    " WHEN 'gate_rejection' THEN coalesce(revision_approach ~ '[^[:space:]]', false)"
    " ELSE true END"
)


def upgrade() -> None:
    """Forward only. A process of the version before captures as before, and neither embeds nor shows what waits.

    The two conditions are looked at for every entry there is: 100,000 take a second, in which captures wait.
    """
    op.add_column("knowledge_staging", sa.Column("captured_by", sa.String(length=100), nullable=True))
    op.add_column("knowledge_staging", sa.Column("resolved_by", sa.String(length=100), nullable=True))
    op.add_column(
        "knowledge_staging", sa.Column("low_trust", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column(
        "knowledge_staging",
        sa.Column("suspicions", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
    )
    for name, condition in (("status", _STATUS), ("resolution", _RESOLUTION)):
        op.drop_constraint(op.f(f"knowledge_staging_{name}_check"), "knowledge_staging", type_="check")
        op.create_check_constraint(op.f(f"knowledge_staging_{name}_check"), "knowledge_staging", condition)
    op.create_index(
        "ix_knowledge_staging_quarantined",
        "knowledge_staging",
        ["workspace", "timestamp", "id"],
        postgresql_where=sa.text("status = 'quarantined'"),
    )
    op.add_column(
        "contexts",
        sa.Column("entry_ids", postgresql.ARRAY(sa.UUID()), server_default=sa.text("'{}'::uuid[]"), nullable=False),
    )
    op.create_table(
        "audit_log",
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(length=200), nullable=False),
        sa.Column("what", sa.String(length=100), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("before", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "number > 0 AND octet_length(before) = 32 AND octet_length(hash) = 32", name=op.f("audit_log_chain_check")
        ),
        sa.PrimaryKeyConstraint("workspace", "number", name=op.f("audit_log_pkey")),
    )
    op.execute("ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE audit_log FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY of_workspace ON audit_log USING {_OURS} WITH CHECK {_OURS}")
