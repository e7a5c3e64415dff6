"""Ports of git repositories as sources of documents."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from hardwon.models.documents import Source, SourceId


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file of a commit. `mark` changes with its content."""

    path: str
    mark: str


class Repository(Protocol):
    """A fetched git repository."""

    async def files(self) -> list[TreeFile]:
        """Return the plain files of the commit: no links, no other repositories."""

    async def content(self, mark: str) -> bytes:
        """Return the content of a file."""


class Repositories(Protocol):
    """Fetches git repositories."""

    def fetch(self, source: Source) -> AbstractAsyncContextManager[tuple[str, Repository]]:
        """Fetch a source; yield its commit and the repository. Raises SourceUnavailable."""

    async def forget(self, source_id: SourceId) -> None:
        """Delete the local copy of a source."""


class SourceStore(Protocol):
    """The git repositories of one workspace."""

    async def add(self, source: Source) -> Source:
        """Store a source; the same address and folder again in a partition updates it.

        Raises Conflict for a closed case.
        """

    async def of(self, partition: str | None) -> list[Source]:
        """Return the sources of a partition, or of all partitions that are not closed."""

    async def sources_of_closed_cases(self) -> list[Source]:
        """Return the sources of closed cases whose retention is over."""

    async def record_sync(self, source_id: SourceId, *, commit: str | None, error: str | None) -> None:
        """Record the result of a sync; without a commit the last one stays."""

    async def delete(self, partition: str, source_id: SourceId) -> int:
        """Delete a source and hide its documents, in one transaction; return their number. Raises NotFound."""
