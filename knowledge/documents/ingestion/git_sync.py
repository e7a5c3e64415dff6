"""Sync git repositories into documents, by a job and on demand, never by a question; only changed files are read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from uuid import uuid4

from hardwon.errors import InvalidInput, NotFound, SourceUnavailable
from hardwon.event_log import get_logger
from hardwon.models.documents import DocumentStatus, NewDocument, NewSource, SourceId, SyncReport
from knowledge.documents.access import Scope
from knowledge.documents.ingestion.service import DocumentLibrary
from knowledge.documents.ingestion.url_policy import check_url, link_of
from knowledge.documents.parsing.decode import is_readable
from knowledge.documents.ports import DocumentStore, Repositories, Repository, Source, SourceStore, TreeFile
from knowledge.text.redaction import redact

log = get_logger(__name__)
MAX_FILES: Final = 20_000
_MAX_URL_CHARS: Final = 2000
_MAX_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSync:
    """Syncs changed files of repositories. `allowed`: address prefixes that may be fetched from."""

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
        """Sync the sources of a scope, one after the other; one that cannot be fetched does not stop the others."""
        return [await self.sync_one(source, scope) for source in await self.store.of(scope.writable())]

    async def sync_one(self, source: Source, scope: Scope) -> SyncReport:
        """Sync one source: read changed files, delete removed ones."""
        try:
            check_url(source.url, self.allowed)
            async with self.repositories.fetch(source) as (commit, repository):
                report = await self._sync_files(source, scope, commit, repository)
        except NotFound as error:  # the source was deleted meanwhile, with its documents
            await self.repositories.forget(source.source_id)
            log.warning("source_not_synced", source_id=str(source.source_id), reason=str(error))
            return SyncReport(source_id=source.source_id, url=source.url, error=str(error))
        except (SourceUnavailable, InvalidInput) as error:
            reason = redact(str(error)).text if self.library.redaction else str(error)
            await self.store.record_sync(source.source_id, commit=None, error=reason)
            log.warning("source_not_synced", source_id=str(source.source_id), reason=reason)
            return SyncReport(source_id=source.source_id, url=source.url, error=reason)
        await self.store.record_sync(source.source_id, commit=report.commit, error=None)
        log.info("source_synced", source_id=str(source.source_id), commit=report.commit, added=report.added)
        return report

    async def _sync_files(self, source: Source, scope: Scope, commit: str, repository: Repository) -> SyncReport:
        stored = await self.documents.marks(source.partition, source.source_id)
        name = await self._name(source, stored)
        selected, passed_over = self._files_by_uri(name, source, await repository.files())
        if not selected and not stored:
            raise _no_files_error(source)
        if len(selected) > MAX_FILES:
            raise InvalidInput("url", f"holds {len(selected)} files, more than {MAX_FILES}: name a folder or patterns")
        added, unreadable, refused = 0, passed_over, 0
        for uri, file in selected.items():
            if uri in stored and stored[uri][1] == file.mark:
                continue
            new = NewDocument(
                uri=f"{name}/{file.path}",
                content=await repository.content(file.mark),
                link=link_of(source.url, commit, file.path),
                mark=file.mark,
                source_id=source.source_id,
            )
            try:
                result = await self.library.add(new, scope)
            except InvalidInput as error:  # an invalid document name
                log.warning("file_passed_over", reason=str(error))
                refused += 1
                continue
            added += result.changed
            unreadable += result.changed and result.document.status is DocumentStatus.FAILED
        removed = [document_id for uri, (document_id, _) in stored.items() if uri not in selected]
        deleted = await self.library.delete(scope, removed) if removed else 0
        return SyncReport(
            source_id=source.source_id,
            url=source.url,
            commit=commit,
            added=added,
            unreadable=unreadable + refused,
            deleted=deleted,
            unchanged=len(selected) - added - refused,
        )

    async def _name(self, source: Source, stored: Collection[str]) -> str:
        """Return the uri prefix of a source, unique within its partition.

        It is the last part of its address, or more parts if documents of another source have that prefix already. Once
        used, it stays the same.
        """
        names = _name_candidates(source.url)
        taken = [
            uri
            for other in await self.store.of(source.partition)
            if other.url != source.url and _may_collide(names, _name_candidates(other.url))
            for uri in await self.documents.marks(source.partition, other.source_id)
        ]
        free = [name for name in names if not _has_prefix(name, taken)]
        in_use = [name for name in free if _has_prefix(name, stored)]
        return (in_use or free or names[-1:])[0]

    def _files_by_uri(self, name: str, source: Source, files: Iterable[TreeFile]) -> tuple[dict[str, TreeFile], int]:
        """Return the files by uri, and the number skipped because their names differ only in a redacted secret."""
        selected: dict[str, TreeFile] = {}
        passed_over = 0
        for file in files:
            if not _is_selected(source, file):
                continue
            if selected.setdefault(self.library.redact_uri(f"{name}/{file.path}"), file) is not file:
                passed_over += 1
                log.warning("file_passed_over", reason="another file has the same name without its secrets")
        return selected, passed_over

    async def forget(self, scope: Scope, source_id: SourceId) -> int:
        """Delete a source with its documents; return their number. Raises NotFound."""
        partition = scope.writable()
        deleted = await self.store.delete(partition, source_id)
        await self.repositories.forget(source_id)
        return deleted

    async def forget_closed(self) -> int:
        """Delete the sources of closed cases with their documents; return the number of documents.

        The local copies are deleted first, so that a kill leaves none behind.
        """
        deleted = 0
        for source in await self.store.sources_of_closed_cases():
            await self.repositories.forget(source.source_id)
            deleted += await self.store.delete(source.partition, source.source_id)
        return deleted


def _no_files_error(source: Source) -> InvalidInput:
    """Return the error for a source without matching files: most likely its subdir or a glob is wrong."""
    below = f"below {source.subdir}/" if source.subdir else "in it"
    kind = f"matches {' or '.join(source.globs)}" if source.globs else "is of a kind that hardwon reads"
    return InvalidInput(
        "subdir" if source.subdir else "globs" if source.globs else "url",
        f"no file {below} {kind}: add the source with the right name, and delete this one with"
        f" `hardwon kb delete --source {source.source_id}`",
    )


def _check_names(new: NewSource) -> None:
    if ".." in new.subdir.split("/") or new.subdir.startswith("/"):
        raise InvalidInput("subdir", "give a folder of the repository, without a leading '/' or '..'")
    for field, text, max_chars in (
        ("url", new.url, _MAX_URL_CHARS),
        ("branch", new.branch or "", _MAX_NAME_CHARS),
        ("subdir", new.subdir, _MAX_URL_CHARS),
        *(("globs", glob, _MAX_NAME_CHARS) for glob in new.globs),
    ):
        if len(text) > max_chars or not text.isprintable():
            raise InvalidInput(field, f"give at most {max_chars} printable characters")


def _check_secrets(new: NewSource) -> None:
    """Raise InvalidInput for what looks like a secret: redacted, the source would be another one."""
    fields = {"url": (new.url,), "branch": (new.branch or "",), "subdir": (new.subdir,), "globs": new.globs}
    for field, texts in fields.items():
        for text in texts:
            if secrets := redact(text).found:
                raise InvalidInput(field, f"contains what looks like a secret ({secrets[0]}): remove it")


def _name_candidates(url: str) -> list[str]:
    """Return the last part of an address, the last two parts, and so on, up to all of it."""
    *parts, last = url.split("://", 1)[-1].strip("/").split("/")
    names = [last.removesuffix(".git") or "repository"]
    for part in filter(None, reversed(parts)):
        names.append(f"{part}/{names[-1]}")
    return names


def _may_collide(names: Iterable[str], others: Sequence[str]) -> bool:
    return any(_has_prefix(one, [f"{two}/"]) or _has_prefix(two, [f"{one}/"]) for one in names for two in others)


def _has_prefix(name: str, uris: Iterable[str]) -> bool:
    return any(uri.startswith(f"{name}/") for uri in uris)


def _is_selected(source: Source, file: TreeFile) -> bool:
    if source.subdir and not file.path.startswith(f"{source.subdir}/"):
        return False
    if any(part.startswith(".") or ".." in part for part in file.path.split("/")):
        return False
    if source.globs:
        return any(
            fnmatchcase(file.path, glob) or fnmatchcase(file.path.rsplit("/", 1)[-1], glob) for glob in source.globs
        )
    return is_readable(file.path)
