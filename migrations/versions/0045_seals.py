"""Add seals of rows, the chains of their writers, and heads over them: the first start after it seals what is there."""

from __future__ import annotations

from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

_OF_WORKSPACE = """(workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"""

_STATEMENTS = (
    *(
        f"ALTER TABLE {table} ADD COLUMN seal bytea"
        for table in (
            "knowledge_staging",
            "patterns",
            "outcomes",
            "records",
            "match_keys",
            "links",
            "distillations",
            "embedding_spaces",
            "deeds",
            "workspaces",
        )
    ),
    """CREATE TABLE seal_chains (
        id uuid NOT NULL,
        workspace varchar(200) NOT NULL,
        number bigint NOT NULL,
        rows bigint NOT NULL,
        masked bytea NOT NULL,
        seal bytea NOT NULL,
        CONSTRAINT seal_chains_pkey PRIMARY KEY (id)
    )""",
    "CREATE INDEX ix_seal_chains_workspace ON seal_chains (workspace)",
    "ALTER TABLE seal_chains ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE seal_chains FORCE ROW LEVEL SECURITY",
    f"CREATE POLICY of_workspace ON seal_chains USING {_OF_WORKSPACE} WITH CHECK {_OF_WORKSPACE}",
    """CREATE TABLE seal_heads (
        number bigint NOT NULL,
        at timestamptz NOT NULL,
        details text NOT NULL,
        before bytea NOT NULL,
        seal bytea NOT NULL,
        CONSTRAINT seal_heads_pkey PRIMARY KEY (number)
    )""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
