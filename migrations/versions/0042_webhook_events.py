"""Add what is told by webhook: one row for each thing that was noticed, as long as it is so."""

from __future__ import annotations

from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_OF_WORKSPACE = """(workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"""

_STATEMENTS = (
    """CREATE TABLE webhook_events (
        workspace varchar(200) NOT NULL,
        kind varchar(20) NOT NULL,
        subject uuid NOT NULL,
        message_id uuid NOT NULL,
        noticed_at timestamptz NOT NULL,
        attempts integer DEFAULT 0 NOT NULL,
        next_at timestamptz NOT NULL,
        ended_at timestamptz,
        error text,
        CONSTRAINT webhook_events_pkey PRIMARY KEY (workspace, kind, subject),
        CONSTRAINT webhook_events_kind_check CHECK (kind IN ('waiting', 'sinking', 'dead'))
    )""",
    "CREATE INDEX ix_webhook_events_due ON webhook_events (next_at) WHERE ended_at IS NULL",
    "CREATE INDEX ix_webhook_events_message ON webhook_events (message_id)",
    "ALTER TABLE webhook_events ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE webhook_events FORCE ROW LEVEL SECURITY",
    f"CREATE POLICY of_workspace ON webhook_events USING {_OF_WORKSPACE} WITH CHECK {_OF_WORKSPACE}",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
