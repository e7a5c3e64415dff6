"""Scheduled jobs for documents, over all workspaces.

The caller was authorised to run the job; the services in it are used without further checks.
"""

from __future__ import annotations

from jobs.workspaces import for_each_workspace
from knowledge.documents.access import Permission
from knowledge.documents.service import LOCAL
from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from knowledge.wiring import Knowledge

log = get_logger(__name__)


async def index(knowledge: Knowledge) -> int:
    """Index the documents that wait for it; return their number."""

    async def run(one: Knowledge) -> int:
        return (await one.kb.documents.indexing.run()).indexed

    return await for_each_workspace(knowledge, run)


async def sync(knowledge: Knowledge) -> int:
    """Fetch all repositories; return the number of new or changed documents. A failure of one does not stop others."""
    return await for_each_workspace(knowledge, _sync_workspace)


async def _sync_workspace(knowledge: Knowledge) -> int:
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
    """Delete the documents that are left of closed cases; return their number."""

    async def sweep(one: Knowledge) -> int:
        documents = one.kb.documents
        return await documents.syncing.forget_closed() + await documents.upkeep.sweep_cases()

    return await for_each_workspace(knowledge, sweep)


async def reconcile(knowledge: Knowledge) -> int:
    """Reconcile the index with Postgres; delete expired cached answers, and embeddings without a text.

    Returns the number of differences repaired. A change of model that died after its switch is finished first: its
    documents would be taken for those of the other model. Answers are deleted even if the index is down.
    """
    await for_each_workspace(knowledge, lambda one: one.kb.documents.upkeep.purge_answers())
    await knowledge.store_upkeep.finish()

    async def repair(one: Knowledge) -> int:
        upkeep = one.kb.documents.upkeep
        report = await upkeep.reconcile()
        return report.requeued + report.written + report.removed + await upkeep.purge()

    return await for_each_workspace(knowledge, repair)
