"""What runs by the clock for documents, over all workspaces."""

from __future__ import annotations

from knowledge.documents.access import Permission
from knowledge.documents.service import LOCAL, Documents
from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from knowledge.wiring import Knowledge

log = get_logger(__name__)


async def index(knowledge: Knowledge) -> int:
    """Index what waits; return how many documents."""
    done = 0
    for workspace in await knowledge.workspaces():
        done += (await knowledge.in_workspace(workspace).documents.indexing.run()).indexed
    return done


async def sync(knowledge: Knowledge) -> int:
    """Fetch all repositories; return how many documents are new or changed. One that fails stops no other."""
    changed = 0
    for workspace in await knowledge.workspaces():
        changed += await _sync(knowledge.in_workspace(workspace).documents)
    return changed


async def _sync(documents: Documents) -> int:
    changed = 0
    for source in await documents.syncing.store.of(None):
        try:
            kb, scope_id = documents.access.named(source.partition)
            scope = await documents.access.scope(LOCAL, kb, scope_id, permission=Permission.WRITE)
            changed += (await documents.syncing.sync_one(source, scope)).added
        except HardwonError as error:
            log.warning("source_not_synced", source_id=str(source.source_id), reason=str(error))
    if changed:
        await documents.indexing.run()
    return changed


async def sweep_cases(knowledge: Knowledge) -> int:
    """Let go of what is left of closed cases; return how many documents."""
    swept = 0
    for workspace in await knowledge.workspaces():
        swept += await knowledge.in_workspace(workspace).documents.upkeep.sweep_cases()
    return swept


async def reconcile(knowledge: Knowledge) -> int:
    """Have the index hold what Postgres says, and drop embeddings of no text; return how much was put right."""
    changed = 0
    for workspace in await knowledge.workspaces():
        upkeep = knowledge.in_workspace(workspace).documents.upkeep
        found = await upkeep.reconcile()
        changed += found.requeued + found.written + found.removed + await upkeep.purge()
    return changed
