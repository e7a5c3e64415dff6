"""Where documents come from."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from knowledge.documents.models import SourceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A git repository whose files are documents of a partition."""

    source_id: SourceId
    partition: str
    url: str
    branch: str | None
    subdir: str
    globs: tuple[str, ...]
    last_commit: str | None
    last_error: str | None
    synced_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file of a commit. `mark` changes with its content."""

    path: str
    mark: str


class Repository(Protocol):
    """A git repository as fetched."""

    async def files(self) -> list[TreeFile]:
        """Return the plain files of the commit: no links, no other repositories."""
        ...

    async def content(self, mark: str) -> bytes:
        """Return the content of a file."""
        ...


class Repositories(Protocol):
    """Fetches git repositories."""

    def fetched(self, source: Source) -> AbstractAsyncContextManager[tuple[str, Repository]]:
        """Fetch a source; give its commit, and the repository until the block ends. Raises SourceUnavailable."""
        ...

    async def forget(self, source_id: SourceId) -> None:
        """Delete what was fetched of a source."""
        ...


class SourceStore(Protocol):
    """The git repositories of one workspace."""

    async def add(self, source: Source) -> Source:
        """Keep a source; the same address and folder again in a partition changes it.

        Raises Conflict for a closed case.
        """
        ...

    async def of(self, partition: str | None) -> list[Source]:
        """Return the sources of a partition, or of all that are not closed."""
        ...

    async def closed(self) -> list[Source]:
        """Return the sources of cases that are closed, and not kept any longer."""
        ...

    async def synced(self, source_id: SourceId, *, commit: str | None, error: str | None) -> None:
        """Note what came of a sync; without a commit the last one stays."""
        ...

    async def delete(self, partition: str, source_id: SourceId) -> int:
        """Forget a source and hide its documents for good, in one; return how many. Raises NotFound."""
        ...
