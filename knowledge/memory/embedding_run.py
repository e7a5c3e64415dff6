"""One checkpoint at work: batch after batch is claimed, embedded, decided, put into the index and marked.

Four batches are under way at most, each at another step, so that Postgres, a remote embedder and we work at the same
time; a fifth is leased ahead, and waits in the line of an embedder that has one (`leasing`). Each step is taken by one
batch at a time, and decisions are made in the order in which the entries were captured. A small batch may be in the
index before a large one that was decided first, which then finds what it was overtaken by.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from knowledge.errors import IndexUnavailable, StorageRejected
from knowledge.logs import get_logger
from knowledge.memory import consolidation, texts
from knowledge.memory.consolidating import Consolidating
from knowledge.memory.consolidation import Embedding
from knowledge.memory.finishing import FINISH_SECONDS, if_in_time, to_the_end
from knowledge.memory.leasing import Batch, Lease, Leasing
from knowledge.memory.points import to_point
from knowledge.memory.retention import add_years
from knowledge.memory.settling import settle_if_possible, settle_points
from knowledge.memory.spaces import SpaceInUse, recalibrate_if_grown, was_left
from knowledge.memory.words_counted import WordsCounted
from knowledge.models import (
    BoundSpace,
    CheckpointReport,
    DeadEntry,
    Decision,
    Entry,
    EntryId,
    Point,
    PointId,
    Vector,
    View,
)
from knowledge.ports import Progress, Selection, Stores
from knowledge.steps import step
from knowledge.turns import let_others_run

log = get_logger(__name__)

_LOOK_AGAIN_SECONDS = 0.5
"""How often a checkpoint looks whether what others hold is done, or their lease is over."""

_TOLD_AFTER_LOOKS = 10
"""Looks after which it says that it waits: a checkpoint beside this one is mostly done with its batch sooner."""

_STORED_AT_ONCE = 3
"""Batches being stored at the same time: one is decided, one is put into the index, one is marked."""

_MANY = 100
"""From so many new situations on, if they doubled the store, Postgres looks at its tables again to plan well."""

_TRIES = 5
"""How often a checkpoint embeds an entry that it then cannot mark, as its lease was over or the model changed."""

_SLICE = 64
"""Entries whose words are counted before others get their turn: 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Embedded:
    """A leased batch with the vectors of its texts, as they were `read`; `entries` are those that are not dead."""

    lease: Lease
    in_use: SpaceInUse
    entries: Sequence[Entry]
    read: Mapping[EntryId, Mapping[View, str]]
    vectors: Mapping[str, Vector]
    truncated: int
    dead: Sequence[DeadEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """How many entries of a batch were marked embedded, how many of them founded a pattern, and how many are dead."""

    embedded: int
    founded: int
    dead: int


@dataclass(slots=True, kw_only=True)
class EmbeddingRun:
    """What one checkpoint does and has done. `report` grows with each batch."""

    stores: Stores
    batch: int
    lease: timedelta
    retention_years: int
    report: CheckpointReport
    selection: Selection
    progress: Progress | None = None
    _at_start: Selection = field(init=False)
    _leasing: Leasing = field(init=False)
    _consolidating: Consolidating = field(init=False)
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _indexing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _marking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _on_their_way: list[Mapping[PointId, bool]] = field(default_factory=list)
    """The points of batches that were decided and are not in the index yet, oldest first."""
    _words: WordsCounted = field(init=False)
    _unmarked: Counter[EntryId] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin with nothing remembered."""
        self._at_start = replace(self.selection, captured_before=self.report.started_at + timedelta(microseconds=1))
        self._consolidating = Consolidating(stores=self.stores)
        self._words = WordsCounted(stores=self.stores, consolidating=self._consolidating)
        self._leasing = Leasing(
            stores=self.stores,
            selection=self.selection,
            at_start=self._at_start,
            batch=self.batch,
            time=self.lease,
            bound=self._words.begin,  # while the first batch is embedded
        )

    async def run(self) -> None:
        """Embed until nothing is left of what was there at the start; raises what a store or the embedder raises.

        What another process holds is waited for: it embeds it, or dies and its lease runs out.
        """
        counted, total = await asyncio.gather(
            self.stores.spaces.statistics([]), self.stores.entries.pending(self.selection)
        )
        try:
            await self._batches(total)
            if self._leasing.in_use is not None:
                await self._grown(self._leasing.in_use.bound, counted.documents)
        except BaseException:  # the next checkpoint counts and settles what this one does not come to
            await if_in_time(self._words.count())
            await if_in_time(settle_if_possible(self.stores))
            raise
        await settle_if_possible(self.stores)

    async def _batches(self, total: int) -> None:
        leasing, leasing.left = self._leasing, total
        storing: deque[asyncio.Task[None]] = deque()
        looks = 0
        try:
            while True:
                batch = await leasing.next()
                if batch is not None:
                    storing.append(await self._embed_then_store(batch, storing, total))
                elif storing:
                    await _first_stored(storing)
                elif not await self.stores.entries.pending(self._at_start):
                    break
                else:
                    if (looks := looks + 1) == _TOLD_AFTER_LOOKS:
                        log.warning(
                            "checkpoint_waits",
                            reason="another checkpoint took what is left, or was killed with it: it is waited for until"
                            f" its lease is over, {self.lease.total_seconds():g} s after its last sign of life",
                        )
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        finally:
            await to_the_end(self._close(storing))

    async def _close(self, storing: Collection[asyncio.Task[None]]) -> None:
        """Give back what is leased, and store what is embedded: it is paid for, however this ends."""
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
        """Embed a batch while those before are stored; return the task that stores this one."""
        try:
            while storing and storing[0].done():  # one that failed gave back what may just have been claimed again
                await _first_stored(storing)
            self._leasing.take_ahead()
            embedded = await self._embed(batch)
            while len(storing) >= _STORED_AT_ONCE:
                await _first_stored(storing)
        except BaseException:
            await to_the_end(batch.drop())
            raise
        return asyncio.create_task(self._store_and_tell(embedded, total))

    @step("embed_batch")
    async def _embed(self, batch: Batch) -> _Embedded:
        embedded = await self._leasing.embedded(batch)
        gone = {each.entry_id for each in embedded.dead}
        return _Embedded(
            lease=batch.lease,
            in_use=batch.in_use,
            entries=[entry for entry in batch.lease.entries if entry.entry_id not in gone],
            read=embedded.read,
            vectors=embedded.vectors,
            truncated=embedded.truncated,
            dead=embedded.dead,
        )

    async def _store_and_tell(self, embedded: _Embedded, total: int) -> None:
        whole = False
        try:
            stored = await self._store(embedded)
            whole = stored.embedded == len(embedded.entries)
        except IndexUnavailable:
            if not await was_left(self.stores, embedded.in_use.bound):
                raise
            self._consolidating.given_back(embedded.lease.claim.token)
            return  # and embedded again by the model in use
        finally:
            await to_the_end(embedded.lease.end(give_back=not whole))
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
    async def _store(self, embedded: _Embedded) -> StoredBatch:
        """Decide, upsert and mark."""
        stores, bound, token = self.stores, embedded.in_use.bound, embedded.lease.claim.token
        async with self._deciding:
            await self._words.leftover()
            for refused in embedded.dead:
                await stores.entries.bury(token, refused.entry_id, refused.reason)
            embedded_at = stores.clock.now()
            expires_at = add_years(embedded_at, self.retention_years)
            # in a thread, for it takes as long as embedding a text or two
            embeddings = await asyncio.to_thread(_taken_apart, embedded)
            decisions, kept = await self._decide(embedded, embeddings, embedded_at, expires_at)
            self._on_their_way.append(kept)
        try:
            points, words = await _points(
                stores.workspace, bound, embeddings, decisions, kept, embedded_at=embedded_at, expires_at=expires_at
            )
            async with self._indexing:
                await stores.index.upsert(bound.space, points)
        finally:
            self._on_their_way.remove(kept)
        # what other batches decided about as well, they are about to write themselves, and look then
        coming = set[PointId]().union(*self._on_their_way)
        left = [point.point_id for point in points if point.point_id not in coming]
        async with self._marking:
            await stores.points.overtaken(left, embedded_at)
            marked = await self._mark(embedded, decisions, words, embedded_at=embedded_at, expires_at=expires_at)
        founded = sum(decision.founds for decision in decisions if decision.entry.entry_id in marked)
        return StoredBatch(embedded=len(marked), founded=founded, dead=len(embedded.dead))

    async def _mark(
        self,
        embedded: _Embedded,
        decisions: Sequence[Decision],
        words: Mapping[PointId, Collection[int]],
        *,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> set[EntryId]:
        """Mark entries embedded, take back what others deleted meanwhile; return those that were marked."""
        marked = await self.stores.patterns.mark_embedded(
            embedded.lease.claim.token,
            [decision.entry.entry_id for decision in decisions],
            embedded.in_use.bound.space,
            embedded_at=embedded_at,
            expires_at=expires_at,
        )
        if len(marked) < len(decisions):
            await self._take_back(decisions, marked)
            self._end_if_endless({decision.entry.entry_id for decision in decisions} - marked)
        await self._words.add(embedded.lease.claim.token, words, last=self._leasing.left <= 0)
        return marked

    async def _decide(
        self, embedded: _Embedded, embeddings: Sequence[Embedding], embedded_at: datetime, expires_at: datetime
    ) -> tuple[list[Decision], Mapping[PointId, bool]]:
        token, space = embedded.lease.claim.token, embedded.in_use.bound.space
        nearby = await self._consolidating.around(token, embedded.in_use, embeddings)
        async with self.stores.patterns.deciding(token) as deciding:
            held = await deciding.held([embedding.entry.entry_id for embedding in embeddings])
            keys = {key for embedding in embeddings for key in (embedding.match_key, embedding.wording_key)}
            known = await deciding.patterns_by_key(sorted(keys))
            decide = partial(
                consolidation.decide,
                embeddings,
                held=held,
                known=known,
                resolutions=await deciding.resolutions(consolidation.to_be_seen(embeddings, known)),
                workspace=self.stores.workspace,
                nearby=nearby and nearby.among(await deciding.existing(nearby.patterns)),
            )
            decisions = await asyncio.to_thread(decide)  # as long as embedding a text or two, where many are alike
            self._consolidating.decided(space, decisions)
            kept = await deciding.write(decisions, space, embedded_at=embedded_at, expires_at=expires_at)
        return decisions, kept

    async def _take_back(self, decisions: Sequence[Decision], marked: set[EntryId]) -> None:
        """Settle the points of entries that were deleted while they were embedded: nothing comes back from the dead."""
        lost = {
            point.point_id
            for decision in decisions
            if decision.entry.entry_id not in marked
            for point in decision.points
        }
        if lost:
            await self.stores.points.doubt(sorted(lost))
            await settle_points(self.stores, sorted(lost))

    def _end_if_endless(self, unmarked: Collection[EntryId]) -> None:
        """Raise StorageRejected for an entry that comes back however often it is embedded: it would do so for ever."""
        self._unmarked.update(unmarked)
        endless = sorted(entry_id for entry_id in unmarked if self._unmarked[entry_id] >= _TRIES)
        if endless:
            raise StorageRejected(
                f"entry {endless[0]} was embedded {_TRIES} times, but Postgres does not mark it so and it stays"
                " staged: look for a rule or trigger of the database that keeps it so"
            )

    async def _grown(self, bound: BoundSpace, before: int) -> None:
        """See to it that the lexicon, relevance and Postgres' plans fit what is there now."""
        await self._words.count()
        documents = (await self.stores.spaces.statistics([])).documents
        await recalibrate_if_grown(self.stores, bound, before, documents)
        if documents - before >= max(_MANY, before):
            await self.stores.patterns.analyse()


async def _first_stored(storing: deque[asyncio.Task[None]]) -> None:
    """Wait until the first of these is stored, then forget it; it goes on where this is broken off."""
    await asyncio.shield(storing[0])
    storing.popleft()


def _taken_apart(embedded: _Embedded) -> list[Embedding]:
    embeddings = []
    for entry in embedded.entries:
        read = embedded.read[entry.entry_id]
        vectors = {view: embedded.vectors[text] for view, text in read.items()}
        embeddings.append(Embedding(entry=entry, told=texts.views(entry), read=read, vectors=vectors))
    return embeddings


async def _points(
    workspace: str,
    bound: BoundSpace,
    embeddings: Sequence[Embedding],
    decisions: Sequence[Decision],
    kept: Mapping[PointId, bool],
    *,
    embedded_at: datetime,
    expires_at: datetime,
) -> tuple[list[Point], dict[PointId, Collection[int]]]:
    """Return the points of the decisions that are kept, each once, and the words of those not counted yet."""
    counted = {embedding.entry.entry_id: embedding for embedding in embeddings}
    points: dict[PointId, Point] = {}
    words: dict[PointId, Collection[int]] = {}
    # by entry id, as Postgres picks the words of several entries that were embedded together
    for number, decision in enumerate(sorted(decisions, key=lambda decided: decided.entry.entry_id)):
        if number % _SLICE == 0:
            await let_others_run()
        for point in decision.points:
            if point.point_id not in kept or point.point_id in points:
                continue
            embedding = counted[decision.entry.entry_id]
            counts = embedding.counts[point.view]
            if not kept[point.point_id]:
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
