"""Open the seals of a store: the keys, what was stored before them, the head that was kept."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.event_log import get_logger
from knowledge.access.seals import unknown_key
from knowledge.adapters.files.seal_files import KEYS_FILE, SETTING, FileHeads, find_keys, make_keys
from knowledge.adapters.postgres.admin.audit import PostgresAudit
from knowledge.adapters.postgres.admin.integrity import PostgresSeals, read_last_head
from knowledge.adapters.postgres.admin.runs import PostgresJobs
from knowledge.adapters.postgres.seals.ledger import use_seals
from knowledge.memory.maintenance.integrity import IntegrityService
from knowledge.ports import Clock
from knowledge.settings import KnowledgeSettings

log = get_logger(__name__)


async def open_seals(settings: KnowledgeSettings, engine: AsyncEngine, clock: Clock) -> None:
    """Seal and check what the services on this engine store and show; seal what was stored before.

    Raises StoreIncompatible where the key that vouches for the store is not here.
    """
    last = await read_last_head(engine)
    keys = find_keys(settings.home, settings.seal_keys)
    known = last is None or (keys is not None and keys.knows(bytes.fromhex(last.seal)))
    if last is not None and not known and settings.seal_anew is None:
        place = SETTING if settings.seal_keys is not None else str(settings.home / KEYS_FILE)
        raise unknown_key(bytes.fromhex(last.seal), place)
    keys = keys or make_keys(settings.home)
    use_seals(engine, keys, renew=None if settings.seal_keys is not None else lambda: make_keys(settings.home))
    store = PostgresSeals(engine)
    anew = settings.seal_anew if not known else None
    kept = await FileHeads(settings.home, None).last_head()
    if anew is not None or (last is None and (kept is None or not store.verifies(kept))):
        adopted = await store.adopt(anew=anew is not None)
        audits = PostgresAudit(engine)
        for workspace in await audits.workspaces():  # what is there already is bound by a row with the key
            await audits.append(workspace, at=clock.now(), who="owner", what="seals began", details="{}")
        await store.take_head(clock.now(), reason=anew)
        log.info("rows_sealed", rows=adopted, anew=anew)
    await make_integrity(settings, engine, clock, "").check_start()


def make_integrity(settings: KnowledgeSettings, engine: AsyncEngine, clock: Clock, workspace: str) -> IntegrityService:
    """Return the service that vouches for a workspace, and for the store."""
    return IntegrityService(
        seals=PostgresSeals(engine),
        keeper=FileHeads(settings.home, settings.keep_heads),
        clock=clock,
        workspace=workspace,
        workspaces=PostgresJobs(engine).workspaces,
    )
