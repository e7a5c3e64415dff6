"""Keep with a pattern what lists sort and filter by: when it was last seen, and the names that its entries have.

All patterns get them here, and each change of their evidence renews them.
"""

from __future__ import annotations

from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """ALTER TABLE patterns
    ADD COLUMN last_seen_at timestamptz DEFAULT now() NOT NULL,
    ADD COLUMN technologies text[] DEFAULT '{}'::text[] NOT NULL,
    ADD COLUMN agents text[] DEFAULT '{}'::text[] NOT NULL,
    ADD COLUMN projects text[] DEFAULT '{}'::text[] NOT NULL,
    ADD COLUMN trusted boolean DEFAULT true NOT NULL""",
    """UPDATE patterns SET
        last_seen_at = greatest(of.seen, (
            SELECT max(recorded_at) FROM outcomes WHERE outcomes.pattern_id = patterns.id)),
        technologies = coalesce(of.technologies[1:50], '{}'),
        agents = coalesce(of.agents[1:50], '{}'),
        projects = coalesce(of.projects[1:50], '{}'),
        trusted = of.trusted
    FROM (
        SELECT pattern_id, max(timestamp) AS seen,
            array_agg(DISTINCT technology::text) FILTER (WHERE technology IS NOT NULL) AS technologies,
            array_agg(DISTINCT agent_type::text) FILTER (WHERE agent_type IS NOT NULL) AS agents,
            array_agg(DISTINCT project_id::text) FILTER (WHERE project_id IS NOT NULL) AS projects,
            bool_or(NOT low_trust) AS trusted
        FROM knowledge_staging WHERE status = 'embedded' GROUP BY pattern_id
    ) AS of
    WHERE of.pattern_id = patterns.id""",
    "CREATE INDEX ix_patterns_seen ON patterns (workspace, last_seen_at DESC, id) WHERE success_count > 0",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
