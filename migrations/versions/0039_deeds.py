"""Add deeds: decisions of people that are done after a grace period, in which they can be undone."""

from __future__ import annotations

from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """CREATE TABLE deeds (
        id uuid NOT NULL,
        workspace varchar(200) NOT NULL,
        kind varchar(20) NOT NULL,
        subject uuid NOT NULL,
        others uuid[] DEFAULT '{}'::uuid[] NOT NULL,
        who varchar(200) NOT NULL,
        decided_at timestamptz NOT NULL,
        due_at timestamptz NOT NULL,
        state varchar(20) NOT NULL,
        claimed_at timestamptz,
        ended_at timestamptz,
        ended_by varchar(200),
        error text,
        CONSTRAINT deeds_pkey PRIMARY KEY (id),
        CONSTRAINT deeds_state_check CHECK (state IN ('waiting', 'running', 'done', 'undone', 'failed')),
        CONSTRAINT deeds_kind_check
            CHECK (kind IN ('approve', 'reject', 'join', 'split', 'delete_entry', 'delete_pattern'))
    )""",
    """CREATE UNIQUE INDEX deeds_subject ON deeds (workspace, subject)
    WHERE state IN ('waiting', 'running')""",
    "CREATE INDEX ix_deeds_due ON deeds (due_at) WHERE state IN ('waiting', 'running')",
    "CREATE INDEX ix_deeds_decided ON deeds (workspace, decided_at DESC, id)",
    "ALTER TABLE deeds ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE deeds FORCE ROW LEVEL SECURITY",
    """CREATE POLICY of_workspace ON deeds
    USING (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))
    WITH CHECK (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
