"""Git repositories by dulwich: bare mirrors in the data directory, fetched without a git program.

A connection to an internal address is refused after it is made and before anything is sent, whatever the name resolved
to before. Redirects are not followed (`git_guards.py`).
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

from hardwon.errors import InvalidInput, SourceUnavailable
from hardwon.models.documents import SourceId
from knowledge.adapters.files.git_guards import OriginPools, check_folder
from knowledge.adapters.files.git_packs import CheckedClient
from knowledge.documents.ports import Repositories, Repository, Source, TreeFile

_TIMEOUT_SECONDS: Final = 30.0
_MAX_BYTES: Final = 500_000_000
_FETCH_LOCKS: WeakValueDictionary[SourceId, asyncio.Lock] = WeakValueDictionary()
"""One fetch of a source at a time."""
_ABANDONED: Final[set[asyncio.Task[None]]] = set()
"""References to tasks, which the event loop alone does not keep from being collected."""
_DAMAGED: Final = (ChecksumMismatch, FileFormatException, ApplyDeltaError, struct.error, zlib.error, AssertionError)
"""Errors of dulwich for a file of a repository that is not whole, as after a power cut."""
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
"""Errors of dulwich for a server without a repository, or one that it cannot read: they have no common class."""
_COPY_LOST: Final = "its local copy is gone: the next sync fetches it again"
_MAX_ENTRIES: Final = 500_000
_MAX_PATH_BYTES: Final = 100_000_000
"""More than the largest repositories of code have."""
_FILE_MODES: Final = frozenset({0o100644, 0o100755, 0o100664})


class GitRepositories(Repositories):
    """Mirrors in a folder, one for each source."""

    def __init__(self, folder: Path, *, inside: bool = False) -> None:
        self._folder = folder
        self._inside = inside

    @asynccontextmanager
    async def fetch(self, source: Source) -> AsyncIterator[tuple[str, Repository]]:
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(_FETCH_LOCKS.setdefault(source.source_id, asyncio.Lock()))
            fetching = asyncio.create_task(asyncio.to_thread(self._fetch, source))
            try:
                repo, commit = await asyncio.shield(fetching)
            except asyncio.CancelledError:  # the thread continues
                leaving = asyncio.create_task(_finish_abandoned(fetching, turn.pop_all()))
                _ABANDONED.add(leaving)
                leaving.add_done_callback(_ABANDONED.discard)
                raise
            except (*_UNREADABLE, *_DAMAGED) as exc:
                if isinstance(exc, _DAMAGED) or self._is_of_copy(exc, source):
                    await self.forget(source.source_id)
                    raise SourceUnavailable(_COPY_LOST) from exc
                raise SourceUnavailable(f"{source.url} cannot be fetched: {_reason(exc)}") from exc
            try:
                yield commit.decode(), _FetchedRepository(repo, commit)
            except SourceUnavailable:
                await self.forget(source.source_id)  # a part of it cannot be read, so it is fetched again
                raise
            finally:
                repo.close()

    async def forget(self, source_id: SourceId) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder / str(source_id), ignore_errors=True)

    def _is_of_copy(self, error: Exception, source: Source) -> bool:
        """Return whether the error is about a file of the local copy."""
        return isinstance(error, OSError) and str(self._folder / str(source.source_id)) in str(error.filename)

    def _fetch(self, source: Source) -> tuple[Repo, ObjectID]:
        place = self._folder / str(source.source_id)
        if (place / "HEAD").exists():
            repo = Repo(str(place))
        else:
            shutil.rmtree(place, ignore_errors=True)  # left by a kill: HEAD is written last
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
            repo.refs[Ref(b"refs/heads/hardwon")] = commit  # protects it from garbage collection
        except BaseException:
            repo.close()
            raise
        return repo, commit

    def _get(self, url: str, repo: Repo, wants: Callable[..., list[ObjectID]]) -> None:
        parts = urlsplit(url)
        if parts.scheme == "file":
            LocalGitClient().fetch(str(check_folder(Path(unquote(parts.path)))), repo, determine_wants=wants, depth=1)
            return
        manager = OriginPools(url, inside=self._inside, most_bytes=_MAX_BYTES)
        client = CheckedClient(f"https://{parts.netloc}", pool_manager=manager, timeout=_TIMEOUT_SECONDS, quiet=True)
        client.fetch(parts.path, repo, determine_wants=wants, depth=1)


async def _finish_abandoned(fetching: asyncio.Task[tuple[Repo, ObjectID]], turn: AsyncExitStack) -> None:
    """Keep the lock of a mirror until an abandoned fetch is over."""
    async with turn:
        with suppress(Exception):
            repo, _ = await fetching
            repo.close()


def _reason(error: Exception) -> str:
    """Return the reason why a repository cannot be fetched."""
    match error:
        case HTTPUnauthorized():  # forges answer so for both
            return "it asks for a password: it does not exist, or is private; passwords are not sent"
        case UnsupportedExtension() | UnsupportedVersion():
            return f"its format is not supported ({error})"
        case BufferError():  # raised for a pack that was open during another error
            return "a file of it is not whole"
        case KeyError(args=(bytes(name),)):
            return f"it is incomplete: {name.decode('ascii', 'replace')} is missing"
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
    """Return the commit of a branch or a tag; of an annotated tag the commit it is for."""
    object_ = repo[tip]
    while isinstance(object_, Tag):
        object_ = repo[object_.object[1]]
    if not isinstance(object_, Commit):
        raise GitProtocolError("its branch or tag is not a commit")
    return object_.id


class _FetchedRepository(Repository):
    def __init__(self, repo: Repo, commit: ObjectID) -> None:
        self._repo = repo
        self._commit = commit

    async def files(self) -> list[TreeFile]:
        try:
            return await asyncio.to_thread(self._files)
        except (*_UNREADABLE, *_DAMAGED) as exc:
            raise SourceUnavailable(_COPY_LOST) from exc

    def _files(self) -> list[TreeFile]:
        store = self._repo.object_store
        commit = self._repo[self._commit]
        assert isinstance(commit, Commit)  # noqa: S101 - checked before
        found = []
        path_bytes = 0
        for number, entry in enumerate(iter_tree_contents(store, commit.tree, include_trees=True), 1):
            if number > _MAX_ENTRIES:  # the same folder many times takes no room in a pack
                raise InvalidInput("url", f"holds more than {_MAX_ENTRIES:,} files and folders")
            path_bytes += len(entry.path)
            if path_bytes > _MAX_PATH_BYTES:  # nested folders repeat the paths above them
                raise InvalidInput("url", f"holds paths of more than {_MAX_PATH_BYTES:,} bytes together")
            if entry.mode in _FILE_MODES:
                path = entry.path.decode("utf-8", "replace")
                found.append(TreeFile(path=path, mark=entry.sha.decode()))
        return found

    async def content(self, mark: str) -> bytes:
        try:
            return await asyncio.to_thread(self._content, ObjectID(mark.encode()))
        except (*_UNREADABLE, *_DAMAGED) as exc:
            raise SourceUnavailable(_COPY_LOST) from exc

    def _content(self, mark: ObjectID) -> bytes:
        blob = self._repo[mark]
        return blob.data if isinstance(blob, Blob) else b""
