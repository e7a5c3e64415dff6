"""Add counters, the triggers that keep them, and indexes for statements that read a table for a page.

The statements stand in `0031_counters.sql`. Each ends with a semicolon at the end of a line, and the next begins
unindented. The triggers come first: creating them waits for writers and keeps others out, so that nothing changes
between the counts and the first change that a trigger counts.
"""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    script = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    for statement in re.split(r";\n+(?=\S)", script):
        op.execute(sa.DDL(statement.replace("%", "%%")))  # type: ignore[no-untyped-call]
