"""All services of a workspace in one place, as whoever opened the stores has them, or as a principal does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.access.authentication import Authenticator
from knowledge.access.guard import guarded
from knowledge.access.keys import KeyService
from knowledge.access.operations import BEYOND_AGENTS
from knowledge.access.principals import OWNER, Principal, Trust
from knowledge.adapters.postgres.database import check_writable
from knowledge.adapters.postgres.row_security import row_security
from knowledge.documents.answers import Answering, Models
from knowledge.documents.askers import asker
from knowledge.documents.ports import Converter, PassageIndex
from knowledge.documents.service import Documents, KnowledgeBases
from knowledge.errors import AccessDenied, Unavailable
from knowledge.forms import as_whole
from knowledge.memory.archiving import ArchiveService
from knowledge.memory.auditing import AuditService
from knowledge.memory.capture import KnowledgeCaptureService
from knowledge.memory.checkpoint import CheckpointEmbeddingService
from knowledge.memory.contexts import ContextLog
from knowledge.memory.events import TaskEventService
from knowledge.memory.grouping import PatternGroupingService
from knowledge.memory.limits import check_text
from knowledge.memory.outcomes import OutcomeService
from knowledge.memory.pruning import KnowledgePruningService
from knowledge.memory.query import RAGQueryService
from knowledge.memory.reviewing import ReviewService
from knowledge.memory.revoking import RevocationService
from knowledge.memory.spaces import space_in_use
from knowledge.memory.store_upkeep import StoreUpkeepService
from knowledge.memory.upkeep import KnowledgeUpkeepService
from knowledge.models import Provenance, WorkspaceStats
from knowledge.ports import JobStore, Stores
from knowledge.settings import KnowledgeSettings
from knowledge.spending import spent_today
from knowledge.wiring_models import warmed

MOST_WORKSPACES = 1_000_000
"""That one call names where it says how many at most; ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Every service of one workspace on open stores. `jobs` guards jobs that run once over all processes.

    `principal` is who asks; whoever opened the stores may do everything.
    """

    settings: KnowledgeSettings
    workspace: str
    stores: Stores
    jobs: JobStore
    capture: KnowledgeCaptureService
    checkpoints: CheckpointEmbeddingService
    queries: RAGQueryService
    pruning: KnowledgePruningService
    contexts: ContextLog
    outcomes: OutcomeService
    events: TaskEventService
    grouping: PatternGroupingService
    upkeep: KnowledgeUpkeepService
    store_upkeep: StoreUpkeepService
    archives: ArchiveService
    reviews: ReviewService
    revocations: RevocationService
    audits: AuditService
    keys: KeyService
    authenticator: Authenticator
    documents: Documents
    passages: PassageIndex
    converter: Converter
    answering: Answering
    models: Models
    engine: AsyncEngine
    of_workspace: Callable[[Knowledge, str], Knowledge]
    """Puts the services of another workspace on the same open stores, for whoever opened them."""
    principal: Principal = OWNER

    def in_workspace(self, workspace: str) -> Knowledge:
        """Return the services of another workspace on the same open stores. Raises AccessDenied for one of others."""
        if workspace == self.workspace:
            return self
        self.principal.enter(workspace)
        check_text("workspace", workspace)
        opened = self.of_workspace(self, workspace)
        return opened if self.principal is OWNER else opened.acting_for(self.principal)

    def acting_for(self, principal: Principal) -> Knowledge:
        """Return the services as a principal has them: each looks at what it may do before it does anything.

        Raises AccessDenied where this workspace is not the principal's.
        """
        if self.principal is not OWNER:
            raise AccessDenied("a request has one principal")
        principal.enter(self.workspace)
        if principal is OWNER:
            return self
        keys = replace(self.keys, within=principal.workspace)
        services = {name: guarded(_told_by(principal, getattr(self, name)), name, principal) for name in SERVICES}
        audits = replace(self.audits, within=principal.workspace)
        services["audits"] = guarded(_told_by(principal, audits), "audits", principal)
        services["documents"] = guarded(self.documents, "documents", principal)
        if not principal.may("answering.ask"):
            services["answering"] = guarded(self.answering, "answering", principal)
        return replace(
            self, **services, keys=guarded(_told_by(principal, keys), "keys", principal), principal=principal
        )

    @property
    def kb(self) -> KnowledgeBases:
        """The knowledge bases, for whoever has the stores open."""
        return self.documents.asked_by(asker(self.principal))

    async def warmed(self) -> None:
        """Load what embeds, so that no query waits for it; endpoints are not called. Costs nothing the second time."""
        await warmed(self.settings, self.stores.embedder)

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the workspaces that hold anything, ascending; from behind `after` on, at most so many."""
        self.principal.require("workspaces")
        if after is not None:
            check_text("after", after)
        if limit is not None:
            limit = as_whole("limit", limit, least=1, most=MOST_WORKSPACES)
        return await self.jobs.workspaces(after=after, limit=limit)

    async def holds_anything(self) -> bool:
        """Return whether the workspace holds anything: one whose name was mistyped reads as if all were well."""
        self.principal.require("holds_anything")
        return await self.jobs.holds_anything(self.workspace)

    async def stats(self) -> WorkspaceStats:
        """Return the workspace's counts; `points` is None where the index does not answer, or lost its collection."""
        self.principal.require("stats")
        stats = replace(
            await self.stores.checkpoints.stats(),
            row_security=await row_security(self.engine),
            tokens_today=await spent_today(self.stores),
            tokens_per_day=self.stores.spending.budget,
        )
        bound = await self.stores.spaces.bound()
        if bound is None:
            return replace(stats, points=0)
        try:
            return replace(stats, points=await self.stores.index.count(bound.space, self.workspace))
        except Unavailable:
            return stats

    async def ready(self) -> None:
        """Ask both stores for the least there is, and change nothing.

        Raises StorageUnavailable or IndexUnavailable where one does not answer, Postgres takes no changes, or the index
        lost its collection; SpaceMismatch where the store is in another model's space, as far as that is soon known.
        """
        self.principal.require("stats")
        await check_writable(self.engine)
        bound = await self.stores.spaces.bound()
        if bound is None:
            return
        await self.stores.index.ids(bound.space, self.workspace, after=None, limit=1)
        with suppress(TimeoutError, Unavailable):  # an endpoint that is away takes no server out of use
            async with asyncio.timeout(_SOON_SECONDS):
                await space_in_use(self.stores)


_SOON_SECONDS = 0.2
"""How long an endpoint is waited for that was never asked what it makes; ours."""

SERVICES = (
    "capture",
    "checkpoints",
    "queries",
    "pruning",
    "contexts",
    "outcomes",
    "events",
    "grouping",
    "upkeep",
    "store_upkeep",
    "archives",
    "reviews",
    "revocations",
    "audits",
)
"""The services of `Knowledge` that a principal has behind a guard; beside them `keys`."""


def _told_by(principal: Principal, service: Any) -> Any:
    """Return a service that knows whose its captures and decisions are, those of a service within it included."""
    told: dict[str, object] = {}
    names = {field.name for field in fields(service)}
    if "by" in names:
        agents = principal.trust is Trust.KEY and not principal.scopes & BEYOND_AGENTS
        told["by"] = Provenance(key_id=principal.key_id, first_key=principal.first_key, low_trust=agents)
    if "audit" in names:
        who = f"key {principal.key_id}" if principal.key_id else str(principal.trust)
        told["audit"] = replace(service.audit, who=who)
    for within in names & {"capture", "outcomes"}:
        told[within] = _told_by(principal, getattr(service, within))
    return replace(service, **told) if told else service
