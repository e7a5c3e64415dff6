"""Ports of search: finders, the passage index, and the stores that texts are read from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Protocol

from hardwon.models.documents import Document, DocumentId, Finding, LogLine, Passage, PassageId
from hardwon.models.log_query import LineFilter
from hardwon.models.maintenance import IndexHealth
from knowledge.documents.access import Scope
from knowledge.documents.models import (
    PartitionVersion,
    PassageHit,
    PassagePoint,
    PassageWhere,
    Profile,
    Query,
    WholeDocument,
)
from knowledge.models import EmbeddingSpace, SparseVector, TermStatistics, Vector


class Finder(Protocol):
    """Finds passages for one answering system: the only part in which the systems differ."""

    async def find(self, query: Query, scope: Scope, profile: Profile) -> Finding:
        """Return the passages; if all searches fail, `Finding.error` says why."""


class Searcher(Protocol):
    """The one search that every finder uses."""

    async def search(self, query: Query, scope: Scope) -> Finding:
        """Return the best `query.k` passages of the scope, with `coverage` None.

        Raises Unavailable if the database, index or embedder does not respond.
        """


class Reranker(Protocol):
    """A model that scores pairs of texts. One that `ranks` scores texts for a question, higher is better.

    One that `judges` says how surely a claim, the query, follows from a text, 0..1.
    """

    @property
    def name(self) -> str:
        """Name of the model; part of the cache key of an answer."""

    @property
    def ranks(self) -> bool:
        """True if its scores order texts by how well they answer."""

    @property
    def judges(self) -> bool:
        """True if its scores say whether claims follow."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text. Raises RerankerUnavailable."""


class PassageStore(Protocol):
    """Passages of one workspace: returns only what is active and in the scope."""

    async def visible(self, passages: Sequence[Passage], scope: Scope) -> Mapping[PassageId, str]:
        """Return the stored text of those passages whose document is in the scope, current and not deleted.

        A computed passage has its own text, if its document is visible.
        """

    async def versions(self, scope: Scope) -> tuple[PartitionVersion, ...]:
        """Return the version of each partition of the scope, ascending by name: it rises with every visible change."""

    async def documents(self, scope: Scope) -> list[Document]:
        """Return the documents of the scope that have an indexed version, ascending by title, then uri."""

    async def whole(self, scope: Scope, documents: Collection[DocumentId] | None = None) -> list[WholeDocument]:
        """Return visible documents with their texts: all of the scope, or `documents` in their order."""

    async def passages(self, passage_ids: Sequence[PassageId], scope: Scope) -> list[Passage]:
        """Return those passages that are visible in the scope, without scores."""

    async def counts(self, scope: Scope) -> tuple[int, int]:
        """Return the number of visible documents of the scope, and of those that wait to be indexed."""

    async def statistics(self, scope: Scope, terms: Sequence[int]) -> TermStatistics:
        """Return document frequencies of terms among the visible passages of the scope."""

    async def sample(self, space: EmbeddingSpace, limit: int) -> list[tuple[str, Vector]]:
        """Return some visible passages with their embeddings."""

    async def scale(self, space: EmbeddingSpace) -> tuple[float, float] | None:
        """Return the measured cosines of relevance 0 and 1, None if they were not measured."""

    async def keep_scale(self, space: EmbeddingSpace, low: float, high: float, passages: int) -> None:
        """Store the measured cosines of relevance 0 and 1."""


MAX_ENTRY_LINES = 50
"""Lines of an entry of a log that are shown: a trace of calls can have thousands. Ours."""


@dataclass(frozen=True, slots=True)
class FieldCounts:
    """The most frequent values of a field, hours and days in their order; of `values` different ones in `lines`."""

    counts: tuple[tuple[str, int], ...]
    values: int
    lines: int


class LogStore(Protocol):
    """Lines of a log in a scope, selected and counted by the database as soon as they are stored."""

    async def documents(self, scope: Scope) -> list[Document]:
        """Return the documents of the scope that are shown, and logs whose lines are stored.

        `generation` is the one whose lines are counted: the latest, though it may still wait to be indexed.
        """

    async def by_severity(self, log: DocumentId, scope: Scope, only: LineFilter) -> Mapping[str, int]:
        """Return the number of matching lines by severity; lines without one count as ''."""

    async def select(
        self, log: DocumentId, scope: Scope, only: LineFilter, *, last_first: bool = False, limit: int
    ) -> tuple[int, list[LogLine]]:
        """Return the number of matching lines, and the first `limit` of them in their order, or the last ones first."""

    async def span(self, log: DocumentId, scope: Scope) -> tuple[datetime | None, datetime | None]:
        """Return the first and the last moment that a line names."""

    async def fields(
        self, log: DocumentId, scope: Scope, only: LineFilter, field: str, *, zone: tzinfo, limit: int
    ) -> FieldCounts:
        """Return what matching lines name as a field: address, path, an hour in a zone, a key; or their templates."""

    async def holding(self, scope: Scope, terms: Sequence[str], *, limit: int) -> list[tuple[DocumentId, LogLine, int]]:
        """Return the first lines of shown logs that hold all terms, with their logs and their offsets in these."""

    async def numbered(
        self, logs: Collection[DocumentId], scope: Scope, numbers: Sequence[int]
    ) -> list[tuple[DocumentId, LogLine, int]]:
        """Return the lines of shown logs with these numbers, with their logs and their offsets in these."""

    async def entry_like(
        self, log: DocumentId, scope: Scope, line: int, only: LineFilter
    ) -> tuple[list[LogLine], int] | None:
        """Return the first entry that fits a filter and has the template of a line, and its offset; None if none does.

        An entry is a line and those below it without a time, `MAX_ENTRY_LINES` of them at most.
        """

    async def around(self, log: DocumentId, scope: Scope, line: int, *, neighbours: int) -> list[LogLine]:
        """Return the line with this number and `neighbours` lines on each side."""


class PassageIndex(Protocol):
    """Points of chunks of one embedding space, in a collection of their own. Derived from Postgres, never truth."""

    async def ensure(self, space: EmbeddingSpace) -> None:
        """Create the collection of the space with its payload indexes, if absent."""

    async def upsert(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        """Write all points or raise; once it returns they survive a kill and can be found."""

    async def search(
        self,
        space: EmbeddingSpace,
        dense: Vector,
        lexical: SparseVector,
        where: PassageWhere,
        *,
        limit: int,
        exact: bool | None = None,
    ) -> list[PassageHit]:
        """Return the union of the `limit` nearest points by each vector, both raw scores of each.

        `exact`: compare with every point (True) or by the graph as it is (False), where an index has one; by default by
        a graph once that is built.
        """

    async def delete(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> None:
        """Delete points; absent ids are ignored."""

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        """Return the exact number of points of a workspace."""

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PassageId | None, limit: int
    ) -> list[PassageId]:
        """Return up to `limit` point ids above `after`, ascending."""

    async def find_missing(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> list[PassageId]:
        """Return those ids that have no point, in the given order."""

    async def recreate(self, space: EmbeddingSpace) -> None:
        """Delete the collection of the space and create it again, empty."""
        await self.drop(space)
        await self.ensure(space)

    async def drop(self, space: EmbeddingSpace) -> None:
        """Delete the collection of the space, if there is one."""

    async def wait_until_consistent(self) -> None:
        """Wait until nodes that were away have what they missed; nothing missing may be called lost before."""

    async def layout_differences(self, space: EmbeddingSpace) -> list[str]:
        """Return in which points the collection is not laid out as the settings ask, in words; none if it is absent."""
        del space
        return []

    async def is_built(self, space: EmbeddingSpace) -> bool:
        """Return whether the index has finished its work on the collection, such as building a graph."""
        del space
        return True

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        """Return the state of the index and of the collection of a space. Raises IndexUnavailable."""

    async def aclose(self) -> None:
        """Flush and close the index."""
