"""Export and import of a whole store: one snapshot out, the same ids in, however often it is broken off."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, TypeVar
from uuid import UUID

from pydantic import TypeAdapter

from knowledge.errors import Conflict, StorageUnavailable
from knowledge.logs import get_logger
from knowledge.memory.archive import PARTS, ArchiveWriter, Row, check, damaged, slices
from knowledge.memory.settling import settle
from knowledge.memory.upkeep import KnowledgeUpkeepService
from knowledge.mismatch import settings_of
from knowledge.models import EmbeddingSpace, LeaseToken
from knowledge.ports import ArchiveStore, Embedder, Progress, VectorIndex
from knowledge.provenance import UNHEARD, Auditor

log = get_logger(__name__)

_HELD_ANEW = 120.0
"""Seconds after which the documents that are being imported are held anew; a hold lasts ten minutes."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

_SPACE = TypeAdapter(EmbeddingSpace)
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import found in the archive and what of it was new here; `points` of the index were written.

    `passages`: points of documents that were; `embedded`: texts, of either, that had no vector in the archive.
    """

    rows: Mapping[str, int]
    new: Mapping[str, int]
    points: int
    embedded: int
    passages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveService:
    """Whole stores as archives. `of` gives the upkeep of a workspace; `spool` is where what comes in is kept."""

    archive: ArchiveStore
    index: VectorIndex
    embedder: Embedder
    workspaces: Callable[[], Awaitable[list[str]]]
    of: Callable[[str], KnowledgeUpkeepService]
    spool: Path | None
    audit: Auditor = UNHEARD

    async def export_archive(self, *, progress: Progress | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an archive of all workspaces, as they are now; captures and checkpoints go on.

        What ends without its manifest is no archive: an import refuses it.
        """
        writer = ArchiveWriter()
        async with self.archive.snapshot() as snapshot:
            total = await snapshot.total() if progress else None
            done = 0
            yield writer.head()
            for part in PARTS:
                async for rows in snapshot.rows(part):
                    if packed := await asyncio.to_thread(writer.rows, part, rows):
                        yield packed
                    done += len(rows)
                    if progress:
                        progress(done, total)
        yield writer.end()
        log.info("store_exported", rows=done)

    async def import_archive(self, chunks: AsyncIterator[bytes], *, progress: Progress | None = None) -> ImportReport:
        """Write an archive into this store, ids kept, and its points into the index; nothing is embedded.

        A document is shown once all of it is there.

        Into an empty store, or one that holds the same ids: broken off and called again, it ends the same. Before
        anything is written it raises InvalidInput (field `archive`) for one that is not whole, of another version or
        with rows that are none, Conflict for one of another embedding space or with other ids for what is here.
        """
        try:
            with tempfile.TemporaryFile(dir=self.spool, prefix="hardwon-import-") as file:
                digest = sha256()
                async for chunk in chunks:
                    digest.update(chunk)
                    await asyncio.to_thread(file.write, chunk)
                found = await asyncio.to_thread(check, file)
                token = LeaseToken(UUID(bytes=digest.digest()[:16]))  # the same again, so that the same import goes on
                await self._refuse_foreign(file, token)
                new = await self._write(file, sum(found.values()), token, progress)
                await self.archive.analyse()  # else what follows is planned as if the tables were empty
                async for _, rows in _apart(slices(file, only=("patterns",))):
                    await self.archive.recount(rows)
                async for _, rows in _apart(slices(file, only=("documents",))):
                    await self.archive.show(rows, token=token)
        except OSError as error:
            where = f"in {self.spool}" if self.spool else "in the folder of temporary files"
            room = "there is no room to keep" if error.errno in _NO_ROOM else "nothing can keep"
            raise StorageUnavailable(f"{room} the archive meanwhile {where}: {error.strerror or error}") from error
        points, passages, embedded = await self._refill(found["points"], progress)
        await self.audit.note("store imported", rows=sum(found.values()), new=sum(new.values()))
        log.info("store_imported", rows=sum(found.values()), new=sum(new.values()), points=points, passages=passages)
        return ImportReport(rows=found, new=new, points=points, embedded=embedded, passages=passages)

    async def _refuse_foreign(self, file: IO[bytes], token: LeaseToken) -> None:
        """Raise Conflict where the archive contradicts what is here, InvalidInput where it has rows that are none."""
        dims: dict[str, int] = {}
        async for part, rows in _apart(slices(file)):
            if why := await self.archive.foreign(part, rows, token=token):
                raise Conflict(why)
            if part == "spaces":
                for row in rows:
                    dims[row["fingerprint"]] = await self._dims(row)
            if part in {"vectors", "passage_vectors"} and any(_odd(row, dims) for row in rows):
                raise damaged(f"holds {part} that are none of their embedding space")

    async def _dims(self, row: Row) -> int:
        """Return how many dimensions a space of the archive has.

        Raises Conflict where it is the one in use there, and this process embeds with another model: what it asked for
        would mean nothing here.
        """
        space = _SPACE.validate_python(row["space"])
        if not row["active"]:
            return space.dims
        asked = await (await self.embedder.of_space(space)).space()
        if asked.fingerprint != space.fingerprint:
            raise Conflict(
                f"the archive was embedded with {space.model} ({space.dims} dimensions, {space.fingerprint}), the"
                f" settings ask for {asked.model} ({asked.dims} dimensions, {asked.fingerprint}):"
                f" {settings_of(space, asked)}, then import it again"
            )
        if asked.dims != space.dims:
            raise damaged("names an embedding space that is none")
        return space.dims

    async def _write(self, file: IO[bytes], total: int, token: LeaseToken, progress: Progress | None) -> dict[str, int]:
        new = dict.fromkeys(PARTS, 0)
        done = 0
        loop = asyncio.get_running_loop()
        held = loop.time()
        async for part, rows in _apart(slices(file)):
            new[part] += await self.archive.write(part, rows, token=token)
            done += len(rows)
            if loop.time() - held > _HELD_ANEW:
                await self.archive.hold(token)
                held = loop.time()
            if progress:
                progress(done, total)
        return new

    async def _refill(self, expected: int, progress: Progress | None) -> tuple[int, int, int]:
        """Put the points into the index; those whose entry was here already under another id go."""
        points = passages = embedded = 0
        for workspace in await self.workspaces():
            upkeep = self.of(workspace)
            bound = await upkeep.stores.spaces.bound()
            if bound is None:
                break
            await self.index.ensure(bound.space)
            await upkeep.upkeep.doubt_unsupported()
            await settle(upkeep.stores, whole=False)
            before = points

            def told(done: int, _: int | None, before: int = before) -> None:
                if progress:
                    progress(before + done, max(expected, before + done))

            report = await upkeep.refill(recount=False, progress=told)
            written = await upkeep.beside.refill()
            points, passages = points + report.points, passages + written.points
            embedded += report.embedded + written.embedded
        return points, passages, embedded


async def _apart(items: Iterator[_Item]) -> AsyncIterator[_Item]:
    """Yield what an iterator that unpacks and parses gives, each item made in a thread."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item


def _odd(row: Row, dims: Mapping[str, int]) -> bool:
    """Return whether a vector is of another length than its space has; one that the archive does not name has none."""
    expected = dims.get(row["space"])
    return expected is not None and len(b64decode(row["vector"])) != 2 * expected
