"""ANALYZE and VACUUM as statements of SQLAlchemy, which has none: names are quoted as the dialect quotes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable


class Analyze(Executable, sa.ClauseElement):
    """Have Postgres look anew at how the values of a table, or of some columns of it, are spread.

    No DDL to SQLAlchemy: after that it would have every statement prepared anew, on every connection.
    """

    inherit_cache = False

    def __init__(self, table: sa.Table, columns: Sequence[str] = ()) -> None:
        self.table = table
        self.columns = columns


@compiles(Analyze)
def _analyze(element: Analyze, compiler: Any, **_: Any) -> str:
    quoted = [compiler.preparer.quote(name) for name in element.columns]
    told = compiler.preparer.format_table(element.table)
    return f"ANALYZE {told} ({', '.join(quoted)})" if quoted else f"ANALYZE {told}"


class Vacuum(Executable, sa.ClauseElement):
    """Have Postgres use the room again that deleted rows of tables take; what somebody else is at is passed over."""

    inherit_cache = False

    def __init__(self, tables: Sequence[sa.Table]) -> None:
        self.tables = tables


@compiles(Vacuum)
def _vacuum(element: Vacuum, compiler: Any, **_: Any) -> str:
    return f"VACUUM (SKIP_LOCKED) {', '.join(map(compiler.preparer.format_table, element.tables))}"
