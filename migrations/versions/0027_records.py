"""Add records of trials, the numbers of each choice, and a workspace's weights; make records of what is stored.

Each embedded entry and each outcome becomes one record. Their arms are computed by the next checkpoint.
"""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE workspaces ADD COLUMN hint_weights double precision[]",
    """ALTER TABLE contexts
    ADD COLUMN reason varchar(20),
    ADD COLUMN situation_key varchar(64),
    ADD COLUMN point_id uuid,
    ADD COLUMN choice jsonb""",
    """CREATE TABLE records (
        id uuid NOT NULL,
        workspace varchar(200) NOT NULL,
        arm_key varchar(64),
        point_id uuid,
        situation_key varchar(64),
        is_exact boolean NOT NULL,
        entry_id uuid,
        outcome_id uuid,
        context_id uuid,
        agent_type varchar(100),
        project_id varchar(200) NOT NULL,
        task_id varchar(200),
        run_id varchar(200),
        worked boolean NOT NULL,
        recorded_at timestamptz NOT NULL,
        recorded_by varchar(100),
        low_trust boolean NOT NULL,
        CONSTRAINT records_pkey PRIMARY KEY (id),
        CONSTRAINT records_entry_id_fkey FOREIGN KEY (entry_id) REFERENCES knowledge_staging (id) ON DELETE CASCADE,
        CONSTRAINT records_outcome_id_fkey FOREIGN KEY (outcome_id) REFERENCES outcomes (id) ON DELETE CASCADE,
        CONSTRAINT records_context_id_fkey FOREIGN KEY (context_id) REFERENCES contexts (id) ON DELETE CASCADE,
        CONSTRAINT records_source_check CHECK (num_nonnulls(entry_id, outcome_id, context_id) = 1),
        CONSTRAINT records_id_check CHECK (id = coalesce(entry_id, outcome_id, context_id))
    )""",
    """INSERT INTO records (id, workspace, point_id, is_exact, entry_id, agent_type, project_id, task_id, run_id,
        worked, recorded_at, recorded_by, low_trust)
    SELECT e.id, e.workspace, s.id, true, e.id, e.agent_type, e.project_id, e.task_id, e.run_id, true,
        e.timestamp, coalesce(e.agent_key, e.captured_by, e.resolved_by), e.low_trust
    FROM knowledge_staging e
    LEFT JOIN LATERAL (SELECT p.id FROM points p WHERE p.id = ANY (e.point_ids)
        ORDER BY p.view = 'situation' DESC, p.id LIMIT 1) s ON true
    WHERE e.status = 'embedded'""",
    """INSERT INTO records (id, workspace, point_id, is_exact, outcome_id, agent_type, project_id, task_id, run_id,
        worked, recorded_at, recorded_by, low_trust)
    SELECT o.id, o.workspace, s.id, false, o.id, c.agent_type, o.project_id, o.task_id, o.run_id, o.worked,
        o.recorded_at, o.recorded_by, o.low_trust
    FROM outcomes o JOIN contexts c ON c.id = o.context_id
    LEFT JOIN LATERAL (SELECT p.id FROM points p WHERE p.pattern_id = o.pattern_id
        ORDER BY p.view = 'situation' DESC, p.embedded_at, p.id LIMIT 1) s ON true""",
    "CREATE INDEX ix_records_point ON records (point_id, low_trust, recorded_at DESC)",
    "CREATE INDEX ix_records_situation ON records (workspace, situation_key)",
    "CREATE INDEX ix_records_unaided ON records (workspace, agent_type, recorded_at DESC) WHERE entry_id IS NULL",
    "CREATE INDEX ix_records_entry ON records (entry_id) WHERE entry_id IS NOT NULL",
    "CREATE INDEX ix_records_outcome ON records (outcome_id) WHERE outcome_id IS NOT NULL",
    "CREATE INDEX ix_records_context ON records (context_id) WHERE context_id IS NOT NULL",
    "CREATE INDEX ix_records_without_arm ON records (workspace, id) WHERE arm_key IS NULL",
    "ALTER TABLE records ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE records FORCE ROW LEVEL SECURITY",
    """CREATE POLICY of_workspace ON records
    USING (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))
    WITH CHECK (workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
