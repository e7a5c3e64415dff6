"""Add the profiles of entries' texts. Those of stored entries are written by the next prune."""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """CREATE TABLE entry_profiles (
        entry_id uuid NOT NULL,
        workspace varchar(200) NOT NULL,
        rules integer NOT NULL,
        arm_key varchar(64) NOT NULL,
        situation bytea NOT NULL,
        task bytea,
        resolution bytea NOT NULL,
        CONSTRAINT entry_profiles_pkey PRIMARY KEY (entry_id),
        CONSTRAINT entry_profiles_entry_id_fkey FOREIGN KEY (entry_id)
            REFERENCES knowledge_staging (id) ON DELETE CASCADE
    )""",
    "ALTER TABLE entry_profiles ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE entry_profiles FORCE ROW LEVEL SECURITY",
    """CREATE POLICY of_workspace ON entry_profiles
    USING (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))
    WITH CHECK (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
