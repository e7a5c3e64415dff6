"""A made-up revision after the head, so that tests upgrade a store of this version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from knowledge.adapters.postgres.engine import migrate
from knowledge.adapters.postgres.engine.migrate import head_revision

NEXT = f"{int(head_revision()) + 1:04}"
_SCRIPT = f"""
from alembic import op

revision = "{NEXT}"
down_revision = "{head_revision()}"


def upgrade() -> None:
    op.execute("ALTER TABLE patterns ADD COLUMN added_later text")
    op.execute("ALTER TABLE knowledge_staging ADD COLUMN added_later text")
"""


def add_next_revision(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `migrate` find one more revision, which adds a column to the patterns, then to the entries."""
    copy = folder / "migrations"
    shutil.copytree(Path(__file__).resolve().parents[2] / "migrations", copy)
    (copy / "versions" / f"{NEXT}_next.py").write_text(_SCRIPT, encoding="utf-8")
    monkeypatch.setattr(migrate, "_FOLDER", copy)
    monkeypatch.setattr(migrate, "head_revision", head_revision.__wrapped__)
