"""Messages by webhook, in Postgres."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.engine.database import Store, autocommit
from knowledge.adapters.postgres.lists.pattern_pages import read_outcomes
from knowledge.adapters.postgres.memory.counts import is_any_of
from knowledge.adapters.postgres.memory_tables import knowledge_staging, patterns, webhook_events
from knowledge.memory.lists.service import is_sinking
from knowledge.ports import WebhookMessage, WebhookStore

_E = knowledge_staging.c
_P = patterns.c
_W = webhook_events.c
_MAX_NOTICED: Final = 1000
"""Things noticed at a time, ours: the rest a minute later."""
_MAX_OF_MESSAGE: Final = 100
_LOOKED_BACK: Final = timedelta(days=1)
"""Patterns with an attempt since then may have begun to sink, or ceased to; the job looks each minute."""
_SINKING: Final = "sinking"
_STATES: Final = {"waiting": ("quarantined", "open"), "dead": ("dead",)}
"""The states of entries that are told of, by kind."""


class PostgresWebhooks(Store, WebhookStore):
    """Messages by webhook, of the whole store."""

    async def notice(self, now: datetime) -> int:
        async with autocommit(self._engine) as connection:
            for kind, states in _STATES.items():
                await connection.execute(_forget_entries(kind, states))
            sinking, others = await _find_sinking(connection, now)
            await connection.execute(
                sa.delete(webhook_events).where(_W.kind == _SINKING, is_any_of(_W.subject, others))
            )
            found = {(_SINKING, workspace, subject) for workspace, subject in sinking}
            for kind, states in _STATES.items():
                for state in states:
                    rows = await connection.execute(_find_entries(kind, state))
                    found |= {(kind, row.workspace, row.id) for row in rows}
            return await _add(connection, found, now)

    async def due(self, now: datetime) -> list[WebhookMessage]:
        query = (
            sa.select(
                _W.message_id,
                _W.workspace,
                _W.kind,
                sa.func.array_agg(_W.subject).label("subjects"),
                sa.func.min(_W.noticed_at).label("noticed_at"),
                sa.func.max(_W.attempts).label("attempts"),
            )
            .where(_W.ended_at.is_(None), _W.next_at <= now)
            .group_by(_W.message_id, _W.workspace, _W.kind)
            .order_by(sa.func.min(_W.noticed_at), _W.message_id)
        )
        return [
            WebhookMessage(
                message_id=row.message_id,
                workspace=row.workspace,
                kind=row.kind,
                subjects=sorted(row.subjects),
                noticed_at=row.noticed_at,
                attempts=row.attempts,
            )
            for row in await self._all(query)
        ]

    async def end(self, message_id: UUID, now: datetime, error: str | None) -> None:
        await self._write(
            sa.update(webhook_events).where(_W.message_id == message_id).values(ended_at=now, error=error)
        )

    async def postpone(self, message_id: UUID, until: datetime, error: str) -> None:
        tried = {"attempts": _W.attempts + 1, "next_at": until, "error": error}
        await self._write(sa.update(webhook_events).where(_W.message_id == message_id).values(tried))

    async def last_failure(self) -> str | None:
        failing = sa.select(_W.error).where(_W.ended_at.is_(None), _W.error.is_not(None))
        error: str | None = await self._scalar(failing.order_by(_W.noticed_at).limit(1))
        return error


def _is_in(states: Sequence[str]) -> sa.ColumnElement[bool]:
    """Return the condition on an entry's status, with literals for the partial indexes."""
    return sa.or_(*(_E.status == sa.literal(state, literal_execute=True) for state in states))


def _forget_entries(kind: str, states: Sequence[str]) -> sa.Delete:
    """Delete what was noticed of entries that are so no longer: when they are again, it is told again."""
    still = sa.exists().where(_E.id == _W.subject, _is_in(states))
    return sa.delete(webhook_events).where(_W.kind == kind, ~still)


def _find_entries(kind: str, state: str) -> sa.Select[tuple[str, UUID]]:
    """Select entries in a state that were not noticed yet."""
    noticed = sa.exists().where(_W.workspace == _E.workspace, _W.kind == kind, _W.subject == _E.id)
    return sa.select(_E.workspace, _E.id).where(_is_in([state]), ~noticed).order_by(_E.timestamp).limit(_MAX_NOTICED)


async def _find_sinking(connection: AsyncConnection, now: datetime) -> tuple[list[tuple[str, UUID]], list[UUID]]:
    """Return the patterns that sink, with their workspaces, and those that were told to sink and do not."""
    told = sa.select(_W.subject).where(_W.kind == _SINKING)
    tried = sa.and_(_P.last_seen_at >= now - _LOOKED_BACK, _P.attempt_count > _P.success_count)
    either = sa.union(*(sa.select(_P.id, _P.workspace).where(each) for each in (tried, _P.id.in_(told))))
    rows = (await connection.execute(either)).all()
    outcomes = await read_outcomes(connection, [row.id for row in rows])
    sinking = [(row.workspace, row.id) for row in rows if is_sinking(outcomes.get(row.id, ""))]
    ids = {subject for _, subject in sinking}
    return sinking, [subject for subject in (await connection.execute(told)).scalars() if subject not in ids]


async def _add(connection: AsyncConnection, found: set[tuple[str, str, UUID]], now: datetime) -> int:
    """Add messages on things, each of one kind and workspace; those that were noticed before stay as they are."""
    groups: dict[tuple[str, str], list[UUID]] = defaultdict(list)
    for kind, workspace, subject in sorted(found):
        groups[workspace, kind].append(subject)
    rows = []
    for (workspace, kind), subjects in groups.items():
        for start in range(0, len(subjects), _MAX_OF_MESSAGE):
            message_id = uuid4()
            rows += [
                {
                    "workspace": workspace,
                    "kind": kind,
                    "subject": subject,
                    "message_id": message_id,
                    "noticed_at": now,
                    "next_at": now,
                }
                for subject in subjects[start : start + _MAX_OF_MESSAGE]
            ]
    if not rows:
        return 0
    new = insert(webhook_events).on_conflict_do_nothing().returning(_W.subject)
    return len((await connection.execute(new, rows)).all())
