"""Git repositories by dulwich: bare mirrors in the data directory, fetched without a git program.

A connection is refused where it leads inside, after it was made and before anything is sent: whatever a name meant when
it was looked up. Redirects are not followed (`git_guards.py`).
"""

from __future__ import annotations

import asyncio
import shutil
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

import urllib3
from dulwich.client import HTTPProxyUnauthorized, HTTPUnauthorized, InvalidWants, LocalGitClient
from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    GitProtocolError,
    MissingCommitError,
    NotGitRepository,
    ObjectMissing,
    WrongObjectException,
)
from dulwich.object_store import iter_tree_contents
from dulwich.objects import Blob, Commit, ObjectID, Tag
from dulwich.pack import PackFileDisappeared, UnresolvedDeltas
from dulwich.refs import Ref, SymrefLoop
from dulwich.repo import Repo, UnsupportedExtension, UnsupportedVersion

from knowledge.adapters.git_guards import Pools, check_folder
from knowledge.adapters.git_packs import CheckedClient
from knowledge.documents.models import SourceId
from knowledge.documents.ports import Repositories, Repository, Source, TreeFile
from knowledge.errors import InvalidInput, SourceUnavailable

_TIMEOUT_SECONDS: Final = 30.0
_MOST_BYTES: Final = 500_000_000
_TURNS: WeakValueDictionary[SourceId, asyncio.Lock] = WeakValueDictionary()
"""One fetch of a source at a time."""
_LEAVING: Final[set[asyncio.Task[None]]] = set()
"""Held here, since the event loop alone does not keep a task from being collected."""
_DAMAGED: Final = (ChecksumMismatch, FileFormatException, ApplyDeltaError, struct.error, zlib.error, AssertionError)
"""What dulwich raises where a file of a repository is not whole, as a power cut leaves it."""
_UNREADABLE: Final = (
    GitProtocolError,
    NotGitRepository,
    HTTPUnauthorized,
    HTTPProxyUnauthorized,
    InvalidWants,
    MissingCommitError,
    ObjectMissing,
    WrongObjectException,
    SymrefLoop,
    UnresolvedDeltas,
    PackFileDisappeared,
    UnsupportedExtension,
    UnsupportedVersion,
    urllib3.exceptions.HTTPError,
    BufferError,
    LookupError,
    OSError,
    ValueError,
)
"""What dulwich raises of a server that gives no repository, or of one that it cannot read: it has no one class."""
_GONE: Final = "what was fetched of it is gone: the next sync fetches it again"
_MOST_ENTRIES: Final = 500_000
_MOST_OF_PATHS: Final = 100_000_000
"""More than the largest repositories of code have."""
_PLAIN: Final = frozenset({0o100644, 0o100755, 0o100664})


class GitRepositories(Repositories):
    """Mirrors below a folder, one a source."""

    def __init__(self, folder: Path, *, inside: bool = False) -> None:
        self._folder = folder
        self._inside = inside

    @asynccontextmanager
    async def fetch(self, source: Source) -> AsyncIterator[tuple[str, Repository]]:
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(_TURNS.setdefault(source.source_id, asyncio.Lock()))
            fetching = asyncio.create_task(asyncio.to_thread(self._fetch, source))
            try:
                repo, commit = await asyncio.shield(fetching)
            except asyncio.CancelledError:  # its thread goes on
                leaving = asyncio.create_task(_leave(fetching, turn.pop_all()))
                _LEAVING.add(leaving)
                leaving.add_done_callback(_LEAVING.discard)
                raise
            except (*_UNREADABLE, *_DAMAGED) as exc:
                if isinstance(exc, _DAMAGED) or self._is_of_copy(exc, source):
                    await self.forget(source.source_id)
                    raise SourceUnavailable(_GONE) from exc
                raise SourceUnavailable(f"{source.url} cannot be fetched: {_why(exc)}") from exc
            try:
                yield commit.decode(), _Fetched(repo, commit)
            except SourceUnavailable:
                await self.forget(source.source_id)  # a part of it cannot be read: so it is fetched anew
                raise
            finally:
                repo.close()

    async def forget(self, source_id: SourceId) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder / str(source_id), ignore_errors=True)

    def _is_of_copy(self, error: Exception, source: Source) -> bool:
        """Return whether it is a file of the copy that the system refused."""
        return isinstance(error, OSError) and str(self._folder / str(source.source_id)) in str(error.filename)

    def _fetch(self, source: Source) -> tuple[Repo, ObjectID]:
        place = self._folder / str(source.source_id)
        if (place / "HEAD").exists():
            repo = Repo(str(place))
        else:
            shutil.rmtree(place, ignore_errors=True)  # a kill left it half made: HEAD comes last
            place.mkdir(parents=True, mode=0o700)
            repo = Repo.init_bare(str(place))
        try:
            wanted: list[ObjectID] = []

            def wants(refs: Mapping[Ref, ObjectID | None], depth: int | None = None) -> list[ObjectID]:
                del depth
                tip = _tip(refs, source.branch)
                wanted.append(tip)
                return [] if tip in repo.object_store else [tip]

            self._get(source.url, repo, wants)
            commit = _commit(repo, wanted[0])
            repo.refs[Ref(b"refs/heads/hardwon")] = commit  # so that nothing takes it for garbage
        except BaseException:
            repo.close()
            raise
        return repo, commit

    def _get(self, url: str, repo: Repo, wants: Callable[..., list[ObjectID]]) -> None:
        parts = urlsplit(url)
        if parts.scheme == "file":
            LocalGitClient().fetch(str(check_folder(Path(unquote(parts.path)))), repo, determine_wants=wants, depth=1)
            return
        manager = Pools(url, inside=self._inside, most_bytes=_MOST_BYTES)
        client = CheckedClient(f"https://{parts.netloc}", pool_manager=manager, timeout=_TIMEOUT_SECONDS, quiet=True)
        client.fetch(parts.path, repo, determine_wants=wants, depth=1)


async def _leave(fetching: asyncio.Task[tuple[Repo, ObjectID]], turn: AsyncExitStack) -> None:
    """Let nobody else touch a mirror before the fetch is over that nobody waits for any more."""
    async with turn:
        with suppress(Exception):
            repo, _ = await fetching
            repo.close()


def _why(error: Exception) -> str:
    """Return in words why a repository cannot be fetched."""
    match error:
        case HTTPUnauthorized():  # what forges answer for either
            return "it asks for a password: there is none of that name, or not for everybody; passwords are not sent"
        case UnsupportedExtension() | UnsupportedVersion():
            return f"it is of a format that is not read here ({error})"
        case BufferError():  # a pack that is read while an error comes of it
            return "a file of it is not whole"
        case KeyError(args=(bytes(lacking),)):
            return f"it is not whole: it lacks {lacking.decode('ascii', 'replace')}"
        case _:
            return " ".join(str(error).split()).rsplit("Caused by ", 1)[-1][:300] or type(error).__name__


def _tip(refs: Mapping[Ref, ObjectID | None], branch: str | None) -> ObjectID:
    names = (
        [f"refs/heads/{branch}", f"refs/tags/{branch}"] if branch else ["HEAD", "refs/heads/main", "refs/heads/master"]
    )
    for name in names:
        if found := refs.get(Ref(name.encode())):
            return found
    raise GitProtocolError(f"there is no branch {branch}" if branch else "it has no commit")


def _commit(repo: Repo, tip: ObjectID) -> ObjectID:
    """Return the commit that a branch or a tag stands for: of a tag with a note of its own, the one it is of."""
    told = repo[tip]
    while isinstance(told, Tag):
        told = repo[told.object[1]]
    if not isinstance(told, Commit):
        raise GitProtocolError("what is to be read of it is no commit")
    return told.id


class _Fetched(Repository):
    def __init__(self, repo: Repo, commit: ObjectID) -> None:
        self._repo = repo
        self._commit = commit

    async def files(self) -> list[TreeFile]:
        try:
            return await asyncio.to_thread(self._files)
        except (*_UNREADABLE, *_DAMAGED) as exc:
            raise SourceUnavailable(_GONE) from exc

    def _files(self) -> list[TreeFile]:
        store = self._repo.object_store
        commit = self._repo[self._commit]
        assert isinstance(commit, Commit)  # noqa: S101 - asked before
        found = []
        told = 0
        for number, entry in enumerate(iter_tree_contents(store, commit.tree, include_trees=True), 1):
            if number > _MOST_ENTRIES:  # ten folders that are one, and so in each of them, take no room where they lie
                raise InvalidInput("url", f"holds more than {_MOST_ENTRIES:,} files and folders")
            told += len(entry.path)
            if told > _MOST_OF_PATHS:  # folders in folders are told once more by each within
                raise InvalidInput("url", f"holds paths of more than {_MOST_OF_PATHS:,} bytes together")
            if entry.mode in _PLAIN:
                path = entry.path.decode("utf-8", "replace")
                found.append(TreeFile(path=path, mark=entry.sha.decode()))
        return found

    async def content(self, mark: str) -> bytes:
        try:
            return await asyncio.to_thread(self._content, ObjectID(mark.encode()))
        except (*_UNREADABLE, *_DAMAGED) as exc:
            raise SourceUnavailable(_GONE) from exc

    def _content(self, mark: ObjectID) -> bytes:
        blob = self._repo[mark]
        return blob.data if isinstance(blob, Blob) else b""
