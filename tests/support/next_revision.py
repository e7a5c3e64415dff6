"""A made-up revision after the head, so that tests upgrade a store of this version; and the way back before 0031."""

from __future__ import annotations

import shutil
from pathlib import Path

from knowledge.adapters.postgres.engine.migrate import head_revision
from knowledge.wiring.stores import migration_scripts

NEXT = f"{int(head_revision(migration_scripts())) + 1:04}"
_SCRIPT = f"""
from alembic import op

revision = "{NEXT}"
down_revision = "{head_revision(migration_scripts())}"


def upgrade() -> None:
    op.execute("ALTER TABLE patterns ADD COLUMN added_later text")
    op.execute("ALTER TABLE knowledge_staging ADD COLUMN added_later text")
"""


def add_next_revision(folder: Path) -> Path:
    """Return scripts with one more revision, which adds a column to the patterns, then to the entries."""
    copy = folder / "migrations"
    shutil.copytree(migration_scripts(), copy)
    (copy / "versions" / f"{NEXT}_next.py").write_text(_SCRIPT, encoding="utf-8")
    return copy


_FUNCTIONS = "count_knowledge_staging, count_patterns, count_points, count_checkpoints, count_vectors"
_INDEXES = (
    "ix_patterns_seen",
    "ix_patterns_problem",
    "ix_knowledge_staging_latest",
    "ix_knowledge_staging_decided",
    "ix_points_page",
    "ix_checkpoints_finished",
    "ix_contexts_project",
    "ix_contexts_reason",
    "ix_outcomes_recorded",
    "ix_outcomes_project",
    "ix_records_silent",
)
_SEALED = (
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
_PATTERN_COLUMNS = ("last_seen_at", "technologies", "agents", "projects", "trusted", "problem_start", "tags")
BEFORE_COUNTERS = (
    *(f"ALTER TABLE {table} DROP COLUMN seal" for table in _SEALED),
    "DROP TABLE seal_chains, seal_heads",
    f"DROP FUNCTION {_FUNCTIONS}, delete_vectors_first CASCADE",
    "DROP VIEW entry_search",
    "DROP FUNCTION store_words, delete_words, search_query, search_words CASCADE",
    "DROP TABLE entry_words, ended_sessions, webhook_events, pattern_maps, pattern_places",
    "DROP TABLE deeds, entry_versions, counters",
    "ALTER TABLE workspaces DROP COLUMN profile_rules, DROP COLUMN profiled_until",
    f"DROP INDEX {', '.join(_INDEXES)}",
    f"ALTER TABLE patterns {', '.join(f'DROP COLUMN {name}' for name in _PATTERN_COLUMNS)}",
    "ALTER TABLE contexts DROP COLUMN near",
    "ALTER TABLE knowledge_staging DROP COLUMN dead_ends, DROP COLUMN outside_text",
    "ALTER TABLE job_run DROP COLUMN began_at, DROP COLUMN dealt_with",
    "UPDATE alembic_version SET version_num = '0030'",
)
"""The opposite of revision 0031, which the product does not have: statements, to be run in order."""
