"""Pipeline of one checkpoint: batches are claimed, embedded, decided, indexed and marked.

At most four batches are in progress, each at another step, so that Postgres, a remote embedder and this process work
at the same time; a fifth is prefetched and may be queued at the embedder. Each step processes one batch at a time, and
decisions are made in the order in which entries were captured. A small batch may reach the index before a large one
that was decided first; the large one then settles the points they share.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from hardwon.errors import IndexUnavailable, StorageRejected
from hardwon.event_log import get_logger
from knowledge.memory.checkpoint.leases import Batch, BatchLeaser, Lease
from knowledge.memory.consolidation import decision as consolidation
from knowledge.memory.consolidation.candidates import PatternFinder, WordCounter
from knowledge.memory.consolidation.decision import Embedding
from knowledge.memory.index.embedding_space import SpaceInUse, is_retired, recalibrate_if_grown
from knowledge.memory.index.points import to_point
from knowledge.memory.index.reconcile import settle_if_possible, settle_points
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import arm_key, known_keys
from knowledge.memory.rules.hints import MAX_OUTCOMES, fit_weights
from knowledge.memory.rules.retention import add_years
from knowledge.models import (
    MIN_OUTCOMES,
    BoundSpace,
    CheckpointReport,
    DeadEntry,
    Decision,
    Entry,
    EntryId,
    EntryTexts,
    KnownKeys,
    Point,
    PointId,
    Vector,
    View,
)
from knowledge.ports import Progress, Selection, Stores
from knowledge.runtime.instrumentation import step
from knowledge.runtime.scheduling import FINISH_SECONDS, run_to_completion, try_finish, yield_to_loop

log = get_logger(__name__)

_POLL_SECONDS = 0.5
"""Interval at which a checkpoint polls whether entries that others hold are done or their lease expired."""

_POLLS_BEFORE_WARNING = 10
"""Polls before it logs that it waits; a concurrent checkpoint usually finishes its batch sooner."""

_MAX_STORING = 3
"""Batches stored concurrently: one is decided, one is indexed, one is marked."""

_MIN_GROWTH = 100
"""From this many new situations on, if they doubled the store, Postgres' planner statistics are updated."""

_MAX_TRIES = 5
"""Attempts to embed an entry that then cannot be marked, because its lease expired or the model changed."""

_SLICE = 64
"""Entries processed before yielding to the event loop: 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _EmbeddedBatch:
    """A leased batch with the vectors of its texts as `read` by the model; `entries` excludes the dead ones."""

    lease: Lease
    in_use: SpaceInUse
    entries: Sequence[Entry]
    read: Mapping[EntryId, Mapping[View, str]]
    vectors: Mapping[str, Vector]
    truncated: int
    dead: Sequence[DeadEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """Numbers of a batch's entries that were marked embedded, of those that founded a pattern, and of dead ones."""

    embedded: int
    founded: int
    dead: int


@dataclass(slots=True, kw_only=True)
class EmbeddingRun:
    """The work of one checkpoint. `report` is updated with each batch."""

    stores: Stores
    batch: int
    lease: timedelta
    retention_years: int
    report: CheckpointReport
    selection: Selection
    progress: Progress | None = None
    _at_start: Selection = field(init=False)
    _leasing: BatchLeaser = field(init=False)
    _finder: PatternFinder = field(init=False)
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _indexing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _marking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _unindexed: list[Mapping[PointId, bool]] = field(default_factory=list)
    """The points of batches that are decided but not indexed yet, oldest first."""
    _words: WordCounter = field(init=False)
    _unmarked: Counter[EntryId] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Create the parts of the pipeline."""
        self._at_start = replace(self.selection, captured_before=self.report.started_at + timedelta(microseconds=1))
        self._finder = PatternFinder(stores=self.stores)
        self._words = WordCounter(stores=self.stores, finder=self._finder)
        self._leasing = BatchLeaser(
            stores=self.stores,
            selection=self.selection,
            at_start=self._at_start,
            batch=self.batch,
            time=self.lease,
            on_space_bound=self._words.begin,  # while the first batch is embedded
        )

    async def run(self) -> None:
        """Embed until no entry from before the start remains; raises what a store or the embedder raises.

        Waits for entries that another process holds until it embeds them or its lease expires.
        """
        counted, total = await asyncio.gather(
            self.stores.spaces.statistics([]), self.stores.entries.count_pending(self.selection)
        )
        try:
            await self._process_batches(total)
            if self._leasing.in_use is not None:
                await self._update_statistics(self._leasing.in_use.bound, counted.documents)
            await update_experience(self.stores)
        except BaseException:  # the next checkpoint does the rest
            await try_finish(self._words.count())
            await try_finish(settle_if_possible(self.stores))
            raise
        await settle_if_possible(self.stores)

    async def _process_batches(self, total: int) -> None:
        leasing, leasing.remaining = self._leasing, total
        storing: deque[asyncio.Task[None]] = deque()
        polls = 0
        try:
            while True:
                batch = await leasing.next()
                if batch is not None:
                    storing.append(await self._embed_then_store(batch, storing, total))
                elif storing:
                    await _wait_for_first(storing)
                elif not await self.stores.entries.count_pending(self._at_start):
                    break
                else:
                    if (polls := polls + 1) == _POLLS_BEFORE_WARNING:
                        log.warning(
                            "checkpoint_waits",
                            reason="another checkpoint holds the remaining entries, or was killed while it did: waiting"
                            f" until its lease expires, {self.lease.total_seconds():g} s after the last heartbeat",
                        )
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            await run_to_completion(self._close(storing))

    async def _close(self, storing: Collection[asyncio.Task[None]]) -> None:
        """Release leased batches and finish storing embedded ones: their embedding is paid for."""
        await self._leasing.close()
        if storing:
            await asyncio.wait(storing, timeout=FINISH_SECONDS)
            for task in storing:
                task.cancel()
            await asyncio.gather(*storing, return_exceptions=True)
        await self._words.close()

    async def _embed_then_store(
        self, batch: Batch, storing: deque[asyncio.Task[None]], total: int
    ) -> asyncio.Task[None]:
        """Embed a batch while earlier ones are stored; return the task that stores this one."""
        try:
            while storing and storing[0].done():  # a failed one released entries that may just have been claimed again
                await _wait_for_first(storing)
            self._leasing.prefetch()
            embedded = await self._embed(batch)
            while len(storing) >= _MAX_STORING:
                await _wait_for_first(storing)
        except BaseException:
            await run_to_completion(batch.drop())
            raise
        return asyncio.create_task(self._store_and_report(embedded, total))

    @step("embed_batch")
    async def _embed(self, batch: Batch) -> _EmbeddedBatch:
        embedded = await self._leasing.vectors_of(batch)
        dead_ids = {each.entry_id for each in embedded.dead}
        return _EmbeddedBatch(
            lease=batch.lease,
            in_use=batch.in_use,
            entries=[entry for entry in batch.lease.entries if entry.entry_id not in dead_ids],
            read=embedded.read,
            vectors=embedded.vectors,
            truncated=embedded.truncated,
            dead=embedded.dead,
        )

    async def _store_and_report(self, embedded: _EmbeddedBatch, total: int) -> None:
        is_complete = False
        try:
            stored = await self._store(embedded)
            is_complete = stored.embedded == len(embedded.entries)
        except IndexUnavailable:
            if not await is_retired(self.stores, embedded.in_use.bound):
                raise
            self._finder.forget(embedded.lease.claim.token)
            return  # it is embedded again by the model in use
        finally:
            await run_to_completion(embedded.lease.end(give_back=not is_complete))
        report = self.report
        self.report = replace(
            report,
            embedded=report.embedded + stored.embedded,
            founded=report.founded + stored.founded,
            joined=report.joined + stored.embedded - stored.founded,
            truncated=report.truncated + embedded.truncated,
            dead=report.dead + stored.dead,
            dead_entries=report.dead_entries + tuple(embedded.dead),
        )
        if self.progress:
            done = self.report.embedded + self.report.dead
            self.progress(done, max(total, done))

    @step("store_batch")
    async def _store(self, embedded: _EmbeddedBatch) -> StoredBatch:
        """Decide, upsert and mark."""
        stores, bound, token = self.stores, embedded.in_use.bound, embedded.lease.claim.token
        async with self._deciding:
            await self._words.wait_for_leftover()
            for refused in embedded.dead:
                await stores.entries.bury(token, refused.entry_id, refused.reason)
            embedded_at = stores.clock.now()
            expires_at = add_years(embedded_at, self.retention_years)
            # in a thread: it takes as long as embedding a text or two
            embeddings = await asyncio.to_thread(_to_embeddings, embedded)
            decisions, to_index = await self._decide(embedded, embeddings, embedded_at, expires_at)
            self._unindexed.append(to_index)
        try:
            points, words = await _points(
                stores.workspace, bound, embeddings, decisions, to_index, embedded_at=embedded_at, expires_at=expires_at
            )
            async with self._indexing:
                await stores.index.upsert(bound.space, points)
        finally:
            self._unindexed.remove(to_index)
        # points that other batches decided as well are written and checked by those
        pending = set[PointId]().union(*self._unindexed)
        settled = [point.point_id for point in points if point.point_id not in pending]
        async with self._marking:
            await stores.points.mark_overtaken(settled, embedded_at)
            marked = await self._mark(embedded, decisions, words, embedded_at=embedded_at, expires_at=expires_at)
        # after the mark: the sooner that comes, the fewer changes of model overtake it; a prune writes what is left out
        profiles = {each.entry.entry_id: each.profile for each in decisions if each.entry.entry_id in marked}
        await stores.patterns.store_profiles(profiles)
        founded = sum(decision.founds for decision in decisions if decision.entry.entry_id in marked)
        return StoredBatch(embedded=len(marked), founded=founded, dead=len(embedded.dead))

    async def _mark(
        self,
        embedded: _EmbeddedBatch,
        decisions: Sequence[Decision],
        words: Mapping[PointId, Collection[int]],
        *,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> set[EntryId]:
        """Mark entries embedded and settle the points of those deleted meanwhile; return the marked ones."""
        marked = await self.stores.patterns.mark_embedded(
            embedded.lease.claim.token,
            [decision.entry.entry_id for decision in decisions],
            embedded.in_use.bound.space,
            embedded_at=embedded_at,
            expires_at=expires_at,
        )
        if len(marked) < len(decisions):
            await self._settle_deleted(decisions, marked)
            if not await is_retired(self.stores, embedded.in_use.bound):  # a change of model is no rule against marking
                self._refuse_endless({decision.entry.entry_id for decision in decisions} - marked)
        await self._words.add(embedded.lease.claim.token, words, last=self._leasing.remaining <= 0)
        return marked

    async def _decide(
        self, embedded: _EmbeddedBatch, embeddings: Sequence[Embedding], embedded_at: datetime, expires_at: datetime
    ) -> tuple[list[Decision], Mapping[PointId, bool]]:
        token, space = embedded.lease.claim.token, embedded.in_use.bound.space
        nearby = await self._finder.find_nearby(token, embedded.in_use, embeddings)
        async with self.stores.patterns.begin_decisions(token) as deciding:
            held = await deciding.find_leased([embedding.entry.entry_id for embedding in embeddings])
            keys = {key for embedding in embeddings for key in (embedding.match_key, embedding.wording_key)}
            known = await deciding.patterns_by_key(sorted(keys))
            decide = partial(
                consolidation.decide,
                embeddings,
                held=held,
                existing=known,
                resolutions=await deciding.resolutions(consolidation.patterns_to_compare(embeddings, known)),
                workspace=self.stores.workspace,
                nearby=nearby and nearby.drop_deleted(await deciding.find_existing(nearby.patterns)),
            )
            decisions = await asyncio.to_thread(
                decide
            )  # takes as long as embedding a text or two where many are similar
            self._finder.add_founders(space, decisions)
            to_index = await deciding.write(decisions, space, embedded_at=embedded_at, expires_at=expires_at)
        return decisions, to_index

    async def _settle_deleted(self, decisions: Sequence[Decision], marked: set[EntryId]) -> None:
        """Settle the points of entries that were deleted while they were embedded, so that none reappears."""
        point_ids = {
            point.point_id
            for decision in decisions
            if decision.entry.entry_id not in marked
            for point in decision.points
        }
        if point_ids:
            await self.stores.points.mark_dirty(sorted(point_ids))
            await settle_points(self.stores, sorted(point_ids))

    def _refuse_endless(self, unmarked: Collection[EntryId]) -> None:
        """Raise StorageRejected for an entry that stays staged after `_MAX_TRIES` embeddings."""
        self._unmarked.update(unmarked)
        endless = sorted(entry_id for entry_id in unmarked if self._unmarked[entry_id] >= _MAX_TRIES)
        if endless:
            raise StorageRejected(
                f"entry {endless[0]} was embedded {_MAX_TRIES} times but could not be marked in Postgres, so it stays"
                " staged: look for a rule or trigger of the database that prevents it"
            )

    async def _update_statistics(self, bound: BoundSpace, before: int) -> None:
        """Update the lexicon, the calibration of relevance and Postgres' planner statistics after growth."""
        await self._words.count()
        documents = (await self.stores.spaces.statistics([])).documents
        await recalibrate_if_grown(self.stores, bound, before, documents)
        if documents - before >= max(_MIN_GROWTH, before):
            await self.stores.patterns.analyse()


async def _wait_for_first(storing: deque[asyncio.Task[None]]) -> None:
    """Wait for the first task and remove it; the task continues if this is cancelled."""
    await asyncio.shield(storing[0])
    storing.popleft()


def _to_embeddings(embedded: _EmbeddedBatch) -> list[Embedding]:
    embeddings = []
    for entry in embedded.entries:
        read = embedded.read[entry.entry_id]
        vectors = {view: embedded.vectors[text] for view, text in read.items()}
        embeddings.append(Embedding(entry=entry, views=embedding_text.views(entry), read=read, vectors=vectors))
    return embeddings


async def _points(
    workspace: str,
    bound: BoundSpace,
    embeddings: Sequence[Embedding],
    decisions: Sequence[Decision],
    to_index: Mapping[PointId, bool],
    *,
    embedded_at: datetime,
    expires_at: datetime,
) -> tuple[list[Point], dict[PointId, Collection[int]]]:
    """Return the distinct points of the decisions in `to_index`, and the words of those not counted yet."""
    counted = {embedding.entry.entry_id: embedding for embedding in embeddings}
    points: dict[PointId, Point] = {}
    words: dict[PointId, Collection[int]] = {}
    # by entry id: the order in which Postgres picks the words of entries embedded together
    for number, decision in enumerate(sorted(decisions, key=lambda each: each.entry.entry_id)):
        if number % _SLICE == 0:
            await yield_to_loop()
        for point in decision.points:
            if point.point_id not in to_index or point.point_id in points:
                continue
            embedding = counted[decision.entry.entry_id]
            counts = embedding.counts[point.view]
            if not to_index[point.point_id]:
                words[point.point_id] = counts.keys()
            points[point.point_id] = to_point(
                decision.entry,
                point.view,
                workspace=workspace,
                point_id=point.point_id,
                vector=point.vector,
                counts=counts,
                gist=embedding.gists.get(point.view),
                mean_terms=bound.mean_terms,
                embedded_at=embedded_at,
                expires_at=expires_at,
            )
    return list(points.values()), words


_UNNAMED_BATCH = 500
_MAX_KEY_BATCHES = 20
"""Batches of entries of an earlier release that a checkpoint computes keys of; ours: they take seconds."""


async def update_experience(stores: Stores) -> None:
    """Compute the arms and keys of records that lack them, and fit the weights of hints to the outcomes so far."""
    while missing := await stores.records.without_arm(_UNNAMED_BATCH):
        arms = {
            record: arm_key(embedding_text.resolution(words), embedding_text.situation(words))
            for record, words in missing.items()
        }
        await stores.records.name_arms(arms)
        if len(missing) < _UNNAMED_BATCH:
            break
    for _ in range(_MAX_KEY_BATCHES):
        lacking = await stores.records.without_keys(_UNNAMED_BATCH)
        if lacking:
            await stores.records.store_keys(await asyncio.to_thread(_known_keys, lacking))
        if len(lacking) < _UNNAMED_BATCH:
            break
    told = await stores.records.hints(MAX_OUTCOMES)
    if len(told) >= MIN_OUTCOMES:
        await stores.records.save_weights(fit_weights(told))
    else:  # what they were fitted to may have been deleted
        await stores.records.forget_weights()


def _known_keys(lacking: Mapping[UUID, EntryTexts]) -> dict[UUID, KnownKeys]:
    return {record: known_keys(words) for record, words in lacking.items()}
