"""Git repositories as documents: fetched by a job and on demand, never by a question; only what changed is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from uuid import uuid4

from knowledge.documents.access import Scope
from knowledge.documents.fetching import check_url
from knowledge.documents.library import DocumentLibrary
from knowledge.documents.links import link_of
from knowledge.documents.models import DocumentStatus, NewDocument, SourceId
from knowledge.documents.parsing import readable
from knowledge.documents.ports import DocumentStore, Repositories, Repository, Source, SourceStore, TreeFile
from knowledge.errors import InvalidInput, NotFound, SourceUnavailable
from knowledge.logs import get_logger
from knowledge.redaction import redact

log = get_logger(__name__)

MOST_FILES: Final = 20_000
_LONGEST_URL: Final = 2000
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSource:
    """A repository to fetch documents from: all readable files below `subdir`, or those that match one of `globs`."""

    url: str
    branch: str | None = None
    subdir: str = ""
    globs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync of a source did. `error` says why it could not be fetched; then nothing was changed."""

    source_id: SourceId
    url: str
    commit: str | None = None
    added: int = 0
    unreadable: int = 0
    deleted: int = 0
    unchanged: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSync:
    """Takes over what changed in repositories. What may be fetched from, `allowed` says."""

    store: SourceStore
    documents: DocumentStore
    library: DocumentLibrary
    repositories: Repositories
    allowed: tuple[str, ...] = ()

    async def add(self, new: NewSource, scope: Scope) -> Source:
        """Make a repository a source of a partition. Raises InvalidInput for an address that may not be fetched."""
        check_url(new.url, self.allowed)
        _check_names(new)
        if self.library.redaction:
            _check_secrets(new)
        source = Source(
            source_id=SourceId(uuid4()),
            partition=scope.writable(),
            url=new.url,
            branch=new.branch,
            subdir=new.subdir.strip("/"),
            globs=new.globs,
            last_commit=None,
            last_error=None,
            synced_at=None,
        )
        return await self.store.add(source)

    async def sources(self, scope: Scope) -> list[Source]:
        """Return the sources of a scope."""
        return [source for partition in scope.partitions for source in await self.store.of(partition)]

    async def sync(self, scope: Scope) -> list[SyncReport]:
        """Sync the sources of a scope, one after the other; one that cannot be fetched stops no other."""
        return [await self.sync_one(source, scope) for source in await self.store.of(scope.writable())]

    async def sync_one(self, source: Source, scope: Scope) -> SyncReport:
        """Sync one source: read what changed, delete what is gone."""
        try:
            check_url(source.url, self.allowed)
            async with self.repositories.fetched(source) as (commit, repository):
                report = await self._take_over(source, scope, commit, repository)
        except NotFound as error:  # deleted meanwhile, with all that was taken over before
            await self.repositories.forget(source.source_id)
            log.warning("source_not_synced", source_id=str(source.source_id), reason=str(error))
            return SyncReport(source_id=source.source_id, url=source.url, error=str(error))
        except (SourceUnavailable, InvalidInput) as error:
            reason = redact(str(error)).text if self.library.redaction else str(error)
            await self.store.synced(source.source_id, commit=None, error=reason)
            log.warning("source_not_synced", source_id=str(source.source_id), reason=reason)
            return SyncReport(source_id=source.source_id, url=source.url, error=reason)
        await self.store.synced(source.source_id, commit=report.commit, error=None)
        log.info("source_synced", source_id=str(source.source_id), commit=report.commit, added=report.added)
        return report

    async def _take_over(self, source: Source, scope: Scope, commit: str, repository: Repository) -> SyncReport:
        known = await self.documents.marks(source.partition, source.source_id)
        name = await self._name(source, known)
        wanted, passed_over = self._by_uri(name, source, await repository.files())
        if not wanted and not known:
            raise _nothing(source)
        if len(wanted) > MOST_FILES:
            raise InvalidInput("url", f"holds {len(wanted)} files, more than {MOST_FILES}: name a folder or patterns")
        added, unreadable, refused = 0, passed_over, 0
        for uri, file in wanted.items():
            if uri in known and known[uri][1] == file.mark:
                continue
            new = NewDocument(
                uri=f"{name}/{file.path}",
                content=await repository.content(file.mark),
                link=link_of(source.url, commit, file.path),
                mark=file.mark,
                source_id=source.source_id,
            )
            try:
                taken = await self.library.add(new, scope)
            except InvalidInput as error:  # a name that no document may have
                log.warning("file_passed_over", reason=str(error))
                refused += 1
                continue
            added += taken.changed
            unreadable += taken.changed and taken.document.status is DocumentStatus.FAILED
        gone = [document_id for uri, (document_id, _) in known.items() if uri not in wanted]
        deleted = await self.library.delete(scope, gone) if gone else 0
        return SyncReport(
            source_id=source.source_id,
            url=source.url,
            commit=commit,
            added=added,
            unreadable=unreadable + refused,
            deleted=deleted,
            unchanged=len(wanted) - added - refused,
        )

    async def _name(self, source: Source, known: Collection[str]) -> str:
        """Return what the uris of a source begin with, so that two repositories do not meet.

        That is the last part of its address, or more of it where documents of another one begin with that already. What
        it was before, it stays.
        """
        names = _names(source.url)
        taken = [
            uri
            for other in await self.store.of(source.partition)
            if other.url != source.url and _may_meet(names, _names(other.url))
            for uri in await self.documents.marks(source.partition, other.source_id)
        ]
        free = [name for name in names if not _begins(name, taken)]
        held = [name for name in free if _begins(name, known)]
        return (held or free or names[-1:])[0]

    def _by_uri(self, name: str, source: Source, files: Iterable[TreeFile]) -> tuple[dict[str, TreeFile], int]:
        """Return the files that become documents, and how many do not: their names differ in a secret alone."""
        found: dict[str, TreeFile] = {}
        passed_over = 0
        for file in files:
            if not _wanted(source, file):
                continue
            if found.setdefault(self.library.kept_as(f"{name}/{file.path}"), file) is not file:
                passed_over += 1
                log.warning("file_passed_over", reason="another file has the same name without its secrets")
        return found, passed_over

    async def forget(self, scope: Scope, source_id: SourceId) -> int:
        """Forget a source with its documents; return how many. Raises NotFound."""
        partition = scope.writable()
        deleted = await self.store.delete(partition, source_id)
        await self.repositories.forget(source_id)
        return deleted

    async def forget_closed(self) -> int:
        """Forget the sources of closed cases with their documents; return how many of those.

        First what was fetched of them, so that a kill leaves none of that.
        """
        deleted = 0
        for source in await self.store.closed():
            await self.repositories.forget(source.source_id)
            deleted += await self.store.delete(source.partition, source.source_id)
        return deleted


def _nothing(source: Source) -> InvalidInput:
    """Return what to tell of a source that nothing is taken from: a name in it is wrong most likely."""
    below = f"below {source.subdir}/" if source.subdir else "in it"
    kind = f"matches {' or '.join(source.globs)}" if source.globs else "is of a kind that hardwon reads"
    return InvalidInput(
        "subdir" if source.subdir else "globs" if source.globs else "url",
        f"no file {below} {kind}: add it as it is called, and take this one away with"
        f" `hardwon kb delete --source {source.source_id}`",
    )


def _check_names(new: NewSource) -> None:
    if ".." in new.subdir.split("/") or new.subdir.startswith("/"):
        raise InvalidInput("subdir", "give a folder of the repository, without a leading '/' or '..'")
    for field, text, longest in (
        ("url", new.url, _LONGEST_URL),
        ("branch", new.branch or "", _LONGEST_NAME),
        ("subdir", new.subdir, _LONGEST_URL),
        *(("globs", glob, _LONGEST_NAME) for glob in new.globs),
    ):
        if len(text) > longest or not text.isprintable():
            raise InvalidInput(field, f"give at most {longest} printable characters")


def _check_secrets(new: NewSource) -> None:
    """Raise InvalidInput for what looks like a secret: a source without it would be another one."""
    told = {"url": (new.url,), "branch": (new.branch or "",), "subdir": (new.subdir,), "globs": new.globs}
    for field, texts in told.items():
        for text in texts:
            if found := redact(text).found:
                raise InvalidInput(field, f"holds what looks like a secret ({found[0]}): write it without")


def _names(url: str) -> list[str]:
    """Return the last part of an address, the last two, and so on, up to all of it."""
    *parts, last = url.split("://", 1)[-1].strip("/").split("/")
    told = [last.removesuffix(".git") or "repository"]
    for part in filter(None, reversed(parts)):
        told.append(f"{part}/{told[-1]}")
    return told


def _may_meet(names: Iterable[str], others: Sequence[str]) -> bool:
    return any(_begins(one, [f"{two}/"]) or _begins(two, [f"{one}/"]) for one in names for two in others)


def _begins(name: str, uris: Iterable[str]) -> bool:
    return any(uri.startswith(f"{name}/") for uri in uris)


def _wanted(source: Source, file: TreeFile) -> bool:
    if source.subdir and not file.path.startswith(f"{source.subdir}/"):
        return False
    if any(part.startswith(".") or ".." in part for part in file.path.split("/")):
        return False
    if source.globs:
        return any(
            fnmatchcase(file.path, glob) or fnmatchcase(file.path.rsplit("/", 1)[-1], glob) for glob in source.globs
        )
    return readable(file.path)
