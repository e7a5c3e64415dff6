"""Lines of logs, selected and counted by Postgres."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.database import reading, within
from knowledge.adapters.postgres.document_rows import SHOWN, D, in_scope, moment_of
from knowledge.adapters.postgres.document_tables import kb_documents, kb_lines
from knowledge.documents.access import Scope
from knowledge.documents.models import DocumentId, LogLine, Severity
from knowledge.documents.ports import LogStore
from knowledge.documents.statuses import pattern_of

_L = kb_lines.c
_LINES = kb_lines.join(kb_documents, sa.and_(D.id == _L.document_id, D.active_generation == _L.generation))

_PATH = r"(?:^|[\s\"'=(\[])(/[A-Za-z_][\w.-]*(?:/[\w.-]+)*)"
"""A path as lines name it, without what follows a question mark: not a part of an address, a date or a division."""

_NUMBER = re.compile(r"\d+(?:\.\d+)*")


class PostgresLogs(LogStore):
    """Lines of the visible logs of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str) -> None:
        self._engine = within(engine, workspace)
        self._workspace = workspace

    async def by_severity(self, documents: Collection[DocumentId], scope: Scope) -> Mapping[str, int]:
        named = sa.func.coalesce(_L.severity, "")
        query = sa.select(named, sa.func.count()).select_from(_LINES).where(self._among(documents, scope))
        async with reading(self._engine) as connection:
            return {row[0]: row[1] for row in await connection.execute(query.group_by(named))}

    async def span(self, documents: Collection[DocumentId], scope: Scope) -> tuple[datetime | None, datetime | None]:
        ends = (sa.func.min(_L.ts), sa.func.max(_L.ts))
        query = sa.select(*ends).select_from(_LINES).where(sa.func.isfinite(_L.ts))
        async with reading(self._engine) as connection:
            row = (await connection.execute(query.where(self._among(documents, scope)))).one()
        return row[0], row[1]

    async def templates(
        self,
        documents: Collection[DocumentId],
        scope: Scope,
        *,
        severities: Collection[Severity] = (),
        terms: Collection[str] = (),
        limit: int,
    ) -> list[tuple[str, int]]:
        asked = [self._among(documents, scope), *_fitting(severities, terms), _L.template != ""]
        return await self._most(_L.template, asked, limit)

    async def paths(
        self,
        documents: Collection[DocumentId],
        scope: Scope,
        *,
        severities: Collection[Severity] = (),
        terms: Collection[str] = (),
        limit: int,
    ) -> list[tuple[str, int]]:
        path = sa.func.substring(_L.text, _PATH)
        return await self._most(path, [self._among(documents, scope), *_fitting(severities, terms), path != ""], limit)

    async def _most(
        self, of: sa.ColumnElement[str], asked: Sequence[sa.ColumnElement[bool]], limit: int
    ) -> list[tuple[str, int]]:
        """Return what most lines have of something, with how many lines, the most first."""
        number = sa.func.count()
        query = sa.select(of, number).select_from(_LINES).where(*asked)
        query = query.group_by(sa.text("1")).order_by(number.desc(), sa.text("1")).limit(limit)
        async with reading(self._engine) as connection:
            return [(row[0], row[1]) for row in await connection.execute(query)]

    async def select(
        self,
        documents: Collection[DocumentId],
        scope: Scope,
        *,
        severities: Collection[Severity] = (),
        terms: Collection[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        last_first: bool = False,
        limit: int,
    ) -> tuple[int, list[tuple[DocumentId, LogLine]]]:
        asked = [self._among(documents, scope), *_fitting(severities, terms)]
        if since is not None:
            asked.append(_L.ts >= since)
        if until is not None:
            asked.append(_L.ts <= until)
        columns = (D.uri, _L.document_id, _L.line)
        order = [each.desc() if last_first else each.asc() for each in columns]
        some = sa.select(*_L).select_from(_LINES).where(*asked).order_by(*order).limit(limit)
        async with reading(self._engine) as connection:
            total = await connection.scalar(sa.select(sa.func.count()).select_from(_LINES).where(*asked))
            rows = (await connection.execute(some)).all() if limit else []
        return total or 0, [_line(row) for row in rows]

    async def around(
        self, documents: Collection[DocumentId], scope: Scope, line: int, *, neighbours: int
    ) -> list[tuple[DocumentId, LogLine]]:
        near = _L.line.between(line - neighbours, line + neighbours)
        query = sa.select(*_L).select_from(_LINES).where(self._among(documents, scope), near)
        async with reading(self._engine) as connection:
            return [_line(row) for row in await connection.execute(query.order_by(D.uri, _L.document_id, _L.line))]

    def _among(self, documents: Collection[DocumentId], scope: Scope) -> sa.ColumnElement[bool]:
        named = _L.document_id == sa.any_(sa.literal(list(documents), sa.ARRAY(sa.UUID)))
        return sa.and_(in_scope(scope, self._workspace), SHOWN, named)


def _fitting(severities: Collection[Severity], terms: Collection[str]) -> list[sa.ColumnElement[bool]]:
    """Return what lines of these severities have to fulfil that hold each of these terms, in whatever case.

    A number, or an address of numbers, has to stand alone: 10.0.0.4 is none of 10.0.0.40, nor 500 of 1500; a status has
    to stand where access logs have it.
    """
    lower = sa.func.lower  # of both by its own rules

    def holds(term: str) -> sa.ColumnElement[bool]:
        if status := pattern_of(term):
            return _L.text.op("~")(status)
        if _NUMBER.fullmatch(term):
            return _L.text.op("~")(rf"(?<![\w.]){re.escape(term)}(?!\w|\.\w)")
        return sa.func.strpos(lower(_L.text), lower(term)) > 0

    asked = [holds(term) for term in terms]
    return [*asked, _L.severity.in_([str(each) for each in severities])] if severities else asked


def _line(row: sa.Row[tuple[object, ...]]) -> tuple[DocumentId, LogLine]:
    told = row._mapping  # noqa: SLF001 - SQLAlchemy's name for it
    return DocumentId(told["document_id"]), LogLine(
        line=told["line"],
        text=told["text"],
        timestamp=moment_of(told["ts"]),
        severity=told["severity"] and Severity(told["severity"]),
        template=told["template"],
    )
