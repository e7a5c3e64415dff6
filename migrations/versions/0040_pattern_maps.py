"""Add the map of patterns: the place of each, and the names of its groups."""

from __future__ import annotations

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_OF_WORKSPACE = """(workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"""

_STATEMENTS = (
    """CREATE TABLE pattern_maps (
        workspace varchar(200) NOT NULL,
        space varchar(64) NOT NULL,
        state text NOT NULL,
        made_at timestamptz NOT NULL,
        group_terms jsonb NOT NULL,
        CONSTRAINT pattern_maps_pkey PRIMARY KEY (workspace)
    )""",
    """CREATE TABLE pattern_places (
        pattern_id uuid NOT NULL,
        workspace varchar(200) NOT NULL,
        x real NOT NULL,
        y real NOT NULL,
        group_number smallint NOT NULL,
        CONSTRAINT pattern_places_pkey PRIMARY KEY (pattern_id),
        CONSTRAINT pattern_places_pattern_id_fkey FOREIGN KEY (pattern_id) REFERENCES patterns (id) ON DELETE CASCADE
    )""",
    "CREATE INDEX ix_pattern_places_group ON pattern_places (workspace, group_number)",
    *(
        statement
        for table in ("pattern_maps", "pattern_places")
        for statement in (
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            f"CREATE POLICY of_workspace ON {table} USING {_OF_WORKSPACE} WITH CHECK {_OF_WORKSPACE}",
        )
    ),
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
