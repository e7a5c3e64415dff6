"""Export and import of a whole store: one snapshot out; the same ids in, all of them or none."""

from __future__ import annotations

import asyncio
import errno
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from hardwon.errors import Conflict, StorageUnavailable, StoreAltered
from hardwon.event_log import get_logger
from hardwon.models.maintenance import ImportReport
from hardwon.validation import check_text
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.index.reconcile import settle
from knowledge.memory.maintenance.archive_format import ArchiveWriter, check, damaged, read_tables
from knowledge.memory.maintenance.verify import KnowledgeUpkeepService
from knowledge.models import EmbeddingSpace, Entry, NewEntry
from knowledge.ports import ArchiveStore, Embedder, Progress, VectorIndex
from knowledge.retrieval.space_mismatch import suggest_settings

log = get_logger(__name__)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_TOLD = tuple(field.name for field in fields(NewEntry))
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveService:
    """Whole stores as archives. `of` gives the upkeep of a workspace; `spool` is where archives are kept meanwhile.

    `check_store` raises StoreAltered where rows are not as hardwon stored them.
    """

    archive: ArchiveStore
    index: VectorIndex
    embedder: Embedder
    workspaces: Callable[[], Awaitable[list[str]]]
    of: Callable[[str], KnowledgeUpkeepService]
    check_store: Callable[[], Awaitable[int]]
    spool: Path | None
    audit: Auditor = NO_AUDIT

    async def export_archive(self, *, progress: Progress | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an archive of all workspaces, as they are now; captures and checkpoints go on.

        What ends without its manifest is no archive: an import refuses it. Raises StoreAltered where rows are not as
        hardwon stored them: an import would seal them as if they were.
        """
        try:
            await self.check_store()
        except StoreAltered as altered:
            raise StoreAltered(
                f"whoever imports an archive vouches for all of it, so none is written of a store that was changed by"
                f" other means than hardwon's: {altered}; look at it, then delete it or take it as it is now (hardwon"
                " audit accept --reason ...)"
            ) from None
        writer, done = ArchiveWriter(), 0
        async with self.archive.snapshot() as snapshot:
            total = await snapshot.total() if progress else None
            for table, columns in snapshot.columns.items():
                with self._spooled() as file:  # a member of a tar begins with its size
                    await snapshot.copy(table, file)
                    async for packed in _apart(writer.add(table, columns, file)):
                        if packed:
                            yield packed
                done = writer.rows
                if progress:
                    progress(done, total)
            yield writer.end(await snapshot.origin())
        log.info("store_exported", rows=done)

    async def export_entries(self, workspace: str) -> AsyncGenerator[bytes, None]:
        """Yield the entries of a workspace as JSON lines that capture takes, but for those held back for review."""
        check_text("workspace", workspace)
        async for entries in self.archive.entries(workspace):
            yield b"".join(map(_as_line, entries))

    async def import_archive(self, chunks: AsyncIterator[bytes], *, progress: Progress | None = None) -> ImportReport:
        """Write an archive into this store, ids kept, and its points into the index; nothing is embedded.

        All is stored in one transaction, or nothing is. Into an empty store, or one that holds what the archive
        holds: broken off and called again, it ends the same. Raises InvalidInput (field `archive`) for an archive that
        is not whole, of another version or with rows that are none, Conflict for one of another embedding space, and
        for a store that holds anything else.
        """
        with self._spooled() as file:
            async for chunk in chunks:
                await asyncio.to_thread(file.write, chunk)
            manifest = await asyncio.to_thread(check, file)
            rows = manifest.rows
            columns = {name: table.columns for name, table in manifest.tables.items()}
            async with self.archive.restore(manifest.origin.schema, columns) as restore:
                done, total = 0, sum(rows.values())
                async for table, pieces in _apart(read_tables(file)):
                    await restore.load(table, _apart(pieces))
                    done += rows[table]
                    if progress:
                        progress(done, total)
                for space, active in (await restore.spaces()).items():
                    if active:
                        await self._check_space(space)
                new = await restore.merge()
        points, passages, embedded = await self._refill(rows.get("points", 0), progress)
        await self.audit.record("store imported", rows=total, new=sum(new.values()))
        log.info("store_imported", rows=total, new=sum(new.values()), points=points, passages=passages)
        return ImportReport(rows=rows, new=new, points=points, embedded=embedded, passages=passages)

    @contextmanager
    def _spooled(self) -> Iterator[BinaryIO]:
        """Open a temporary file. Raises StorageUnavailable where there is no room for it."""
        try:
            with tempfile.TemporaryFile(dir=self.spool, prefix="hardwon-archive-") as file:
                yield cast(BinaryIO, file)
        except OSError as error:
            where = f"in {self.spool}" if self.spool else "in the folder of temporary files"
            room = "there is no room to keep" if error.errno in _NO_ROOM else "nothing can keep"
            raise StorageUnavailable(f"{room} the archive meanwhile {where}: {error.strerror or error}") from error

    async def _check_space(self, space: EmbeddingSpace) -> None:
        """Raise Conflict where this process embeds with another model: what it asked for would mean nothing here."""
        asked = await (await self.embedder.embedder_for(space)).space()
        if asked.fingerprint != space.fingerprint:
            raise Conflict(
                f"the archive was embedded with {space.model} ({space.dims} dimensions, {space.fingerprint}), the"
                f" settings ask for {asked.model} ({asked.dims} dimensions, {asked.fingerprint}):"
                f" {suggest_settings(space, asked)}, then import it again"
            )
        if asked.dims != space.dims:
            raise damaged("names an embedding space that is none")

    async def _refill(self, expected: int, progress: Progress | None) -> tuple[int, int, int]:
        """Put the points of all workspaces into the index."""
        points = passages = embedded = 0
        for workspace in await self.workspaces():
            upkeep = self.of(workspace)
            bound = await upkeep.stores.spaces.bound()
            if bound is None:
                break
            await self.index.ensure(bound.space)
            await upkeep.upkeep.mark_unsupported_dirty()
            await settle(upkeep.stores, whole=False)
            before = points

            def report_progress(done: int, _: int | None, before: int = before) -> None:
                if progress:
                    progress(before + done, max(expected, before + done))

            report = await upkeep.refill(recount=False, progress=report_progress)
            written = await upkeep.documents.refill()
            points, passages = points + report.points, passages + written.points
            embedded += report.embedded + written.embedded
        return points, passages, embedded


async def _apart(items: Iterator[_Item]) -> AsyncIterator[_Item]:
    """Yield what an iterator that unpacks and parses gives, each item made in a thread."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item


def _as_line(entry: Entry) -> bytes:
    told = {name: getattr(entry, name) for name in _TOLD}
    if entry.applies_when is not None:
        told["applies_when"] = {name: value for name, value in asdict(entry.applies_when).items() if value is not None}
    given = {name: value for name, value in told.items() if value is not None}
    return json.dumps(given, ensure_ascii=False).encode() + b"\n"
