"""Create the schema of revision 0026 in an empty database.

The statements stand in `0026_baseline.sql`. Each ends with a semicolon at the end of a line, and the next begins
unindented.
"""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    script = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    for statement in re.split(r";\n+(?=\S)", script):
        op.execute(sa.DDL(statement.replace("%", "%%")))  # type: ignore[no-untyped-call]
