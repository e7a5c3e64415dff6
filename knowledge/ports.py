"""What the services need from the outside. Adapters inherit these; `knowledge.wiring` picks them.

Every method that talks to a store or endpoint raises an `Unavailable` of `knowledge.errors` when that does not answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from knowledge.models import (
    TRUSTED,
    BoundSpace,
    Calibration,
    Captured,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    Context,
    ContextId,
    DeadEntry,
    Decision,
    Distillation,
    Embedded,
    EmbeddingSpace,
    Entry,
    EntryId,
    EntryType,
    Evidence,
    Founder,
    HandedOut,
    Hit,
    LeaseToken,
    LinkedPatterns,
    LinkKind,
    Move,
    Outcome,
    PatternId,
    Point,
    PointId,
    Provenance,
    PruneReport,
    SparseVector,
    StoredPoint,
    Task,
    TermStatistics,
    Vector,
    Where,
    WorkspaceStats,
)


class Clock(Protocol):
    """The time, so that a test can set it. Leases do not use it: they go by the database's clock."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        ...


class Embedder(Protocol):
    """Texts to vectors of one embedding space. Batching, retries and limits are the adapter's."""

    @property
    def enough_at_once(self) -> int | None:
        """How many texts one call embeds as quickly, each, as it would more of them; None: the more the better."""
        return None

    async def space(self) -> EmbeddingSpace:
        """Return the space of every vector this makes; the first call may load weights or ask the endpoint."""
        ...

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embedded:
        """Embed any number of non-blank texts, in order.

        Raises EmbedderUnavailable (worth a retry) or EmbedderRejected (never worth one).
        """
        ...

    async def of_space(self, space: EmbeddingSpace) -> Embedder:  # noqa: ARG002 - most know one space only
        """Return the embedder of a space among those known here; where none is, one whose space differs."""
        return self

    async def aclose(self) -> None:
        """Free weights, threads and connections."""
        ...


class ChatModel(Protocol):
    """A model that answers a text under instructions. Retries and limits are the adapter's."""

    @property
    def model(self) -> str:
        """The model's name, as the endpoint knows it."""
        ...

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        """Return the answer to a text; `as_json` asks for one JSON object, which the caller still has to check.

        Raises ChatUnavailable (worth a retry), QuestionRejected (of this text) or ChatRejected (of any).
        """
        ...

    async def aclose(self) -> None:
        """Free the connections."""
        ...


class VectorIndex(Protocol):
    """Points of an embedding space: dense and lexical vectors with filter fields. Derived from Postgres, never truth.

    The collection of a space is named after its fingerprint, so vectors of two models never meet; the alias
    `project_knowledge` points at the one in use.
    """

    async def ensure(self, space: EmbeddingSpace, *, in_use: bool = True) -> None:
        """Create the collection of the space with its payload indexes, if absent; point the alias at one in use."""
        ...

    async def upsert(self, space: EmbeddingSpace, points: Sequence[Point]) -> None:
        """Write all points or raise; once it returns they survive a kill and are found. Refuses a bad batch whole."""
        ...

    async def search(
        self, space: EmbeddingSpace, dense: Vector, lexical: SparseVector, where: Where, *, limit: int
    ) -> list[Hit]:
        """Return the union of the `limit` nearest points by each vector, both raw scores of each, in one round trip.

        Ordered by point id; the caller ranks.
        """
        ...

    async def nearest(
        self, space: EmbeddingSpace, dense: Sequence[Vector], where: Where, *, limit: int, at_least: float
    ) -> list[list[PointId]]:
        """Return for each vector the `limit` points of the highest cosine that have at least that one, highest first.

        Many vectors take few round trips.
        """
        ...

    async def delete(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> None:
        """Delete points; absent ids are no error, nor is a collection that is not there."""
        ...

    async def delete_expired(self, space: EmbeddingSpace, workspace: str, now: datetime) -> int:
        """Delete a workspace's points with `expires_at <= now`, by the payload index; return how many there were.

        A collection that is not there has none.
        """
        ...

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        """Return the exact number of a workspace's points."""
        ...

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PointId | None, limit: int
    ) -> list[tuple[PointId, Point | None]]:
        """Return up to `limit` points with ids above `after`, ascending by id, vectors included.

        A row that is no point of ours, whatever is wrong with it, comes as None.
        """
        ...

    async def drop(self, space: EmbeddingSpace) -> None:
        """Delete the collection of the space, if there is one."""
        ...

    async def aclose(self) -> None:
        """Flush and let go of the index."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Entries leased to one checkpoint until `lease_until`, oldest first. Empty when nothing is left to take."""

    token: LeaseToken
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a checkpoint takes: staged entries of a project (None: of every project).

    `only_vouched`: only those with a verifier named or decided by a human; `captured_before`: only those captured
    before then.
    """

    project_id: str | None = None
    only_vouched: bool = False
    captured_before: datetime | None = None


MOST_OF_TASK = 100
"""At most so many entries of one task are looked at; nobody fails more often before somebody looks."""


class EntryStore(Protocol):
    """Entries of one workspace, the truth. Rows are the queue as well: no second bookkeeping."""

    async def add(self, entries: Sequence[Entry]) -> list[Captured]:
        """Store new entries and their projects in one transaction; answer each, in order.

        A repeated idempotency key with the same content, or the same content of the same (project, task, run), is a
        duplicate; a repeated key with other content is refused (field `idempotency_key`).
        """
        ...

    async def get(self, entry_id: EntryId) -> Entry:
        """Return an entry. Raises NotFound."""
        ...

    async def resolve(
        self,
        entry_id: EntryId,
        *,
        solution_steps: str | None = None,
        revision_approach: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        by: Provenance = TRUSTED,
    ) -> Entry:
        """Give an open entry its resolution and stage it. The same resolution again changes nothing.

        Quarantined where it was, or where `by` names suspicions; low trust where either is.

        Raises NotFound, or NotOpen for an entry that has another resolution or was abandoned.
        """
        ...

    async def rejection_on_record(self, project_id: str, gate_type: str, task_id: str | None) -> EntryId | None:
        """Return a rejection of the same project, gate and task, if there is one."""
        ...

    async def of_task(
        self,
        project_id: str,
        task_id: str | None,
        entry_type: EntryType,
        *,
        gate_type: str | None = None,
        limit: int = MOST_OF_TASK,
    ) -> list[Entry]:
        """Return the entries of a task, or of none, and of a gate where one is named: open ones first, then latest."""
        ...

    async def claim(self, selection: Selection, *, limit: int, lease: timedelta) -> Claim:
        """Lease up to `limit` due entries, oldest first, by the database's clock; skips what others hold."""
        ...

    async def extend(self, claim: Claim, lease: timedelta) -> int:
        """Extend a lease; return how many of its entries it still holds."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give back what a lease still holds."""
        ...

    async def bury(self, token: LeaseToken, entry_id: EntryId, reason: str) -> None:
        """Mark a leased entry dead, with the reason."""
        ...

    async def abandon(self, project_id: str, *, unvouched: bool) -> int:
        """Abandon a project's open entries and, where `unvouched`, staged ones nobody vouches for; return how many."""
        ...

    async def due_projects(self, captured_before: datetime) -> list[str]:
        """Return the projects with staged entries captured before then, ascending."""
        ...

    async def pending(self, selection: Selection) -> int:
        """Return how many entries a checkpoint of this selection would take now, leased ones included."""
        ...

    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry, note down its points, recount. Raises NotFound."""
        ...

    async def sole_points(self, entry_id: EntryId) -> list[PointId]:
        """Return the points that rest on this entry alone."""
        ...

    async def of_project(self, project_id: str, *, limit: int) -> list[EntryId]:
        """Return up to `limit` entries of a project, ascending. Raises NotFound where there is no such project."""
        ...

    async def forget_project(self, project_id: str) -> bool:
        """Delete a project without entries and what is recorded of it; return False while an entry is there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """Points with which the index may differ: those to be as stored, and those that nothing stands behind any more."""

    stored: tuple[StoredPoint, ...] = ()
    gone: tuple[PointId, ...] = ()


class PointStore(Protocol):
    """What the index is to hold of one workspace, and where it may hold something else."""

    async def known(self, point_ids: Sequence[PointId]) -> set[PointId]:
        """Return those of the ids that are points of this workspace with an entry behind them."""
        ...

    async def doubt(self, point_ids: Sequence[PointId]) -> None:
        """Note down that the index may differ from these."""
        ...

    async def overtaken(self, point_ids: Sequence[PointId], embedded_at: datetime) -> int:
        """Note down those that a later decision was made about than that of `embedded_at`; return how many."""
        ...

    def settling(
        self, space: EmbeddingSpace, *, now: datetime, again_at: datetime, limit: int, also: Sequence[PointId] = ()
    ) -> AbstractAsyncContextManager[Unsettled]:
        """Give up to `limit` points noted down, and `also`, with no entry joining or leaving until the block ends.

        Left out are those that a checkpoint is about to write: they stay noted.

        When it ends well they are settled; those gone come once more after `again_at`, and are forgotten then.
        """
        ...

    async def count_words(self, counted: Mapping[PointId, Collection[int]]) -> None:
        """Add the distinct words of these points to the lexicon, of each point once, whoever comes first."""
        ...

    async def uncounted(self, space: EmbeddingSpace, limit: int) -> list[StoredPoint]:
        """Return up to `limit` points of embedded entries whose words were not counted."""
        ...


class Deciding(Protocol):
    """A transaction in which entries are given to patterns, alone in its workspace until it ends."""

    async def held(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId | None]:
        """Return those entries that the lease still holds, with the pattern an earlier attempt decided on."""
        ...

    async def patterns_by_key(self, match_keys: Sequence[str]) -> Mapping[str, PatternId]:
        """Return the patterns that entries with one of the keys belong to.

        As ruled or decided before, or founded with it.
        """
        ...

    async def existing(self, pattern_ids: Collection[PatternId]) -> set[PatternId]:
        """Return those of the patterns that are there."""
        ...

    async def write(
        self, decisions: Sequence[Decision], space: EmbeddingSpace, *, embedded_at: datetime, expires_at: datetime
    ) -> Mapping[PointId, bool]:
        """Write patterns, links, points and vectors; return the points kept, at most `MAX_POINTS` a pattern.

        True for those whose words are in the lexicon already. An entry that joined for other reasons than equal texts
        (`why`) binds its key to the pattern, so that whoever repeats it comes there too.
        """
        ...


class PatternStore(Protocol):
    """Patterns of one workspace and the points that stand for their texts."""

    def deciding(self, token: LeaseToken) -> AbstractAsyncContextManager[Deciding]:
        """Open the transaction in which leased entries join or found patterns; it commits when the block ends well."""
        ...

    async def mark_embedded(
        self, token: LeaseToken, entry_ids: Sequence[EntryId], *, embedded_at: datetime, expires_at: datetime
    ) -> set[EntryId]:
        """Mark entries embedded and recount their patterns, in one transaction; return those that were.

        Left out are entries the token no longer holds, and those whose vectors are of a space no longer in use.
        """
        ...

    async def analyse(self) -> None:
        """Have the store look at what it holds now, so that it plans its queries well after many entries came in."""
        ...

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        """Return what the patterns of points are compared by; left out are those without entries or a vector."""
        ...

    async def evidence(
        self, point_ids: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> Mapping[PointId, Evidence]:
        """Return the live patterns behind points, with words; points without live evidence are left out.

        With `project_id` also whether an entry of that project is among the evidence of each.
        """
        ...

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        """Return a live pattern. Raises NotFound."""
        ...

    async def page(self, *, after: PatternId | None, limit: int, now: datetime) -> list[Evidence]:
        """Return up to `limit` live patterns with ids above `after`, ascending by id."""
        ...

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        """Delete up to `limit` expired entries and those open or abandoned since before `open_before`; recount.

        Expired points go too: the index is pruned first, by its own filter. Others of these entries are noted down.
        """
        ...

    async def prunable(self, now: datetime, *, open_before: datetime) -> PruneReport:
        """Return what a whole prune would delete."""
        ...


class Regrouping(Protocol):
    """A transaction in which entries change patterns, alone in its workspace until it ends."""

    async def patterns_of(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId]:
        """Return the patterns of entries; left out are those that are of none."""
        ...

    async def entries(self, pattern_id: PatternId) -> list[Entry]:
        """Return all entries of a pattern, the oldest first."""
        ...

    async def found(self, pattern_id: PatternId, founder: Entry, *, match_key: str, founded_at: datetime) -> None:
        """Write a pattern without entries."""
        ...

    async def move(self, moves: Sequence[Move], to: PatternId, *, now: datetime) -> None:
        """Give entries to a pattern, with their points under new ids and their keys, for good; recount."""
        ...

    async def absorb(self, keep: PatternId, other: PatternId, *, now: datetime) -> None:
        """Give a pattern the keys, outcomes and links of one that it has the entries of; recount."""
        ...

    async def keep_apart(self, one: PatternId, other: PatternId, *, now: datetime) -> None:
        """Write down that two patterns are never to be proposed as one."""
        ...


class GroupingStore(Protocol):
    """Which entries of one workspace make up a pattern, for a person who sees it otherwise."""

    async def links(self, kind: LinkKind, *, of: PatternId | None, now: datetime, limit: int) -> list[LinkedPatterns]:
        """Return up to `limit` linked pairs, both of them live, the likeliest first; `of`: those of one pattern."""
        ...

    async def entries(self, pattern_id: PatternId, *, limit: int) -> list[Entry]:
        """Return up to `limit` entries of a pattern, the oldest first."""
        ...

    def regrouping(self) -> AbstractAsyncContextManager[Regrouping]:
        """Open the transaction in which entries change patterns; it commits when the block ends well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Undistilled:
    """A pattern to distil, with how many embedded entries it has now."""

    pattern_id: PatternId
    evidence: int


class DistillationStore(Protocol):
    """What a model wrote of the patterns of one workspace. It goes with any entry that it was made of."""

    async def due(self, model: str, *, now: datetime, least: int, grown: int) -> list[Undistilled]:
        """Return the patterns to distil, those with most evidence first.

        They have at least `least` live entries, and no answer yet, or one that has expired, or one of a time when they
        had at most a `grown`-th of the evidence; or their answer was refused and came from another model.
        """
        ...

    async def material(self, pattern_id: PatternId, *, now: datetime, limit: int) -> list[Entry]:
        """Return up to `limit` live entries of a pattern, the most trusted, then latest first."""
        ...

    async def keep(self, distillation: Distillation) -> bool:
        """Keep an answer in place of the one before; False, and nothing kept, where one of its entries is gone.

        It is shown until the first of its entries expires. A refused one leaves what was written before as it is, which
        is then due again once the evidence has grown from there.
        """
        ...


class SpaceStore(Protocol):
    """The embedding spaces of a store, and how common terms are in one workspace."""

    async def bound(self) -> BoundSpace | None:
        """Return the space in use, if one is bound."""
        ...

    async def bind(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        """Bind a space, once, whoever comes first. Raises SpaceMismatch if another one already has vectors."""
        ...

    async def recalibrate(self, space: EmbeddingSpace, calibration: Calibration) -> None:
        """Replace the calibration of a space."""
        ...

    async def local_only(self) -> bool:
        """Return whether no text of this workspace may go to an endpoint."""
        ...

    async def keep_local(self, *, on: bool) -> None:
        """Say whether no text of this workspace may go to an endpoint."""
        ...

    async def statistics(self, terms: Sequence[int]) -> TermStatistics:
        """Return how common these terms are in this workspace."""
        ...

    async def known(self) -> list[EmbeddingSpace]:
        """Return every space written down: the one in use first, then those there may be a collection of."""
        ...

    async def sample_situations(self, space: EmbeddingSpace, limit: int) -> tuple[list[Entry], Vector]:
        """Return up to `limit` entries of this workspace, spread over all, with their situations' vectors (n, dims)."""
        ...


class UpkeepStore(Protocol):
    """What keeping the index true needs of one workspace."""

    async def points(
        self, space: EmbeddingSpace, *, after: PointId | None, limit: int, lacking: bool = False
    ) -> list[StoredPoint]:
        """Return up to `limit` points with ids above `after`, ascending; `lacking`: only those without a vector."""
        ...

    async def put_vectors(self, space: EmbeddingSpace, vectors: Mapping[PointId, Vector]) -> None:
        """Keep vectors of points in a space; points that are gone are passed over."""
        ...

    async def doubt_unsupported(self) -> int:
        """Note down the points that no entry stands behind any more; return how many."""
        ...

    async def replace_terms(self, frequencies: Mapping[int, int], documents: int) -> None:
        """Replace the term statistics of the workspace."""
        ...

    async def retry_dead(self) -> int:
        """Stage dead entries again; return how many."""
        ...

    async def dead(self, limit: int, *, after: EntryId | None = None) -> list[DeadEntry]:
        """Return up to `limit` dead entries with their reasons, the latest first, from behind `after` on.

        Raises NotFound where that one is gone.
        """
        ...

    async def prepare(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        """Write down a space beside the one in use; one that was used before keeps what was fixed for it."""
        ...

    def switching(self, space: EmbeddingSpace) -> AbstractAsyncContextManager[None]:
        """Make a prepared space the one in use when the block ends well; no decision or mark is made meanwhile."""
        ...

    async def forget_space(self, space: EmbeddingSpace) -> None:
        """Delete the vectors of a space that is not in use."""
        ...

    async def unused_spaces(self) -> list[EmbeddingSpace]:
        """Return the spaces of the store that are not in use, and whose vectors may still be kept."""
        ...

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return how many points the workspace has, and how many of them have no vector in a space."""
        ...


class Snapshot(Protocol):
    """What a whole store holds at one moment, whatever is written meanwhile."""

    async def total(self) -> int:
        """Return how many rows there are in all parts."""
        ...

    def rows(self, part: str) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        """Yield the rows of a part of `knowledge.memory.archive`, in one order, a slice at a time."""
        ...


class ArchiveStore(Protocol):
    """A whole store, all workspaces, as the parts of an archive; ids are kept."""

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Open the store as it is now, for reading."""
        ...

    async def foreign(self, part: str, rows: Sequence[Mapping[str, Any]]) -> str | None:
        """Return why rows of an archive can never be written here, in a sentence, if so. Writes nothing."""
        ...

    async def write(self, part: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Write a slice of a part in one transaction; what is there already stays; return how many rows were new.

        An entry that is further in its life in the archive than here goes on to there. Raises InvalidInput (field
        `archive`) for rows that cannot be, Conflict for those that contradict what is here.
        """
        ...

    async def analyse(self) -> None:
        """Have the store look at what it holds now, so that it plans its queries well after much came in."""
        ...

    async def recount(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Derive the counts of patterns of an archive from the evidence that is here."""
        ...


class CheckpointStore(Protocol):
    """The checkpoints of one workspace."""

    async def start(self, project_id: str | None, checkpoint_type: CheckpointType, now: datetime) -> CheckpointReport:
        """Record that a checkpoint began."""
        ...

    async def finish(self, report: CheckpointReport) -> None:
        """Record what it did."""
        ...

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return a checkpoint's report. Raises NotFound."""
        ...

    async def stats(self) -> WorkspaceStats:
        """Return the counts of the workspace; `points` is left None."""
        ...


class ContextStore(Protocol):
    """Which context was handed out for which task with which patterns, of one workspace."""

    async def record(self, context: Context, task: Task, agent_type: str, now: datetime) -> None:
        """Keep the context's ids. Need not survive a power cut."""
        ...

    async def get(self, context_id: ContextId) -> HandedOut:
        """Return a context that was handed out with patterns. Raises NotFound."""
        ...

    async def handed_out(self, project_id: str, task_id: str, run_id: str | None) -> list[HandedOut]:
        """Return the contexts of a task's run, the latest first; one without a run is of any."""
        ...

    async def untold(self, project_id: str, task_id: str, run_id: str | None) -> list[HandedOut]:
        """Return those contexts, the latest first, with those of their patterns of which nothing was told since."""
        ...

    async def record_outcomes(self, outcomes: Sequence[Outcome], now: datetime) -> None:
        """Keep what came of patterns and recount them; what is told again of the same run replaces what was told.

        Raises NotFound for a pattern that is gone.
        """
        ...

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` contexts of before then with their outcomes, and recount; return how many."""
        ...


CANCELLED = "cancelled"
"""The error on record of a run that was stopped on its way."""


class JobStore(Protocol):
    """One run per job and slot, over any number of processes; jobs go over all workspaces."""

    async def begin(
        self, job: str, slot: datetime, *, takeover_after: timedelta, retry_after: timedelta, tries: int
    ) -> bool:
        """Return whether this process is to run the slot, which no other then is.

        A run that died is taken over after `takeover_after`. One that failed is repeated, up to `tries` in all: after
        `retry_after`, then twice that, and so on; one that was cancelled at once.
        """
        ...

    async def finish(self, job: str, slot: datetime, error: str | None) -> None:
        """Record the end of a run: an error, CANCELLED, or None if it did its work."""
        ...

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the workspaces that hold anything, ascending, from behind `after` on."""
        ...


class Progress(Protocol):
    """Told how far long work is. Called often; must be quick."""

    def __call__(self, done: int, total: int | None, /) -> None:
        """`done` of `total` items are done; a total of None is unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The open ports of one workspace."""

    workspace: str
    entries: EntryStore
    patterns: PatternStore
    distillations: DistillationStore
    points: PointStore
    spaces: SpaceStore
    checkpoints: CheckpointStore
    contexts: ContextStore
    index: VectorIndex
    embedder: Embedder
    clock: Clock
