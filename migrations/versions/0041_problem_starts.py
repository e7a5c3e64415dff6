"""Keep with a pattern the beginning of its problem: what a list is sorted by, without reading the entries of all."""

from __future__ import annotations

from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE patterns ADD COLUMN problem_start text DEFAULT '' NOT NULL",
    """UPDATE patterns SET problem_start = of.problem
    FROM (
        SELECT DISTINCT ON (pattern_id) pattern_id,
            lower(left(coalesce(failure_description, proposal, human_feedback, task_description, ''), 200)) AS problem
        FROM knowledge_staging WHERE status = 'embedded' AND pattern_id IS NOT NULL
        ORDER BY pattern_id, low_trust,
            CASE WHEN entry_type <> 'failure_solution' THEN 0 WHEN verified_by IS NOT NULL THEN 1 ELSE 2 END,
            embedded_at DESC, id
    ) AS of
    WHERE of.pattern_id = patterns.id""",
    "CREATE INDEX ix_patterns_problem ON patterns (workspace, problem_start, id) WHERE success_count > 0",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
