"""The indexing queue of documents, in Postgres: leases, writing before showing, and deletion."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from itertools import accumulate
from typing import Any, Final
from uuid import UUID, uuid4

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.models.documents import DocumentId, DocumentStatus, DocumentType, LogLine, PassageId, Severity
from knowledge.adapters.postgres.document_tables import (
    answer_cache,
    kb_chunks,
    kb_documents,
    kb_lines,
    kb_partitions,
    kb_vectors,
    kb_versions,
)
from knowledge.adapters.postgres.documents.rows import (
    ALIVE,
    SHOWN,
    C,
    D,
    V,
    bump_version,
    count_terms,
    finite_time,
    lock_partition,
    to_line,
    write_lines,
)
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory.counts import is_any_of
from knowledge.documents.ingestion.queue import BATCH_BYTES, HUGE_BYTES, MAX_ATTEMPTS, MAX_CONCURRENT_DOCUMENTS
from knowledge.documents.models import PassagePoint
from knowledge.documents.parsing.passage_text import with_headings
from knowledge.documents.ports import (
    IndexedGeneration,
    IndexedPassage,
    IndexingJob,
    IndexingStore,
    ParsedDocument,
    StaleGeneration,
)
from knowledge.models import EmbeddingSpace, LeaseToken, SparseVector, Vector

_K = kb_vectors.c

_NO_LEASE = {"lease_token": None, "lease_until": None}
_NEVER_FINISHED = f"the process that indexed it ended or hung each of {MAX_ATTEMPTS} times"
_HAS_TEXT = sa.exists().where(V.document_id == D.id, V.generation == D.latest)
"""The condition that a document's text exists: an import that was killed may have left a document without text."""
_TEXT_BYTES = (
    sa.select(sa.func.octet_length(V.text)).where(V.document_id == D.id, V.generation == D.latest).scalar_subquery()
)
_IS_HUGE = sa.exists().where(V.document_id == D.id, V.generation == D.latest, sa.func.octet_length(V.text) > HUGE_BYTES)
_RESERVED_SLOTS: Final = 2
"""One slot less than this is reserved for documents that are not huge."""
_NO_WORDS = SparseVector(indices=(), values=())


class PostgresIndexing(WorkspaceStore, IndexingStore):
    """The queue of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str) -> None:
        super().__init__(engine, workspace)
        self._served: dict[str, None] = {}
        """Partitions that this process has indexed documents of, the least recently served first."""
        self._claiming = asyncio.Lock()
        """A claim locks more documents than it leases: another one of this process would take the queue for empty."""

    async def claim(
        self, *, limit: int, lease: timedelta, only: Collection[DocumentId] | None = None
    ) -> list[IndexingJob]:
        free = sa.and_(
            D.workspace == self._workspace,
            D.status == DocumentStatus.PENDING,
            sa.or_(D.lease_until.is_(None), D.lease_until < sa.func.now()),
            _HAS_TEXT,
            *([] if only is None else [is_any_of(D.id, only)]),
        )
        token = LeaseToken(uuid4())
        async with self._claiming, transaction(self._engine) as connection:
            await connection.execute(self._fail_abandoned())
            running = (await connection.execute(self._select_running())).all()
            if only is None and sum(row.huge for row in running) > MAX_CONCURRENT_DOCUMENTS - _RESERVED_SLOTS:
                free = sa.and_(free, ~_IS_HUGE)
            turns = self._order_partitions(Counter(row.partition for row in running))
            # delayed documents come after all others: a service may fail on these alone
            for due in (D.not_before.is_(None), D.not_before <= sa.func.now()):
                ids = await self._lease_due(connection, sa.and_(free, due), token, turns, limit=limit, lease=lease)
                if ids:
                    break
            query = (
                sa.select(kb_documents, *(each for each in kb_versions.c if each.name != "document_id"))
                .join(kb_versions, sa.and_(V.document_id == D.id, V.generation == D.latest))
                .where(is_any_of(D.id, ids))
                .order_by(D.added_at, D.id)
            )
            jobs = [_to_job(row, token) for row in await connection.execute(query)]
        for job in jobs:
            self._served.pop(job.partition, None)
            self._served[job.partition] = None
        return jobs

    def _select_running(self) -> sa.Select[Any]:
        """Select the documents that are leased, by partition, with whether they are huge."""
        return sa.select(D.partition, _IS_HUGE.label("huge")).where(
            D.workspace == self._workspace, D.status == DocumentStatus.PENDING, D.lease_until > sa.func.now()
        )

    def _order_partitions(self, running: Mapping[str, int]) -> list[str]:
        """Return the partitions by turn: those with fewest running documents, then the least recently served, first."""
        served = {partition: at for at, partition in enumerate(self._served)}
        return sorted({*running, *served}, key=lambda each: (running.get(each, 0), served.get(each, -1)))

    async def _lease_due(
        self,
        connection: AsyncConnection,
        due: sa.ColumnElement[bool],
        token: LeaseToken,
        turns: Sequence[str],
        *,
        limit: int,
        lease: timedelta,
    ) -> list[UUID]:
        """Lease the oldest due documents of the partition whose turn it is; return their ids."""
        turn = sa.func.array_position(sa.literal(list(turns), sa.ARRAY(sa.Text)), sa.cast(D.partition, sa.Text))
        was_tried = sa.or_(D.attempts > 0, D.not_before.is_not(None)).label("was_tried")
        next_ones = (
            sa.select(D.id, D.partition, was_tried, _TEXT_BYTES.label("text_bytes"))
            .where(due)
            .order_by(turn.asc().nulls_first(), D.added_at, D.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        ids = _select_batch((await connection.execute(next_ones)).all())
        if ids:
            leased = {"lease_token": token, "lease_until": sa.func.now() + lease, "attempts": D.attempts + 1}
            await connection.execute(sa.update(kb_documents).where(is_any_of(D.id, ids)).values(**leased))
        return ids

    def _fail_abandoned(self) -> sa.Update:
        """Return the statement that fails documents that were leased as often as allowed and never finished."""
        is_abandoned = sa.and_(
            D.workspace == self._workspace,
            D.status == DocumentStatus.PENDING,
            D.lease_until < sa.func.now(),
            D.attempts >= MAX_ATTEMPTS,
        )
        abandoned = sa.select(D.id).where(is_abandoned).with_for_update(skip_locked=True)
        failure = {"status": DocumentStatus.FAILED, "error": _NEVER_FINISHED}
        return sa.update(kb_documents).where(D.id.in_(abandoned)).values(**failure, **_NO_LEASE)

    async def has_documents(self) -> bool:
        return bool(await self._scalar(sa.select(sa.exists().where(D.workspace == self._workspace))))

    async def has_leases(self, only: Collection[DocumentId] | None = None) -> bool:
        ours = [] if only is None else [is_any_of(D.id, only)]
        leased = sa.exists().where(D.workspace == self._workspace, D.lease_until.is_not(None), _HAS_TEXT, *ours)
        return bool(await self._scalar(sa.select(leased)))

    async def extend(self, jobs: Sequence[IndexingJob], lease: timedelta) -> bool:
        return bool(await self._update_leased(jobs, lease_until=sa.func.now() + lease))

    async def write(self, indexed: Sequence[IndexedGeneration]) -> set[DocumentId]:
        async with transaction(self._engine) as connection:
            leased = await _lock_leased(connection, [each.job for each in indexed])
            ours = [each for each in indexed if each.job.document_id in leased]
            before = (D.id == C.document_id, is_any_of(D.id, leased), C.generation == D.latest)
            await connection.execute(sa.delete(kb_chunks).where(*before))
            rows = [_chunk_row(each.job, passage) for each in ours for passage in each.passages]
            if rows:
                await connection.execute(insert(kb_chunks), rows)
            for each in ours:
                if each.lines and not await connection.scalar(sa.select(sa.exists().where(*_are_lines_of(each.job)))):
                    await write_lines(connection, each.job.document_id, each.job.generation, each.lines)
        return set(leased)

    async def lines(self, job: IndexingJob) -> tuple[LogLine, ...]:
        query = sa.select(kb_lines).where(*_are_lines_of(job)).order_by(kb_lines.c.line)
        return tuple(map(to_line, await self._all(query)))

    async def activate(self, indexed: Sequence[IndexedGeneration], space: EmbeddingSpace) -> set[DocumentId]:
        partition = indexed[0].job.partition
        async with transaction(self._engine) as connection:
            await lock_partition(connection, self._workspace, partition)
            leased = await _lock_leased(connection, [each.job for each in indexed])
            if not leased:
                return set()
            are_ours = is_any_of(D.id, leased)
            shown = sa.and_(are_ours, C.generation == D.active_generation)
            if any(active is not None for active in leased.values()):
                await count_terms(connection, self._workspace, partition, shown, -1)
            values = {"status": DocumentStatus.INDEXED, "error": None, "indexed_at": sa.func.now(), "attempts": 0}
            update = sa.update(kb_documents).where(are_ours)
            await connection.execute(update.values(active_generation=D.latest, **values, **_NO_LEASE))
            await count_terms(connection, self._workspace, partition, shown, 1)
            version = (V.document_id == sa.bindparam("of_document"), V.generation == sa.bindparam("of_generation"))
            described = [
                {"of_document": each.job.document_id, "of_generation": each.job.generation, "notes": list(each.notes)}
                for each in indexed
                if each.job.document_id in leased
            ]
            await connection.execute(sa.update(kb_versions).where(*version).values(space=space.fingerprint), described)
            await bump_version(connection, self._workspace, partition)
        return set(leased)

    async def is_superseded(self, job: IndexingJob) -> bool:
        either = sa.or_(D.latest == job.generation, D.active_generation == job.generation)
        is_current = sa.exists().where(D.id == job.document_id, ALIVE, either)
        return bool(await self._scalar(sa.select(~is_current)))

    async def fail(self, job: IndexingJob, reason: str, *, retry_after: timedelta | None) -> None:
        values: dict[str, Any] = {"status": DocumentStatus.FAILED}
        if retry_after is not None:  # the attempt does not count: it was not the document's fault
            values = {"not_before": sa.func.now() + retry_after, "attempts": D.attempts - 1}
        await self._update_leased([job], **values, error=reason, **_NO_LEASE)

    async def give_back(self, jobs: Sequence[IndexingJob]) -> None:
        await self._update_leased(jobs, attempts=D.attempts - 1, **_NO_LEASE)

    async def _update_leased(self, jobs: Sequence[IndexingJob], **values: Any) -> int:
        return await self._write(sa.update(kb_documents).where(D.id.in_(_select_leased(jobs))).values(**values))

    async def requeue(self, space: EmbeddingSpace) -> int:
        other = sa.exists().where(
            V.document_id == D.id, V.generation == D.active_generation, V.space.is_distinct_from(space.fingerprint)
        )
        # the version before stores vectors without a workspace
        has_missing_vectors = sa.exists().where(
            C.document_id == D.id,
            C.generation == D.active_generation,
            ~sa.exists().where(*self._is_of_space(space), _K.text_hash == C.text_hash),
        )
        elsewhere = sa.select(D.id, D.latest).where(
            D.workspace == self._workspace, D.status == DocumentStatus.INDEXED, sa.or_(other, has_missing_vectors)
        )
        names = [
            name
            for name in (column.name for column in kb_versions.c)
            if name not in {"document_id", "generation", "space"}
        ]
        async with transaction(self._engine) as connection:
            rows = (await connection.execute(elsewhere.order_by(D.id).with_for_update(skip_locked=True))).all()
            for row in rows:
                copy = sa.select(V.document_id, V.generation + 1, *(V[name] for name in names))
                copy = copy.where(V.document_id == row.id, V.generation == row.latest)
                await connection.execute(insert(kb_versions).from_select(["document_id", "generation", *names], copy))
                again = {"latest": row.latest + 1, "status": DocumentStatus.PENDING, "attempts": 0, "not_before": None}
                await connection.execute(sa.update(kb_documents).where(D.id == row.id).values(**again))
        return len(rows)

    async def stale(self, limit: int) -> list[StaleGeneration]:
        is_leased = sa.and_(
            D.lease_until.is_not(None), D.lease_until > sa.func.now()
        )  # an import writes older generations as well
        other = sa.and_(V.generation.is_distinct_from(D.active_generation), V.generation != D.latest, ~is_leased)
        query = (
            sa.select(V.document_id, V.generation)
            .join(kb_documents, D.id == V.document_id)
            .where(D.workspace == self._workspace, sa.or_(other, D.status == DocumentStatus.DELETING))
            .order_by(V.document_id, V.generation)
            .limit(limit)
        )
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(query)).all()
            found = []
            for row in rows:
                of_it = (C.document_id == row.document_id, C.generation == row.generation)
                ids = (await connection.execute(sa.select(C.id).where(*of_it))).scalars()
                found.append(
                    StaleGeneration(
                        document_id=DocumentId(row.document_id),
                        generation=row.generation,
                        passage_ids=tuple(PassageId(each) for each in ids),
                    )
                )
        return found

    async def forget(self, stale: StaleGeneration) -> None:
        row = sa.delete(kb_versions).where(V.document_id == stale.document_id, V.generation == stale.generation)
        left = sa.exists().where(V.document_id == D.id)
        gone = sa.delete(kb_documents).where(D.id == stale.document_id, D.status == DocumentStatus.DELETING, ~left)
        async with transaction(self._engine) as connection:
            await connection.execute(row)
            await connection.execute(gone)

    async def forget_empty(self) -> int:
        left = sa.exists().where(V.document_id == D.id)
        gone = sa.delete(kb_documents).where(D.workspace == self._workspace, D.status == DocumentStatus.DELETING, ~left)
        return await self._write(gone)

    async def vectors(self, space: EmbeddingSpace, text_hashes: Collection[bytes]) -> Mapping[bytes, Vector]:
        among = _K.text_hash == sa.any_(sa.literal(list(text_hashes), sa.ARRAY(sa.LargeBinary)))
        query = sa.select(_K.text_hash, _K.vector).where(*self._is_of_space(space), among)
        return {row.text_hash: _read_vector(row.vector) for row in await self._all(query)}

    async def keep_vectors(self, space: EmbeddingSpace, vectors: Mapping[bytes, Vector]) -> None:
        if not vectors:
            return
        rows = [
            {
                "workspace": self._workspace,
                "space": space.fingerprint,
                "text_hash": each,
                "vector": vectors[each].astype(np.float16).tobytes(),
            }
            for each in sorted(vectors)
        ]
        async with transaction(self._engine) as connection:
            await connection.execute(insert(kb_vectors).on_conflict_do_nothing(), rows)

    async def purge_vectors(self) -> int:
        used = sa.exists().where(C.text_hash == _K.text_hash, D.id == C.document_id, D.workspace == self._workspace)
        fresh = _K.made_at > sa.func.now() - timedelta(hours=1)  # of a generation still being written
        gone = sa.delete(kb_vectors).where(_K.workspace == self._workspace, ~used, ~fresh)
        return await self._write(gone)

    def _is_of_space(self, space: EmbeddingSpace) -> tuple[sa.ColumnElement[bool], ...]:
        return _K.workspace == self._workspace, _K.space == space.fingerprint

    async def points(
        self, space: EmbeddingSpace, *, after: PassageId | None, limit: int
    ) -> list[tuple[PassagePoint, str]]:
        query = (
            sa.select(kb_chunks, D.partition, V.title, V.category, _K.vector)
            .join(kb_documents, sa.and_(D.id == C.document_id, D.active_generation == C.generation))
            .join(kb_versions, sa.and_(V.document_id == C.document_id, V.generation == C.generation))
            .join(kb_vectors, sa.and_(*self._is_of_space(space), _K.text_hash == C.text_hash))
            .where(D.workspace == self._workspace, SHOWN)
            .order_by(C.id)
            .limit(limit)
        )
        if after is not None:
            query = query.where(C.id > after)
        return [
            (_to_point(row, self._workspace), with_headings(row.title, row.section, row.function, row.text))
            for row in await self._all(query)
        ]

    async def count_shown(self, space: EmbeddingSpace) -> int:
        has_vector = sa.exists().where(*self._is_of_space(space), _K.text_hash == C.text_hash)
        query = (
            sa.select(sa.func.count())
            .select_from(kb_chunks)
            .join(kb_documents, sa.and_(D.id == C.document_id, D.active_generation == C.generation))
            .where(D.workspace == self._workspace, SHOWN, has_vector)
        )
        return await self._scalar(query) or 0

    async def index_membership(self, *, after: PassageId | None, limit: int) -> dict[PassageId, bool]:
        shown = sa.and_(SHOWN, C.generation == D.active_generation)
        is_pending = sa.and_(D.status == DocumentStatus.PENDING, C.generation == D.latest)
        query = (
            sa.select(C.id, sa.func.coalesce(shown, sa.false()).label("shown"))
            .join(kb_documents, D.id == C.document_id)
            .where(D.workspace == self._workspace, sa.or_(shown, is_pending))
            .order_by(C.id)
            .limit(limit)
        )
        if after is not None:
            query = query.where(C.id > after)
        return {PassageId(row.id): row.shown for row in await self._all(query)}

    async def find_existing(self, passage_ids: Collection[PassageId]) -> set[PassageId]:
        query = sa.select(C.id).join(kb_documents, D.id == C.document_id)
        query = query.where(D.workspace == self._workspace, is_any_of(C.id, passage_ids))
        return {PassageId(each) for each in await self._scalars(query)}

    async def renew(self) -> None:
        p = kb_partitions.c
        later = sa.update(kb_partitions).where(p.workspace == self._workspace).values(version=p.version + 1)
        async with transaction(self._engine) as connection:
            ours = sa.select(p.partition).where(p.workspace == self._workspace).order_by(p.partition)
            await connection.execute(ours.with_for_update())  # in one order, to avoid deadlocks
            await connection.execute(later)
            a = answer_cache.c
            keys = sa.select(a.key).where(a.workspace == self._workspace).order_by(a.key).with_for_update()
            await connection.execute(sa.delete(answer_cache).where(a.workspace == self._workspace, a.key.in_(keys)))


def _select_batch(rows: Sequence[sa.Row[Any]]) -> list[UUID]:
    """Return the first of these documents, and those that are indexed together with it."""
    if not rows or rows[0].was_tried:
        return [row.id for row in rows[:1]]
    small = [row for row in rows if row.partition == rows[0].partition and not row.was_tried]
    sizes = accumulate(row.text_bytes for row in small)
    return [
        row.id for row, text_bytes in zip(small, sizes, strict=True) if row is small[0] or text_bytes <= BATCH_BYTES
    ]


def _select_leased(jobs: Sequence[IndexingJob]) -> sa.Select[Any]:
    """Select the documents of jobs of one claim whose lease is not lost, locked in one order to avoid deadlocks."""
    ours = sa.and_(is_any_of(D.id, [job.document_id for job in jobs]), D.lease_token == jobs[0].token)
    return sa.select(D.id).where(ours).order_by(D.id).with_for_update()


async def _lock_leased(connection: AsyncConnection, jobs: Sequence[IndexingJob]) -> dict[DocumentId, int | None]:
    """Lock the documents whose lease is not lost; return the generations of them that are shown."""
    rows = await connection.execute(_select_leased(jobs).add_columns(D.active_generation))
    return {DocumentId(row.id): row.active_generation for row in rows}


def _are_lines_of(job: IndexingJob) -> tuple[sa.ColumnElement[bool], ...]:
    return kb_lines.c.document_id == job.document_id, kb_lines.c.generation == job.generation


def _to_job(row: sa.Row[Any], token: LeaseToken) -> IndexingJob:
    parsed = ParsedDocument(
        text=row.text,
        text_hash=row.text_hash,
        document_type=DocumentType(row.document_type),
        title=row.title,
        category=row.category,
        tags=tuple(row.tags),
        pages=tuple(row.pages),
        notes=tuple(row.notes),
    )
    return IndexingJob(
        token=token,
        document_id=DocumentId(row.id),
        partition=row.partition,
        uri=row.uri,
        generation=row.latest,
        title=row.title,
        parsed=parsed,
    )


def _chunk_row(job: IndexingJob, passage: IndexedPassage) -> dict[str, Any]:
    chunk = passage.chunk
    return {
        "id": passage.passage_id,
        "document_id": job.document_id,
        "generation": job.generation,
        "ordinal": chunk.ordinal,
        "kind": str(chunk.kind),
        "text": chunk.text,
        "text_hash": passage.text_hash,
        "section": chunk.section,
        "function": chunk.function,
        "page": chunk.page,
        "char_start": chunk.char_start,
        "char_end": chunk.char_end,
        "line_start": chunk.line_start,
        "line_end": chunk.line_end,
        "ts": chunk.timestamp,
        "until": chunk.until,
        "severities": [str(severity) for severity in chunk.severities],
        "terms": sorted(passage.term_counts),
    }


def _read_vector(stored: bytes) -> Vector:
    return np.frombuffer(stored, dtype=np.float16).astype(np.float32)


def _to_point(row: sa.Row[Any], workspace: str) -> PassagePoint:
    return PassagePoint(
        passage_id=PassageId(row.id),
        workspace=workspace,
        partition=row.partition,
        document_id=DocumentId(row.document_id),
        generation=row.generation,
        dense=_read_vector(row.vector),
        lexical=_NO_WORDS,
        category=row.category,
        severities=tuple(Severity(severity) for severity in row.severities),
        timestamp=finite_time(row.ts),
        until=finite_time(row.until),
        line_start=row.line_start,
        line_end=row.line_end,
    )
