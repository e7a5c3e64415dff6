"""A made-up revision after the head, so that tests upgrade a store of this version."""

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
