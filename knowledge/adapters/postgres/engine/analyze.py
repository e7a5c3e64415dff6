"""ANALYZE and VACUUM as SQLAlchemy statements, which it lacks: names are quoted by the dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable


class Analyze(Executable, sa.ClauseElement):
    """Update the planner statistics of a table, or of some columns of it.

    Not DDL to SQLAlchemy: after that it would prepare every statement again, on every connection.
    """

    inherit_cache = False

    def __init__(self, table: sa.Table, columns: Sequence[str] = ()) -> None:
        self.table = table
        self.columns = columns


@compiles(Analyze)
def _analyze(element: Analyze, compiler: Any, **_: Any) -> str:
    quoted = [compiler.preparer.quote(name) for name in element.columns]
    table = compiler.preparer.format_table(element.table)
    return f"ANALYZE {table} ({', '.join(quoted)})" if quoted else f"ANALYZE {table}"


class Vacuum(Executable, sa.ClauseElement):
    """Vacuum tables; skips those that are locked."""

    inherit_cache = False

    def __init__(self, tables: Sequence[sa.Table]) -> None:
        self.tables = tables


@compiles(Vacuum)
def _vacuum(element: Vacuum, compiler: Any, **_: Any) -> str:
    return f"VACUUM (SKIP_LOCKED) {', '.join(map(compiler.preparer.format_table, element.tables))}"
