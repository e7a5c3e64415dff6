"""Lines of logs, selected and counted by Postgres."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any

import sqlalchemy as sa

from hardwon.models.documents import Document, DocumentId, LogLine
from hardwon.models.log_query import LineFilter
from knowledge.adapters.postgres.document_tables import kb_documents, kb_lines
from knowledge.adapters.postgres.documents.rows import ALIVE, COUNTED, D, V, documents, in_scope, to_document, to_line
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.documents.access import Scope
from knowledge.documents.ports import MAX_ENTRY_LINES, FieldCounts, LogStore

_L = kb_lines.c

_PATH = r"(?:^|[\s\"'=(\[])(/[A-Za-z_][\w.-]*(?:/[\w.-]+)*)"
"""A path as lines name it, without what follows a question mark: not a part of an address, a date or a division."""

_AT_KEY = r"(?i)(?:^|[\s\"'{,;(\[&?|])"
_SYSLOG = (
    r"^(?:<\d{1,3}>)?(?:1 )?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?) "
)
_FIELDS: Mapping[str, tuple[str | None, tuple[str, ...]]] = {
    "address": (
        None,
        (
            r"(?:^|[^\w.])((?:\d{1,3}\.){3}\d{1,3})(?:[^\w.]|\.?$|\.\s)",
            r"(?i)(?:^|[^\w:])((?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6})",
        ),
    ),
    "host": ("host|hostname|host_name|server|node|machine", (_SYSLOG + r"([\w.-]+) [\w./()-]+(?:\[\d+\])?:",)),
    "program": (
        "program|process|service|component|app|application|daemon|module",
        (_SYSLOG + r"[\w.-]+ ([\w./-]+)(?:\([\w.-]+\))?(?:\[\d+\])?:",),
    ),
    "user": (
        "user|username|user_name|userid|user_id|login|account",
        (
            r"\y(?:[Ii]nvalid |[Ff]or |[Ii]llegal )user ([\w.@-]+)",
            r"\y(?:Failed|Accepted) \S+ for ([\w.@-]+) from ",
            r"\ysudo(?:\[\d+\])?: +([\w.@-]+) :",
            r"^\S+ \S+ ([\w.@-]*\w[\w.@-]*) \[\d\d/",
        ),
    ),
    "method": ("method|http_method|request_method", (r"\y(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\y",)),
    "status": ("status|status_code|statuscode|http_status|code", (r"\" ([1-5]\d\d)(?: |$)",)),
    "exception": ("exception|error_type|exception_class", (r"\y((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Exception|Error))\y",)),
    "thread": ("thread|threadname|thread_name", (r"^\S+[ T][\d:.,]+\S* +(?:[A-Z]+ +)?\[([^\]]+)\]",)),
    "class": ("class|logger|logger_name|loggername", (r"\y((?:[a-z_]\w*\.)+[A-Z][\w$]*)\y",)),
    "path": ("path|uri|url|endpoint|route", (_PATH,)),
}
"""How lines name fields: the keys of JSON or key=value, and what stands without a key in the forms of syslog, sshd,
access logs and Java, the first that a line has."""
_UNITS = {"day": "YYYY-MM-DD", "hour": 'YYYY-MM-DD"T"HH24:00', "minute": 'YYYY-MM-DD"T"HH24:MI'}

_NUMBER = re.compile(r"\d+(?:\.\d+)*")


class PostgresLogs(WorkspaceStore, LogStore):
    """Lines of the visible logs of one workspace."""

    async def documents(self, scope: Scope) -> list[Document]:
        query = documents(COUNTED).add_columns(COUNTED.label("counted")).where(in_scope(scope, self._workspace), ALIVE)
        rows = await self._all(query.where(COUNTED.is_not(None)).order_by(V.title, D.uri))
        return [replace(to_document(row), generation=row.counted, version=row.counted) for row in rows]

    async def by_severity(self, log: DocumentId, scope: Scope, only: LineFilter) -> Mapping[str, int]:
        severity = sa.func.coalesce(_L.severity, "").label("severity")
        number = sa.func.count().label("number")
        query = sa.select(severity, number).select_from(kb_lines).where(*self._fitting(log, scope, only))
        return {row.severity: row.number for row in await self._all(query.group_by(severity))}

    async def span(self, log: DocumentId, scope: Scope) -> tuple[datetime | None, datetime | None]:
        ends = (sa.func.min(_L.ts), sa.func.max(_L.ts))
        query = sa.select(*ends).select_from(kb_lines).where(sa.func.isfinite(_L.ts))
        first, last = await self._one(query.where(*self._fitting(log, scope, LineFilter())))
        return first, last

    async def fields(
        self, log: DocumentId, scope: Scope, only: LineFilter, field: str, *, zone: tzinfo, limit: int
    ) -> FieldCounts:
        if unit := _UNITS.get(field):
            offset = zone.utcoffset(None) or timedelta(0)
            value: sa.ColumnElement[Any] = sa.func.to_char(sa.func.timezone("UTC", _L.ts) + offset, unit)
        else:
            value = _L.template if field == "template" else _field_of_line(field)
        number = sa.func.count()
        each = sa.select(value.label("value")).select_from(kb_lines).where(*self._fitting(log, scope, only))
        by_line = each.offset(0).subquery()  # else the value is read of each line twice
        counted = (
            sa.select(by_line.c.value, number.label("number"))
            .where(by_line.c.value != "")
            .group_by(by_line.c.value)
            .subquery()
        )
        totals = (sa.func.count().over().label("values"), sa.func.sum(counted.c.number).over().label("lines"))
        order = () if unit else (counted.c.number.desc(),)
        query = sa.select(counted, *totals).order_by(*order, counted.c.value).limit(limit)
        rows = await self._all(query)
        return FieldCounts(
            tuple((row.value, row.number) for row in rows),
            values=rows[0].values if rows else 0,
            lines=int(rows[0].lines) if rows else 0,
        )

    async def select(
        self, log: DocumentId, scope: Scope, only: LineFilter, *, last_first: bool = False, limit: int
    ) -> tuple[int, list[LogLine]]:
        fitting = self._fitting(log, scope, only)
        order = _L.line.desc() if last_first else _L.line.asc()
        some = sa.select(*_L).select_from(kb_lines).where(*fitting).order_by(order).limit(limit)
        async with autocommit(self._engine) as connection:
            total = await connection.scalar(sa.select(sa.func.count()).select_from(kb_lines).where(*fitting))
            rows = (await connection.execute(some)).all() if limit else []
        return total or 0, [to_line(row) for row in rows]

    async def holding(self, scope: Scope, terms: Sequence[str], *, limit: int) -> list[tuple[DocumentId, LogLine, int]]:
        return await self._placed(self._shown(scope).where(*map(_holds, terms)).limit(limit))

    async def numbered(
        self, logs: Collection[DocumentId], scope: Scope, numbers: Sequence[int]
    ) -> list[tuple[DocumentId, LogLine, int]]:
        ours = (_L.document_id.in_(logs), _L.line.in_(numbers))
        return await self._placed(self._shown(scope).where(*ours).order_by(_L.document_id, _L.line))

    async def entry_like(
        self, log: DocumentId, scope: Scope, line: int, only: LineFilter
    ) -> tuple[list[LogLine], int] | None:
        model = kb_lines.alias("model")
        like = sa.exists().where(
            model.c.document_id == _L.document_id,
            model.c.generation == _L.generation,
            model.c.template == _L.template,
            model.c.line == line,
        )
        shown = self._shown(scope).where(*self._fitting(log, scope, only), like)
        first = await self._placed(shown.order_by(_L.line).limit(1))
        if not first:
            return None
        _, head, at = first[0]
        below = await self._all(
            self._shown(scope)
            .where(_L.document_id == log, _L.line.between(head.line + 1, head.line + MAX_ENTRY_LINES - 1))
            .order_by(_L.line)
        )
        return [head, *takewhile(lambda each: each.timestamp is None, map(to_line, below))], at

    def _shown(self, scope: Scope) -> sa.Select[Any]:
        """Return the selection of the lines of shown logs."""
        shown = sa.and_(D.id == _L.document_id, D.active_generation == _L.generation)
        return (
            sa.select(*_L)
            .select_from(kb_lines.join(kb_documents, shown))
            .where(in_scope(scope, self._workspace), ALIVE)
        )

    async def _placed(self, lines: sa.Select[Any]) -> list[tuple[DocumentId, LogLine, int]]:
        """Return lines with their logs and their offsets in these."""
        before = kb_lines.alias("before")
        offset = sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(before.c.text) + 1), 0))
        found = []
        for row in await self._all(lines):
            at = await self._scalar(
                offset.where(
                    before.c.document_id == row.document_id,
                    before.c.generation == row.generation,
                    before.c.line < row.line,
                )
            )
            found.append((DocumentId(row.document_id), to_line(row), int(at or 0)))
        return found

    async def around(self, log: DocumentId, scope: Scope, line: int, *, neighbours: int) -> list[LogLine]:
        near = _L.line.between(line - neighbours, line + neighbours)
        query = sa.select(*_L).select_from(kb_lines).where(*self._fitting(log, scope, LineFilter()), near)
        return [to_line(row) for row in await self._all(query.order_by(_L.line))]

    def _fitting(self, log: DocumentId, scope: Scope, only: LineFilter) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of the visible lines of a log that fit a filter."""
        ours = (D.id == log, in_scope(scope, self._workspace), ALIVE)
        counted = sa.select(COUNTED).select_from(kb_documents).where(*ours).scalar_subquery()  # once, not for each line
        fitting = [_L.document_id == log, _L.generation == counted, *map(_holds, only.terms)]
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


def _field_of_line(field: str) -> sa.ColumnElement[str]:
    """Return what a line names as a field: by a key, else by its form."""
    keys, forms = _FIELDS.get(field, (re.escape(field).replace(r"\-", "-"), ()))
    patterns = list(forms)
    if keys is not None:
        key = rf"{_AT_KEY}(?:{keys})[\"']?\s*[=:]\s*"
        patterns[:0] = [rf"{key}\"([^\"]*)\"", rf"{key}([^\s\"',;&}}\])|{{\[]+)"]
    return sa.func.coalesce(*(sa.func.nullif(sa.func.substring(_L.text, each), "") for each in patterns))


def _holds(term: str) -> sa.ColumnElement[bool]:
    """Return the condition that a line holds a term, in whatever case.

    A number, or an address of numbers, has to stand alone: 10.0.0.4 is none of 10.0.0.40, nor 500 of 1500.
    """
    if _NUMBER.fullmatch(term):
        return _L.text.op("~")(rf"(?<![\w.]){re.escape(term)}(?!\w|\.\w)")
    lower = sa.func.lower  # of both by its own rules
    return sa.func.strpos(lower(_L.text), lower(term)) > 0
