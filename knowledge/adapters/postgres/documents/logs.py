"""Lines of logs, selected and counted by Postgres."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from hardwon.models.documents import DocumentId, LogLine, Severity
from hardwon.models.log_query import LineFilter
from knowledge.adapters.postgres.document_tables import kb_documents, kb_lines
from knowledge.adapters.postgres.documents.rows import SHOWN, D, finite_time, in_scope
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.documents.access import Scope
from knowledge.documents.ports import LogStore

_L = kb_lines.c
_LINES = kb_lines.join(kb_documents, sa.and_(D.id == _L.document_id, D.active_generation == _L.generation))

_PATH = r"(?:^|[\s\"'=(\[])(/[A-Za-z_][\w.-]*(?:/[\w.-]+)*)"
"""A path as lines name it, without what follows a question mark: not a part of an address, a date or a division."""

_NUMBER = re.compile(r"\d+(?:\.\d+)*")


class PostgresLogs(WorkspaceStore, LogStore):
    """Lines of the visible logs of one workspace."""

    async def by_severity(self, log: DocumentId, scope: Scope, only: LineFilter) -> Mapping[str, int]:
        return dict(await self._counted(sa.func.coalesce(_L.severity, ""), self._fitting(log, scope, only)))

    async def span(self, log: DocumentId, scope: Scope) -> tuple[datetime | None, datetime | None]:
        ends = (sa.func.min(_L.ts), sa.func.max(_L.ts))
        query = sa.select(*ends).select_from(_LINES).where(sa.func.isfinite(_L.ts))
        first, last = await self._one(query.where(*self._fitting(log, scope, LineFilter())))
        return first, last

    async def templates(self, log: DocumentId, scope: Scope, only: LineFilter, *, limit: int) -> list[tuple[str, int]]:
        return await self._counted(_L.template, [*self._fitting(log, scope, only), _L.template != ""], limit)

    async def paths(self, log: DocumentId, scope: Scope, only: LineFilter, *, limit: int) -> list[tuple[str, int]]:
        path = sa.func.substring(_L.text, _PATH)
        return await self._counted(path, [*self._fitting(log, scope, only), path != ""], limit)

    async def _counted(
        self, of: sa.ColumnElement[str], fitting: Sequence[sa.ColumnElement[bool]], limit: int | None = None
    ) -> list[tuple[str, int]]:
        """Return the values that lines have of a column, with how many lines each, the most first."""
        number = sa.func.count()
        query = sa.select(of, number).select_from(_LINES).where(*fitting)
        query = query.group_by(sa.text("1")).order_by(number.desc(), sa.text("1")).limit(limit)
        return [(value, count) for value, count in await self._all(query)]

    async def select(
        self, log: DocumentId, scope: Scope, only: LineFilter, *, last_first: bool = False, limit: int
    ) -> tuple[int, list[LogLine]]:
        fitting = self._fitting(log, scope, only)
        order = _L.line.desc() if last_first else _L.line.asc()
        some = sa.select(*_L).select_from(_LINES).where(*fitting).order_by(order).limit(limit)
        async with autocommit(self._engine) as connection:
            total = await connection.scalar(sa.select(sa.func.count()).select_from(_LINES).where(*fitting))
            rows = (await connection.execute(some)).all() if limit else []
        return total or 0, [_line(row) for row in rows]

    async def around(self, log: DocumentId, scope: Scope, line: int, *, neighbours: int) -> list[LogLine]:
        near = _L.line.between(line - neighbours, line + neighbours)
        query = sa.select(*_L).select_from(_LINES).where(*self._fitting(log, scope, LineFilter()), near)
        return [_line(row) for row in await self._all(query.order_by(_L.line))]

    def _fitting(self, log: DocumentId, scope: Scope, only: LineFilter) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of the visible lines of a log that fit a filter."""
        fitting = [in_scope(scope, self._workspace), SHOWN, _L.document_id == log, *map(_holds, only.terms)]
        if only.severities:
            fitting.append(_L.severity.in_([str(each) for each in only.severities]))
        if only.status is not None:
            number = only.status.replace("x", "[0-9]")
            fitting.append(_L.text.op("~")(rf'" {number}( |$)'))  # behind the quoted request
        if only.since is not None:
            fitting.append(_L.ts >= only.since)
        if only.until is not None:
            fitting.append(_L.ts <= only.until)
        return fitting


def _holds(term: str) -> sa.ColumnElement[bool]:
    """Return the condition that a line holds a term, in whatever case.

    A number, or an address of numbers, has to stand alone: 10.0.0.4 is none of 10.0.0.40, nor 500 of 1500.
    """
    if _NUMBER.fullmatch(term):
        return _L.text.op("~")(rf"(?<![\w.]){re.escape(term)}(?!\w|\.\w)")
    lower = sa.func.lower  # of both by its own rules
    return sa.func.strpos(lower(_L.text), lower(term)) > 0


def _line(row: sa.Row[tuple[object, ...]]) -> LogLine:
    told = row._mapping  # noqa: SLF001 - SQLAlchemy's name for it
    return LogLine(
        line=told["line"],
        text=told["text"],
        timestamp=finite_time(told["ts"]),
        severity=told["severity"] and Severity(told["severity"]),
        template=told["template"],
    )
