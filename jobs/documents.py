"""What runs by the clock for documents, over all workspaces.

Whoever asks was let in to run the job, which is all of this: no part of it is asked for by itself.
"""

from __future__ import annotations

from jobs.workspaces import in_each_workspace
from knowledge.documents.access import Permission
from knowledge.documents.service import LOCAL
from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from knowledge.wiring import Knowledge

log = get_logger(__name__)


async def index(knowledge: Knowledge) -> int:
    """Index what waits; return how many documents."""

    async def run(one: Knowledge) -> int:
        return (await one.kb.documents.indexing.run()).indexed

    return await in_each_workspace(knowledge, run)


async def sync(knowledge: Knowledge) -> int:
    """Fetch all repositories; return how many documents are new or changed. One that fails stops no other."""
    return await in_each_workspace(knowledge, _sync)


async def _sync(knowledge: Knowledge) -> int:
    documents, changed = knowledge.kb.documents, 0
    for source in await documents.syncing.store.of(None):
        try:
            kb, scope_id = documents.access.base_and_scope(source.partition)
            scope = await documents.access.scope(LOCAL, kb, scope_id, permission=Permission.WRITE)
            changed += (await documents.syncing.sync_one(source, scope)).added
        except HardwonError as error:
            log.warning("source_not_synced", source_id=str(source.source_id), reason=str(error))
    if changed:
        await documents.indexing.run()
    return changed


async def sweep_cases(knowledge: Knowledge) -> int:
    """Let go of what is left of closed cases; return how many documents."""

    async def sweep(one: Knowledge) -> int:
        documents = one.kb.documents
        return await documents.syncing.forget_closed() + await documents.upkeep.sweep_cases()

    return await in_each_workspace(knowledge, sweep)


async def reconcile(knowledge: Knowledge) -> int:
    """Have the index hold what Postgres says; drop kept answers past their time, and embeddings of no text.

    Returns how much was put right. A change of model that died after its switch is finished first: its documents would
    be taken for those of another. Answers go whether the index works or not.
    """
    await in_each_workspace(knowledge, lambda one: one.kb.documents.upkeep.purge_answers())
    await knowledge.store_upkeep.finish()

    async def put_right(one: Knowledge) -> int:
        upkeep = one.kb.documents.upkeep
        found = await upkeep.reconcile()
        return found.requeued + found.written + found.removed + await upkeep.purge()

    return await in_each_workspace(knowledge, put_right)
