"""The opposite of revision 0030, which the product does not have."""

from __future__ import annotations

_FUNCTIONS = "count_knowledge_staging, count_patterns, count_points, count_checkpoints, count_vectors"
_INDEXES = (
    "ix_knowledge_staging_decided",
    "ix_points_page",
    "ix_checkpoints_finished",
    "ix_contexts_project",
    "ix_contexts_reason",
    "ix_outcomes_recorded",
    "ix_outcomes_project",
    "ix_records_silent",
)
BEFORE_COUNTERS = (
    f"DROP FUNCTION {_FUNCTIONS}, delete_vectors_first CASCADE",
    "DROP TABLE counters",
    "ALTER TABLE workspaces DROP COLUMN profile_rules, DROP COLUMN profiled_until",
    f"DROP INDEX {', '.join(_INDEXES)}",
    "UPDATE alembic_version SET version_num = '0030'",
)
"""Statements, to be run in order."""
