"""Backups of a whole store: an archive of one snapshot, tried in a throwaway store before it counts."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Protocol

from hardwon.errors import Conflict, InvalidInput, StorageUnavailable, StoreAltered, StoreInUse
from hardwon.event_log import get_logger
from hardwon.models.maintenance import ImportReport
from hardwon.settings import VERSION
from knowledge.access.seals import SealKeys
from knowledge.adapters.clocks import SystemClock
from knowledge.adapters.files.backup_files import (
    Backup,
    BackupRecord,
    new_archive,
    open_archive,
    own_folder,
    read_identities,
    remove_older,
    store_archive,
    write_record,
)
from knowledge.adapters.files.seal_files import HEAD_FILE, find_keys
from knowledge.adapters.owner_lock import owner_lock
from knowledge.memory.maintenance.archive_format import check
from knowledge.models import EntryType
from knowledge.ports import Embedder, Progress
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge

log = get_logger(__name__)
QUERIES: Final = 10
"""Queries that must answer from the restored copy as from the store, ours."""
_FIRST: Final = 3
_CHUNK: Final = 256 * 1024
_SET_ASIDE: Final = ("index", HEAD_FILE, "postgres")
"""Parts that a restore puts aside, in this order: an index that is missing is filled again, a database is not."""
_STOP_SECONDS: Final = 30.0
"""Longest wait for an owner of the data directory that is about to end, ours."""


class Stores(Protocol):
    """The services of a store that a backup is made of, in process or over HTTP."""

    @property
    def archives(self) -> Any:
        """The export."""

    @property
    def lists(self) -> Any:
        """The patterns of a workspace."""

    @property
    def queries(self) -> Any:
        """The queries of a workspace."""

    def in_workspace(self, workspace: str) -> Stores:
        """Return the services of another workspace."""

    async def workspaces(self) -> Sequence[str]:
        """Return all workspaces."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A query of a workspace, and the pattern that answers it first."""

    workspace: str
    text: str
    pattern_id: str | None


async def back_up(
    stores: Stores,
    settings: KnowledgeSettings,
    folder: Path,
    *,
    keep: int,
    embedder: Embedder | None = None,
    start_stage: Callable[[str], Progress | None] = lambda _: None,
) -> Backup:
    """Write a backup of all workspaces into a folder, try it, and remove all but the latest `keep`.

    Captures and checkpoints go on. `start_stage` is told what begins. Raises StoreAltered where the copy does not
    verify, or does not answer as the store: then nothing is left of it, and older backups stay.
    """
    keys = find_keys(settings.home, settings.seal_keys)
    if keys is None:
        raise StorageUnavailable(
            f"there are no keys of the store in {settings.home}: make the backup where the data directory is, or set"
            " HARDWON_SEAL_KEYS"
        )
    identity = settings.backup_identity
    if identity is not None:
        await asyncio.to_thread(read_identities, identity)
    with own_folder(folder), tempfile.TemporaryFile(prefix="hardwon-backup-") as plain:
        made_at = SystemClock().check_set().now()
        before = await _ask(stores, await _choose_texts(stores))
        async for piece in stores.archives.export_archive(progress=start_stage("Exporting")):
            await asyncio.to_thread(plain.write, piece)
        after = await _ask(stores, [(answer.workspace, answer.text) for answer in before])
        answers = [answer for answer in before if answer in after]  # others changed while the backup was made
        rows = (await asyncio.to_thread(check, plain)).rows
        path = new_archive(folder, made_at)
        try:
            digest, size = await asyncio.to_thread(store_archive, plain, path, identity)
            with open_archive(path, is_encrypted=identity is not None, identity=identity) as archive:
                async with _open_throwaway(settings, embedder) as copy:
                    problems = await _try(copy, archive, rows, answers, start_stage("Trying the backup"))
            _refuse_failed(problems)
            record = BackupRecord(
                made_at=made_at,
                tried_at=SystemClock().now(),
                hardwon=VERSION,
                rows=rows,
                sha256=digest,
                size=size,
                is_encrypted=identity is not None,
                answers=len(answers),
            )
            record = replace(record, seal=keys.seal(record.message()).hex())
            await asyncio.to_thread(write_record, path, record)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        remove_older(folder, keep)
    log.info("backed_up", path=str(path), rows=sum(rows.values()), bytes=size, answers=len(answers))
    return Backup(path=path, record=record)


def _refuse_failed(problems: Sequence[str]) -> None:
    if problems:
        raise StoreAltered(f"the backup did not pass its trial and was removed: {'; '.join(problems)}")


async def _choose_texts(stores: Stores) -> list[tuple[str, str]]:
    """Return problems of failures, from as many workspaces as there are, with the workspace of each."""
    workspaces = list(await stores.workspaces())[:QUERIES]
    texts: list[tuple[str, str]] = []
    for place, workspace in enumerate(workspaces):
        share = -(-(QUERIES - len(texts)) // (len(workspaces) - place))
        lists = stores.in_workspace(workspace).lists
        patterns = await lists.patterns(entry_type=EntryType.FAILURE_SOLUTION, limit=share)
        texts += [(workspace, pattern.problem) for pattern in patterns]
    return texts


async def _ask(stores: Stores, texts: Sequence[tuple[str, str]]) -> list[Answer]:
    answers = []
    for workspace, text in texts:
        queries = stores.in_workspace(workspace).queries
        found = await queries.query_for_failure(text, max_results=_FIRST, min_relevance=0)
        answers.append(Answer(workspace, text, str(found[0].pattern_id) if found else None))
    return answers


async def _try(
    copy: Any, archive: IO[bytes], rows: Mapping[str, int], answers: Sequence[Answer], progress: Progress | None
) -> list[str]:
    """Restore an archive into an empty store, verify and ask it; return how it differs from the store it is of."""
    report = await copy.archives.import_archive(_read(archive), progress=progress)
    problems = [
        f"{table}: {report.new.get(table, 0):,} rows of {number:,}"
        for table, number in rows.items()
        if report.new.get(table, 0) != number and table not in _IN_EMPTY_STORES
    ]
    for workspace in await copy.workspaces():
        verified = await copy.in_workspace(workspace).upkeep.verify()
        if not verified.sound:
            problems.append(f"the copy of workspace {workspace} does not verify")
    again = await _ask(copy, [(answer.workspace, answer.text) for answer in answers])
    different = len(answers) - len(set(answers) & set(again))
    if different:
        problems.append(f"{different} of {len(answers)} queries answer otherwise")
    return problems


_IN_EMPTY_STORES: Final = frozenset({"workspaces", "embedding_spaces", "kb_partitions", "kb_scales"})
"""Tables of which a new store has rows of its own."""


@asynccontextmanager
async def _open_throwaway(settings: KnowledgeSettings, embedder: Embedder | None) -> AsyncIterator[Any]:
    """Open a store of its own with an embedded Postgres and index, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hardwon-trial-", ignore_cleanup_errors=True) as name:
        _let_through(Path(name))
        alone: dict[str, Any] = {
            **dict.fromkeys(("database_url", "qdrant_url", "api_url", "seal_keys", "seal_anew", "keep_heads")),
            **dict.fromkeys(("backup_dir", "webhook_url", "webhook_secret")),
            "home": Path(name) / "store",
            "pg_keep": False,
        }
        alone_settings = settings.model_copy(update=alone)
        async with open_knowledge(alone_settings, embedder=embedder, warm=False, throwaway=True) as copy:
            yield copy


def _let_through(folder: Path) -> None:
    """Let Postgres reach its folder in this one: it runs as another user where root is this one."""
    folder.chmod(0o711)


async def _read(archive: IO[bytes]) -> AsyncIterator[bytes]:
    archive.seek(0)
    while piece := await asyncio.to_thread(archive.read, _CHUNK):
        yield piece


async def restore(
    stores: Stores, backup: Backup, settings: KnowledgeSettings, *, progress: Progress | None = None
) -> ImportReport:
    """Import a backup into an empty store. Raises Conflict where it holds anything, InvalidInput for another backup."""
    await _refuse_filled(stores, backup.record.made_at)
    with open_archive(
        backup.path, is_encrypted=backup.record.is_encrypted, identity=settings.backup_identity
    ) as archive:
        report: ImportReport = await stores.archives.import_archive(_read(archive), progress=progress)
    return report


async def _refuse_filled(stores: Stores, made_at: datetime) -> None:
    filled = []
    newest: datetime | None = None
    for workspace in await stores.workspaces():
        entries = await stores.in_workspace(workspace).lists.entries(limit=1)
        filled.append(workspace)
        newest = max([each for each in (newest, *(entry.captured_at for entry in entries)) if each], default=None)
    if not filled:
        return
    than = "newer" if newest is not None and newest > made_at else "not newer"
    last = "" if newest is None else f", the last entry of {newest:%Y-%m-%d %H:%M} UTC, {than} than the backup"
    raise Conflict(
        f"the store holds something already{last} (of {made_at:%Y-%m-%d %H:%M} UTC): give --replace to put the"
        " present store aside first, or restore into an empty one"
    )


async def put_aside(settings: KnowledgeSettings) -> Path:
    """Move the embedded stores of a data directory into a folder of it, so that it is empty; return the folder.

    Keys stay. Raises InvalidInput for a Postgres server, StoreInUse while another process owns the directory.
    """
    if not settings.has_embedded_postgres:
        raise InvalidInput(
            "replace",
            "puts embedded stores aside; with a Postgres server make an empty database, point HARDWON_DATABASE_URL at"
            " it, and restore into that",
        )
    folder = settings.home / f"replaced-{SystemClock().now():%Y%m%dT%H%M%SZ}"
    give_up_at = asyncio.get_running_loop().time() + _STOP_SECONDS
    while True:
        try:
            with owner_lock(settings.home):
                if (settings.home / "postgres" / "data" / "postmaster.pid").exists():
                    raise StorageUnavailable(
                        f"the Postgres of {settings.home} runs (HARDWON_PG_KEEP) or was killed: start and stop hardwon"
                        " serve once without that setting, then restore"
                    )
                return await asyncio.to_thread(_move, settings.home, folder)
        except StoreInUse:  # a command's owner ends by itself a moment after the last one
            if asyncio.get_running_loop().time() > give_up_at:
                raise
            await asyncio.sleep(0.5)


def _move(home: Path, folder: Path) -> Path:
    folder.mkdir(mode=0o711)
    for name in _SET_ASIDE:
        with suppress(FileNotFoundError):
            (home / name).rename(folder / name)
    return folder


def backup_keys(settings: KnowledgeSettings) -> SealKeys | None:
    """Return the keys that may vouch for a backup, None if there are none."""
    return find_keys(settings.home, settings.seal_keys)
