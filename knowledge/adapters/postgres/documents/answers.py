"""The cache of answers, and the journal of questions, escalations and feedback, in Postgres."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.errors import NotFound
from hardwon.models.answers import Escalation, EscalationId, Event, EventId, Priority
from hardwon.validation import as_integer
from knowledge.adapters.postgres.document_tables import (
    answer_cache,
    answer_feedback,
    escalations,
    kb_partitions,
    qa_events,
)
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit, transaction
from knowledge.documents.answer_cache import AnswerCache
from knowledge.documents.journal import (
    MAX_OCCURRENCES,
    WEEK,
    Journal,
    NewEscalation,
    one_business_day_after,
    question_hash,
)
from knowledge.documents.models import PartitionVersion
from knowledge.ports import Clock

_A = answer_cache.c
_E = qa_events.c
_S = escalations.c
_F = answer_feedback.c
_P = kb_partitions.c


class PostgresAnswers(WorkspaceStore, AnswerCache):
    """Answers of one workspace; expiry goes by `clock`."""

    def __init__(self, engine: AsyncEngine, workspace: str, clock: Clock) -> None:
        super().__init__(engine, workspace)
        self._clock = clock

    async def get(self, key: str) -> str | None:
        query = sa.select(_A.answer).where(
            _A.workspace == self._workspace, _A.key == key, _A.expires_at > self._clock.now()
        )
        async with autocommit(self._engine) as connection:
            found: str | None = (await connection.execute(query)).scalar()
        return found

    async def put(self, key: str, answer: str, versions: Sequence[PartitionVersion], *, lifetime: timedelta) -> None:
        row = insert(answer_cache).values(
            workspace=self._workspace,
            key=key,
            partitions=[each.partition for each in versions],
            answer=answer,
            expires_at=self._clock.now() + lifetime,
        )
        keep = row.on_conflict_do_update(
            index_elements=[_A.workspace, _A.key],
            set_={"answer": row.excluded.answer, "expires_at": row.excluded.expires_at},
        )
        async with transaction(self._engine) as connection:
            # an answer can be computed again: it is worth less than an fsync
            await connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
            if await self._lock_versions(connection, versions):
                await connection.execute(keep)
            await connection.execute(self._delete_expired())

    async def _lock_versions(self, connection: AsyncConnection, versions: Sequence[PartitionVersion]) -> bool:
        """Return whether partitions have these versions, and lock them until the transaction ends.

        A change of one waits for that, and then deletes the cached answers; a partition being changed is not waited
        for.
        """
        names = sa.literal([each.partition for each in versions], sa.ARRAY(sa.Text))
        in_partitions = sa.and_(_P.workspace == self._workspace, _P.partition == sa.any_(names))
        query = sa.select(_P.partition, _P.version).where(in_partitions).order_by(_P.partition)
        rows = await connection.execute(query.with_for_update(read=True, skip_locked=True))
        found = {row.partition: row.version for row in rows}
        return all(found.get(each.partition, 0) == each.version for each in versions)

    async def purge(self) -> int:
        return await self._write(self._delete_expired())

    def _delete_expired(self) -> sa.Delete:
        """Return the statement that deletes expired answers; it runs with each new one.

        Rows that others are renewing are skipped: two would deadlock.
        """
        is_expired = (_A.workspace == self._workspace, _A.expires_at <= self._clock.now())
        free = sa.select(_A.key).where(*is_expired).with_for_update(skip_locked=True)
        return sa.delete(answer_cache).where(*is_expired, _A.key.in_(free))


class PostgresJournal(WorkspaceStore, Journal):
    """The journal of one workspace."""

    async def record(self, event: Event) -> None:
        row = insert(qa_events).values(
            id=event.event_id,
            workspace=self._workspace,
            name=event.name,
            session=_to_storable(event.session),
            step=_to_storable(event.step),
            payload=_to_storable(event.payload),
            happened_at=event.happened_at,
            reviewed=event.reviewed,
        )
        async with transaction(self._engine) as connection:
            await connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
            await connection.execute(row.on_conflict_do_nothing())

    async def events(
        self, *, name: str | None = None, session: str | None = None, limit: int = 100, after: EventId | None = None
    ) -> list[Event]:
        limit = as_integer("limit", limit, least=1, most=MAX_LISTED)
        query = sa.select(qa_events).where(_E.workspace == self._workspace)
        if name is not None:
            query = query.where(_E.name == _to_storable(name))
        if session is not None:
            query = query.where(_E.session == _to_storable(session))
        query = query.order_by(_E.happened_at.desc(), _E.id).limit(limit)
        async with autocommit(self._engine) as connection:
            if after is not None:
                before = sa.select(_E.happened_at).where(_E.workspace == self._workspace, _E.id == after)
                at = await connection.scalar(before)
                if at is None:
                    raise NotFound(f"there is no event {after} to continue from: begin with the first page")
                query = query.where(sa.or_(_E.happened_at < at, sa.and_(_E.happened_at == at, _E.id > after)))
            return [_to_event(row) for row in await connection.execute(query)]

    async def review(self, event_id: EventId) -> None:
        done = sa.update(qa_events).where(_E.workspace == self._workspace, _E.id == event_id).values(reviewed=True)
        async with transaction(self._engine) as connection:
            if not (await connection.execute(done)).rowcount:
                raise NotFound(f"there is no event {event_id} in workspace {self._workspace}")

    async def escalate(self, new: NewEscalation, now: datetime) -> Escalation:
        row = insert(escalations).values(
            id=uuid4(),
            workspace=self._workspace,
            question_hash=question_hash(new.question),
            question=new.question,
            transcript=_to_storable(new.transcript),
            passage_ids=list(new.passage_ids),
            suggested_fix=new.suggested_fix,
            created_at=now,
            asked_at=[now],
            due_at=one_business_day_after(now),
            priority=Priority.NORMAL,
        )
        count = sa.func.cardinality(_S.asked_at)
        last = _S.asked_at[count - MAX_OCCURRENCES + 2 : count]
        again = row.on_conflict_do_update(
            index_elements=[_S.workspace, _S.question_hash],
            index_where=_S.closed_at.is_(None),
            set_={
                "asked_at": sa.func.array_append(last, row.excluded.created_at),
                "passage_ids": row.excluded.passage_ids,
                "transcript": row.excluded.transcript,
                "priority": sa.case((_S.asked_at[count] > now - WEEK, Priority.HIGH), else_=_S.priority),
            },
        ).returning(escalations)
        return _to_escalation(await self._one(again), now)

    async def escalations(
        self, now: datetime, *, overdue: bool = False, limit: int = 100, after: EscalationId | None = None
    ) -> list[Escalation]:
        limit = as_integer("limit", limit, least=1, most=MAX_LISTED)
        query = sa.select(escalations).where(_S.workspace == self._workspace, _S.closed_at.is_(None))
        if overdue:
            query = query.where(_S.due_at < now)
        less_urgent = sa.case((_S.priority == Priority.HIGH, 0), else_=1)
        query = query.order_by(less_urgent, _S.due_at, _S.id).limit(limit)
        async with autocommit(self._engine) as connection:
            if after is not None:
                last = sa.select(less_urgent, _S.due_at).where(_S.workspace == self._workspace, _S.id == after)
                row = (await connection.execute(last)).first()
                if row is None:
                    raise NotFound(f"there is no escalation {after} to continue from: begin with the first page")
                later = sa.or_(_S.due_at > row.due_at, sa.and_(_S.due_at == row.due_at, _S.id > after))
                query = query.where(sa.or_(less_urgent > row[0], sa.and_(less_urgent == row[0], later)))
            return [_to_escalation(row, now) for row in await connection.execute(query)]

    async def close(self, escalation_id: EscalationId, now: datetime) -> None:
        done = (
            sa.update(escalations)
            .where(_S.workspace == self._workspace, _S.id == escalation_id)
            .values(closed_at=sa.func.coalesce(_S.closed_at, now))
        )
        async with transaction(self._engine) as connection:
            if not (await connection.execute(done)).rowcount:
                raise NotFound(f"there is no escalation {escalation_id} in workspace {self._workspace}")

    async def feedback(self, answer_id: UUID, *, up: bool, comment: str | None, now: datetime) -> None:
        row = insert(answer_feedback).values(
            workspace=self._workspace, answer_id=answer_id, up=up, comment=_to_storable(comment), given_at=now
        )
        keep = row.on_conflict_do_update(
            index_elements=[_F.workspace, _F.answer_id],
            set_={"up": row.excluded.up, "comment": row.excluded.comment, "given_at": row.excluded.given_at},
        )
        has_answer = sa.select(sa.exists().where(_E.workspace == self._workspace, _E.id == answer_id))
        async with transaction(self._engine) as connection:
            if not await connection.scalar(has_answer):
                raise NotFound(f"there is no answer {answer_id} in workspace {self._workspace}")
            await connection.execute(keep)

    async def feedback_of(self, answer_id: UUID) -> tuple[bool, str | None] | None:
        query = sa.select(_F.up, _F.comment).where(_F.workspace == self._workspace, _F.answer_id == answer_id)
        row = await self._first(query)
        return None if row is None else (row.up, row.comment)

    async def prune(self, before: datetime, *, limit: int) -> int:
        pruned = 0
        # the role of a workspace may not delete its records
        async with transaction(self._store) as connection:
            for table, key, at in (
                (qa_events, _E.id, _E.happened_at),
                (escalations, _S.id, _S.closed_at),
                (answer_feedback, _F.answer_id, _F.given_at),
            ):
                mine = table.c.workspace == self._workspace
                old = sa.select(key).where(mine, at < before).order_by(at).limit(limit)
                pruned += (await connection.execute(sa.delete(table).where(mine, key.in_(old)))).rowcount
        return pruned


MAX_LISTED = 10_000
"""Events or escalations returned by one call; ours."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def _to_storable(value: Any) -> Any:
    """Return a text, or all texts in a payload, with characters replaced that Postgres cannot store."""
    match value:
        case str():
            return _UNSTORABLE.sub("\ufffd", value)
        case Mapping():
            return {_to_storable(key): _to_storable(part) for key, part in value.items()}
        case list() | tuple():
            return [_to_storable(each) for each in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def _to_event(row: sa.Row[Any]) -> Event:
    return Event(
        event_id=EventId(row.id),
        name=row.name,
        happened_at=row.happened_at,
        session=row.session,
        step=row.step,
        payload=row.payload,
        reviewed=row.reviewed,
    )


def _to_escalation(row: sa.Row[Any], now: datetime) -> Escalation:
    return Escalation(
        escalation_id=EscalationId(row.id),
        question=row.question,
        transcript=tuple(row.transcript),
        passage_ids=tuple(row.passage_ids),
        suggested_fix=row.suggested_fix,
        created_at=row.created_at,
        due_at=row.due_at,
        occurrences=sum(time > now - WEEK for time in row.asked_at),
        priority=Priority(row.priority),
        closed_at=row.closed_at,
    )
