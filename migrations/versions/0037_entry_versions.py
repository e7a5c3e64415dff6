"""Add the history of entries: the texts that a person's correction replaced."""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """CREATE TABLE entry_versions (
        entry_id uuid NOT NULL,
        number integer NOT NULL,
        workspace varchar(200) NOT NULL,
        replaced_at timestamptz NOT NULL,
        replaced_by varchar(200) NOT NULL,
        reason text,
        texts jsonb NOT NULL,
        CONSTRAINT entry_versions_pkey PRIMARY KEY (entry_id, number),
        CONSTRAINT entry_versions_entry_id_fkey FOREIGN KEY (entry_id)
            REFERENCES knowledge_staging (id) ON DELETE CASCADE
    )""",
    "ALTER TABLE entry_versions ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE entry_versions FORCE ROW LEVEL SECURITY",
    """CREATE POLICY of_workspace ON entry_versions
    USING (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))
    WITH CHECK (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
