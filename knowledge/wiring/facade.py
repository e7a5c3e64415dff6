"""Facade with all services of a workspace, for the owner of the stores or for a principal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import AccessDenied, Unavailable
from hardwon.validation import as_integer, check_text
from knowledge.access.authentication import Authenticator
from knowledge.access.keys import KeyService
from knowledge.access.permissions import BEYOND_AGENTS
from knowledge.access.principals import OWNER, Principal, Trust, guard_service
from knowledge.access.quota import tokens_used_today
from knowledge.adapters.postgres.engine.database import check_writable
from knowledge.adapters.postgres.engine.row_security import row_security
from knowledge.documents.answer_service import Answering, Models
from knowledge.documents.ports import Converter, PassageIndex
from knowledge.documents.requesters import asker
from knowledge.documents.service import Documents, KnowledgeBases
from knowledge.memory.capture.outcomes import OutcomeService
from knowledge.memory.capture.service import KnowledgeCaptureService
from knowledge.memory.capture.task_events import TaskEventService
from knowledge.memory.checkpoint.service import CheckpointEmbeddingService
from knowledge.memory.curation.audit_log import AuditService
from knowledge.memory.curation.corrections import CorrectionService
from knowledge.memory.curation.deeds import DeedService
from knowledge.memory.curation.merge_split import PatternGroupingService
from knowledge.memory.curation.review_queue import ReviewService
from knowledge.memory.curation.revocation import RevocationService
from knowledge.memory.curation.stored_secrets import StoredSecretsService
from knowledge.memory.index.embedding_space import space_in_use
from knowledge.memory.lists.service import ListService
from knowledge.memory.maintenance.archive import ArchiveService
from knowledge.memory.maintenance.integrity import IntegrityService
from knowledge.memory.maintenance.pruning import KnowledgePruningService
from knowledge.memory.maintenance.reindex import StoreUpkeepService
from knowledge.memory.maintenance.verify import KnowledgeUpkeepService
from knowledge.memory.map.service import MapService
from knowledge.memory.query.context_log import ContextLog
from knowledge.memory.query.service import RAGQueryService
from knowledge.memory.rules.hints import to_lift
from knowledge.models import Provenance, WorkspaceStats
from knowledge.ports import JobStore, Stores, WebhookStore
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.model_adapters import warm_up

MAX_WORKSPACES = 1_000_000
"""Largest `limit` of one call (our choice)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """All services of one workspace on open stores. `jobs` ensures that a job runs in one process only.

    `principal` is the caller; the owner, who opened the stores, may do everything.
    """

    settings: KnowledgeSettings
    workspace: str
    stores: Stores
    jobs: JobStore
    webhooks: WebhookStore
    capture: KnowledgeCaptureService
    checkpoints: CheckpointEmbeddingService
    queries: RAGQueryService
    pruning: KnowledgePruningService
    contexts: ContextLog
    lists: ListService
    maps: MapService
    outcomes: OutcomeService
    events: TaskEventService
    grouping: PatternGroupingService
    upkeep: KnowledgeUpkeepService
    store_upkeep: StoreUpkeepService
    archives: ArchiveService
    corrections: CorrectionService
    deeds: DeedService
    reviews: ReviewService
    redaction: StoredSecretsService
    revocations: RevocationService
    audits: AuditService
    integrity: IntegrityService
    keys: KeyService
    authenticator: Authenticator
    documents: Documents
    passages: PassageIndex
    converter: Converter
    answering: Answering
    models: Models
    engine: AsyncEngine
    of_workspace: Callable[[Knowledge, str], Knowledge]
    """Builds the services of another workspace on the same stores, for the owner."""
    principal: Principal = OWNER

    def in_workspace(self, workspace: str) -> Knowledge:
        """Return the services of another workspace on these stores. Raises AccessDenied if it is not the caller's."""
        if workspace == self.workspace:
            return self
        self.principal.check_workspace(workspace)
        check_text("workspace", workspace)
        opened = self.of_workspace(self, workspace)
        return opened if self.principal is OWNER else opened.for_principal(self.principal)

    def for_principal(self, principal: Principal) -> Knowledge:
        """Return the services for a principal; each of them authorises every call.

        Raises AccessDenied if this workspace is not the principal's.
        """
        if self.principal is not OWNER:
            raise AccessDenied("these services are already bound to a principal")
        principal.check_workspace(self.workspace)
        if principal is OWNER:
            return self
        keys = replace(self.keys, within=principal.workspace)
        services = {
            name: guard_service(_attribute_to(principal, getattr(self, name)), name, principal) for name in SERVICES
        }
        audits = replace(self.audits, within=principal.workspace)
        services["audits"] = guard_service(_attribute_to(principal, audits), "audits", principal)
        services["documents"] = guard_service(self.documents, "documents", principal)
        if not principal.may("answering.ask"):
            services["answering"] = guard_service(self.answering, "answering", principal)
        return replace(
            self, **services, keys=guard_service(_attribute_to(principal, keys), "keys", principal), principal=principal
        )

    @property
    def kb(self) -> KnowledgeBases:
        """The knowledge bases that the caller may access."""
        return self.documents.for_principal(asker(self.principal))

    async def warm_up(self) -> None:
        """Load the embedding model, so that no query waits for it; endpoints are not called. Idempotent."""
        await warm_up(self.settings, self.stores.embedder)

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the workspaces that have any data, ascending, starting after `after`, at most `limit`."""
        self.principal.require("workspaces")
        if after is not None:
            check_text("after", after)
        if limit is not None:
            limit = as_integer("limit", limit, least=1, most=MAX_WORKSPACES)
        return await self.jobs.workspaces(after=after, limit=limit)

    async def holds_anything(self) -> bool:
        """Return whether the workspace has any data, to detect a mistyped name, which otherwise gives no error."""
        self.principal.require("holds_anything")
        return await self.jobs.holds_anything(self.workspace)

    async def stats(self) -> WorkspaceStats:
        """Return the workspace's statistics; `points` is None if the index does not answer or lost its collection."""
        self.principal.require("stats")
        stats = replace(
            await self.stores.checkpoints.stats(),
            row_security=await row_security(self.engine),
            tokens_today=await tokens_used_today(self.stores),
            tokens_per_day=self.stores.spending.budget,
            lift=to_lift(await self.stores.records.lift()),
            altered=self.integrity.seals.problems(self.workspace),
        )
        bound = await self.stores.spaces.bound()
        if bound is None:
            return replace(stats, points=0)
        try:
            return replace(stats, points=await self.stores.index.count(bound.space, self.workspace))
        except Unavailable:
            return stats

    async def count_entries(self) -> Mapping[str, int]:
        """Return the numbers of the workspace's entries by status, without asking the index."""
        self.principal.require("stats")
        return (await self.stores.checkpoints.stats()).entries

    def report_as(self, reporter: str) -> Knowledge:
        """Return the services whose captures are an agent's word, of low trust; `reporter` names the agent."""
        return self.for_principal(self.principal.acting_for_agent(reporter))

    async def ready(self) -> None:
        """Check that both stores are usable, without changing anything.

        Raises StorageUnavailable or IndexUnavailable if one does not answer, Postgres is read-only, or the index lost
        its collection; SpaceMismatch if the store uses another model's space, as far as that is known quickly.
        """
        self.principal.require("stats")
        await check_writable(self.engine)
        bound = await self.stores.spaces.bound()
        if bound is None:
            return
        await self.stores.index.ids(bound.space, self.workspace, after=None, limit=1)
        with suppress(TimeoutError, Unavailable):  # an endpoint that is down does not make the server unready
            async with asyncio.timeout(_SPACE_TIMEOUT_SECONDS):
                await space_in_use(self.stores)


_SPACE_TIMEOUT_SECONDS = 0.2
"""Timeout for asking an embedding endpoint for its space (our choice)."""

SERVICES = (
    "capture",
    "checkpoints",
    "queries",
    "pruning",
    "contexts",
    "lists",
    "maps",
    "outcomes",
    "events",
    "grouping",
    "upkeep",
    "store_upkeep",
    "archives",
    "corrections",
    "deeds",
    "reviews",
    "redaction",
    "revocations",
    "audits",
)
"""The services of `Knowledge` that are guarded for a principal; `keys` and `documents` are, too."""


def _attribute_to(principal: Principal, service: Any) -> Any:
    """Return a copy of a service that attributes its captures and decisions to a principal, also in nested services."""
    changes: dict[str, object] = {}
    names = {field.name for field in fields(service)}
    if "by" in names:
        agents = principal.trust is Trust.KEY and not principal.scopes & BEYOND_AGENTS
        changes["by"] = Provenance(key_id=principal.key_id, first_key=principal.first_key, low_trust=agents)
    if "audit" in names:
        who = f"key {principal.key_id}" if principal.key_id else str(principal.trust)
        changes["audit"] = replace(service.audit, who=who)
    for nested in names & {"capture", "outcomes"}:
        changes[nested] = _attribute_to(principal, getattr(service, nested))
    return replace(service, **changes) if changes else service
