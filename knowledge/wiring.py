"""Open the stores and the embedder as the settings say, and put the services on them: the only place that picks."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.access.authentication import Authenticator
from knowledge.access.guard import guarded
from knowledge.access.keys import KeyService
from knowledge.access.pepper import pepper_of
from knowledge.access.principals import OWNER, Principal, Scope, Trust
from knowledge.adapters.embedder_switch import EmbedderSwitch
from knowledge.adapters.owner_lock import owner_lock
from knowledge.adapters.postgres.archive import PostgresArchive
from knowledge.adapters.postgres.audit import PostgresAudit
from knowledge.adapters.postgres.checkpoints import PostgresCheckpoints, PostgresJobs
from knowledge.adapters.postgres.contexts import PostgresContexts
from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.distillations import PostgresDistillations
from knowledge.adapters.postgres.entries import PostgresEntries
from knowledge.adapters.postgres.grouping import PostgresGrouping
from knowledge.adapters.postgres.keys import PostgresKeys
from knowledge.adapters.postgres.migrating import migrate
from knowledge.adapters.postgres.patterns import PostgresPatterns
from knowledge.adapters.postgres.points import PostgresPoints
from knowledge.adapters.postgres.provenance import PostgresProvenance
from knowledge.adapters.postgres.row_security import row_security
from knowledge.adapters.postgres.spaces import PostgresSpaces
from knowledge.adapters.postgres.upkeep import PostgresUpkeep
from knowledge.adapters.redacting import RedactingChat, RedactingEmbedder
from knowledge.documents.answers import Answering, Models
from knowledge.documents.askers import asker
from knowledge.documents.moving import DocumentMoves
from knowledge.documents.ports import PassageIndex
from knowledge.documents.service import Documents, KnowledgeBases
from knowledge.errors import AccessDenied, InvalidInput, InvalidSetting, NotFound, Unavailable
from knowledge.memory.archiving import ArchiveService
from knowledge.memory.auditing import AuditService
from knowledge.memory.capture import KnowledgeCaptureService
from knowledge.memory.checkpoint import CheckpointEmbeddingService
from knowledge.memory.contexts import ContextLog
from knowledge.memory.distillation import DistillationService
from knowledge.memory.events import TaskEventService
from knowledge.memory.grouping import PatternGroupingService
from knowledge.memory.limits import check_text
from knowledge.memory.outcomes import OutcomeService
from knowledge.memory.pruning import KnowledgePruningService
from knowledge.memory.query import RAGQueryService
from knowledge.memory.reviewing import ReviewService
from knowledge.memory.revoking import RevocationService
from knowledge.memory.store_upkeep import ModelChoice, StoreUpkeepService
from knowledge.memory.upkeep import KnowledgeUpkeepService
from knowledge.models import DEFAULT_WORKSPACE, Pattern, PatternId, Provenance, WorkspaceStats
from knowledge.ports import ChatModel, Clock, Embedder, JobStore, Stores, VectorIndex
from knowledge.provenance import Auditor
from knowledge.settings import BUNDLED_MODEL, KnowledgeSettings, check_http
from knowledge.wiring_answering import make_answering, make_models
from knowledge.wiring_documents import make_documents, make_moves, open_passages


class SystemClock(Clock):
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC)


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
    answering: Answering
    models: Models
    engine: AsyncEngine
    principal: Principal = OWNER

    def in_workspace(self, workspace: str) -> Knowledge:
        """Return the services of another workspace on the same open stores. Raises AccessDenied for one of others."""
        if workspace == self.workspace:
            return self
        self.principal.enter(workspace)
        check_text("workspace", workspace)
        stores = _stores(self.engine, workspace, self.stores.index, self.stores.embedder, self.stores.clock)
        opened = _knowledge(
            self.settings, self.engine, stores, self.authenticator, passages=self.passages, models=self.models
        )
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
        return await self.jobs.workspaces(after=after, limit=limit)

    async def delete_pattern(self, pattern_id: PatternId) -> None:
        """Delete a pattern with all the entries that are evidence for it. Raises NotFound."""
        self.principal.require("delete_pattern")
        pattern: Pattern | None = await self.queries.get(pattern_id)
        while pattern is not None:
            for entry_id in pattern.entry_ids:
                with contextlib.suppress(NotFound):
                    await self.capture.delete(entry_id)
            pattern = await self._rest_of(pattern)

    async def _rest_of(self, pattern: Pattern) -> Pattern | None:
        """Return a pattern again where it still stands: it names only some of its entries at a time."""
        try:
            return await self.queries.get(pattern.pattern_id)
        except NotFound:
            return None

    async def stats(self) -> WorkspaceStats:
        """Return the workspace's counts; `points` is None where the index does not answer."""
        self.principal.require("stats")
        stats = replace(await self.stores.checkpoints.stats(), row_security=await row_security(self.engine))
        bound = await self.stores.spaces.bound()
        if bound is None:
            return replace(stats, points=0)
        try:
            await self.stores.index.ensure(bound.space)
            return replace(stats, points=await self.stores.index.count(bound.space, self.workspace))
        except Unavailable:
            return stats


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
    """Return a service that knows whose its captures and decisions are."""
    told: dict[str, object] = {}
    names = {field.name for field in fields(service)}
    if "by" in names:
        agents = principal.trust is Trust.KEY and principal.scopes == {Scope.CAPTURE}
        told["by"] = Provenance(key_id=principal.key_id, low_trust=agents)
    if "audit" in names:
        who = f"key {principal.key_id}" if principal.key_id else str(principal.trust)
        told["audit"] = replace(service.audit, who=who)
    return replace(service, **told) if told else service


def _stores(engine: AsyncEngine, workspace: str, index: VectorIndex, embedder: Embedder, clock: Clock) -> Stores:
    return Stores(
        workspace=workspace,
        entries=PostgresEntries(engine, workspace),
        patterns=PostgresPatterns(engine, workspace),
        distillations=PostgresDistillations(engine, workspace),
        points=PostgresPoints(engine, workspace),
        spaces=PostgresSpaces(engine, workspace),
        checkpoints=PostgresCheckpoints(engine, workspace),
        contexts=PostgresContexts(engine, workspace),
        index=index,
        embedder=embedder,
        clock=clock,
    )


def _knowledge(
    settings: KnowledgeSettings,
    engine: AsyncEngine,
    stores: Stores,
    authenticator: Authenticator,
    *,
    passages: PassageIndex,
    models: Models,
) -> Knowledge:
    documents = make_documents(settings, engine, stores, passages, chat=_chat_of(settings))
    jobs = PostgresJobs(engine)
    audit = Auditor(store=PostgresAudit(engine), clock=stores.clock, workspace=stores.workspace)
    of_store = replace(audit, workspace="")
    provenance = PostgresProvenance(engine, stores.workspace)
    capture = KnowledgeCaptureService(stores=stores, redaction=settings.redaction, review=settings.review, audit=audit)
    outcomes = OutcomeService(stores=stores)
    switch = _switch(stores.embedder)

    def upkeep_of(workspace: str) -> KnowledgeUpkeepService:
        of_workspace = _stores(engine, workspace, stores.index, stores.embedder, stores.clock)
        return KnowledgeUpkeepService(
            stores=of_workspace, upkeep=PostgresUpkeep(engine, workspace), audit=replace(audit, workspace=workspace)
        )

    def moves_of(workspace: str) -> DocumentMoves:
        of_workspace = _stores(engine, workspace, stores.index, stores.embedder, stores.clock)
        return make_moves(engine, of_workspace, make_documents(settings, engine, of_workspace, passages, chat=None))

    return Knowledge(
        settings=settings,
        workspace=stores.workspace,
        stores=stores,
        jobs=jobs,
        capture=capture,
        checkpoints=CheckpointEmbeddingService(
            stores=stores,
            batch=settings.checkpoint_batch,
            lease=settings.lease,
            deadline=settings.checkpoint_deadline,
            retention_years=settings.retention_years,
            distillation=DistillationService(
                stores=stores, open_chat=_chat_of(settings), deadline=settings.checkpoint_deadline
            ),
        ),
        queries=RAGQueryService(
            stores=stores,
            task_relevance=settings.task_relevance,
            failure_relevance=settings.failure_relevance,
            redaction=settings.redaction,
        ),
        pruning=KnowledgePruningService(stores=stores, audit=audit),
        contexts=ContextLog(stores=stores),
        outcomes=outcomes,
        events=TaskEventService(stores=stores, capture=capture, outcomes=outcomes),
        grouping=PatternGroupingService(
            stores=stores, grouping=PostgresGrouping(engine, stores.workspace), audit=audit
        ),
        upkeep=upkeep_of(stores.workspace),
        store_upkeep=StoreUpkeepService(
            workspaces=jobs.workspaces,
            of=upkeep_of,
            beside=moves_of,
            use=switch.use,
            make=lambda choice: switch.keep(make_embedder(_chosen(settings, choice))),
            audit=of_store,
        ),
        archives=ArchiveService(
            archive=PostgresArchive(engine),
            index=stores.index,
            embedder=stores.embedder,
            workspaces=jobs.workspaces,
            of=upkeep_of,
            beside=moves_of,
            spool=settings.home if settings.home.is_dir() else None,  # /tmp may be memory
            audit=of_store,
        ),
        reviews=ReviewService(stores=stores, provenance=provenance, audit=audit),
        revocations=RevocationService(stores=stores, provenance=provenance, audit=audit),
        audits=AuditService(store=PostgresAudit(engine), workspace=stores.workspace),
        keys=KeyService(
            store=authenticator.store,
            pepper=authenticator.pepper,
            clock=stores.clock,
            memory=authenticator,
            audit=of_store,
        ),
        authenticator=authenticator,
        documents=documents,
        passages=passages,
        answering=make_answering(settings, engine, stores, documents, models),
        models=models,
        engine=engine,
    )


def _switch(embedder: Embedder) -> EmbedderSwitch:
    return embedder if isinstance(embedder, EmbedderSwitch) else EmbedderSwitch(embedder)


def _chosen(settings: KnowledgeSettings, choice: ModelChoice) -> KnowledgeSettings:
    """Return the settings with another model. A key of the settings never goes to an address they do not name."""
    check_text("model", choice.model)
    try:
        address = check_http(choice.base_url)
    except ValueError as error:
        raise InvalidInput("base_url", str(error)) from error
    key = settings.embedding_api_key
    if address is not None:
        key = SecretStr(choice.api_key) if choice.api_key else None
    elif choice.model != BUNDLED_MODEL:  # the bundled one has no address
        address = settings.embedding_base_url
    same = choice.model == settings.embedding_model and choice.base_url is None
    return settings.model_copy(
        update={
            "embedding_model": choice.model,
            "embedding_dims": settings.embedding_dims if same and choice.dims is None else choice.dims,
            "embedding_base_url": address,
            "embedding_api_key": key,
        }
    )


def make_embedder(settings: KnowledgeSettings) -> Embedder:
    """Return the embedder the settings ask for; nothing is loaded or connected yet."""
    # drivers are loaded when they are picked: openai and qdrant_client take a second each
    if settings.bundled_model:
        from knowledge.adapters.local_embedder import LocalEmbedder  # noqa: PLC0415

        return LocalEmbedder()
    from knowledge.adapters.openai_embedder import OpenAIEmbedder  # noqa: PLC0415
    from knowledge.adapters.openai_endpoint import RetryPolicy  # noqa: PLC0415

    patience = RetryPolicy()
    seconds = settings.embedding_timeout_seconds
    endpoint = OpenAIEmbedder(
        settings.embedding_model or "",
        api_key=settings.embedding_api_key,
        base_url=settings.embedding_base_url,
        dimensions=settings.embedding_dims,
        retry=replace(patience, timeout_seconds=seconds, patience_seconds=max(patience.patience_seconds, 3 * seconds)),
    )
    return RedactingEmbedder(endpoint) if settings.redaction else endpoint


def make_chat(settings: KnowledgeSettings) -> ChatModel:
    """Return the chat model the settings name; nothing is connected yet."""
    from knowledge.adapters.openai_chat import OpenAIChat  # noqa: PLC0415
    from knowledge.adapters.openai_endpoint import RetryPolicy  # noqa: PLC0415

    seconds = settings.chat_timeout_seconds
    chat = OpenAIChat(
        settings.chat_model or "",
        api_key=settings.chat_api_key,
        base_url=settings.chat_base_url,
        retry=RetryPolicy(timeout_seconds=seconds, patience_seconds=3 * seconds),
    )
    return RedactingChat(chat) if settings.redaction else chat


def _chat_of(settings: KnowledgeSettings) -> Callable[[], ChatModel] | None:
    """Return what opens the chat model, None where there is none. Raises InvalidSetting where it lacks a key."""
    if settings.chat_model is None:
        return None
    if settings.chat_base_url is None and settings.chat_api_key is None:
        raise InvalidSetting(
            "HARDWON_CHAT_API_KEY", f"{settings.chat_model} needs a key of OpenAI; set it, or HARDWON_CHAT_BASE_URL."
        )
    return functools.partial(make_chat, settings)


async def migrate_stores(settings: KnowledgeSettings) -> bool:
    """Bring the database schema to this version; return whether it changed. Needs neither index nor embedder."""
    async with AsyncExitStack() as stack:
        return await migrate(await _connect_postgres(settings, stack))


async def _connect_postgres(settings: KnowledgeSettings, stack: AsyncExitStack) -> AsyncEngine:
    if settings.database_url is not None:
        engine = make_engine(settings.database_url.get_secret_value())
    else:
        from knowledge.adapters.postgres.embedded import EmbeddedPostgres  # noqa: PLC0415

        server = EmbeddedPostgres(settings.home)
        cancelled = await _to_its_end(server.__enter__)
        stack.push_async_callback(_leave, server)
        if cancelled is not None:
            raise cancelled
        engine = make_engine(server.dsn, revive=server.ensure)
    stack.push_async_callback(engine.dispose)
    return engine


async def _to_its_end(work: Callable[[], object]) -> asyncio.CancelledError | None:
    """Run blocking work in a thread; return the cancellation that came meanwhile, if any.

    A thread goes on whatever becomes of those who wait for it, who have to know what it started. Raises what it raises.
    """
    ended = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled = None
    while not ended.done():
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError as error:
            cancelled = error
    ended.result()
    return cancelled


async def _leave(server: AbstractContextManager[object]) -> None:
    cancelled = await _to_its_end(lambda: server.__exit__(None, None, None))
    if cancelled is not None:
        raise cancelled


def _check_qdrant(settings: KnowledgeSettings) -> None:
    """Raise InvalidSetting for a Qdrant beyond this machine without a key: whoever reaches it reads and deletes all."""
    if settings.qdrant_url is None or settings.qdrant_api_key is not None or settings.open_qdrant:
        return
    if not _on_this_machine(urlsplit(settings.qdrant_url).hostname or ""):
        raise InvalidSetting(
            "HARDWON_QDRANT_API_KEY",
            f"{settings.qdrant_url} is beyond this machine, so give it a key (QDRANT__SERVICE__API_KEY of the server)"
            " and set it here; HARDWON_OPEN_QDRANT=true goes without",
        )


def _on_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _open_index(settings: KnowledgeSettings) -> VectorIndex:
    if settings.qdrant_url is None:
        from knowledge.adapters.qdrant_edge import QdrantEdgeIndex  # noqa: PLC0415

        return QdrantEdgeIndex(settings.home / "index")
    from knowledge.adapters.qdrant_server import connect as connect_qdrant  # noqa: PLC0415

    key = settings.qdrant_api_key
    return connect_qdrant(settings.qdrant_url, key.get_secret_value() if key else None)


@asynccontextmanager
async def open_knowledge(
    settings: KnowledgeSettings | None = None,
    *,
    workspace: str = DEFAULT_WORKSPACE,
    clock: Clock | None = None,
    embedder: Embedder | None = None,
    socket: Path | None = None,
    warm: bool = True,
) -> AsyncIterator[Knowledge]:
    """Open the stores, migrate the schema and give the services; everything is closed again at the end.

    With the embedded index this process owns the data directory meanwhile. Raises StoreInUse, naming the owner, if
    another one does; `orchestrator.connect` is for working beside it. Also raises InvalidSetting, StorageUnavailable or
    StoreIncompatible. `clock` and `embedder` replace what the settings say; `socket` is where this process will serve
    the API to others. Unless `warm`, what embeds is loaded when a text is first embedded, and that question waits.
    """
    settings = settings or KnowledgeSettings()
    check_text("workspace", workspace)
    _chat_of(settings)
    _check_qdrant(settings)
    models = make_models(settings)
    async with AsyncExitStack() as stack:
        if settings.embedded_index:
            stack.enter_context(owner_lock(settings.home, socket=socket))
        embedder = EmbedderSwitch(embedder or make_embedder(settings))
        stack.push_async_callback(embedder.aclose)
        stack.push_async_callback(models.aclose)
        loading = asyncio.create_task(warmed(settings, embedder) if warm else asyncio.sleep(0))
        try:
            engine = await _connect_postgres(settings, stack)
            await migrate(engine)
            index = _open_index(settings)
            stack.push_async_callback(index.aclose)
            passages = open_passages(settings)
            stack.push_async_callback(passages.aclose)
        finally:
            await asyncio.gather(loading, return_exceptions=True)
        loading.result()
        clock = clock or SystemClock()
        authenticator = Authenticator(
            store=PostgresKeys(engine),
            pepper=functools.cache(functools.partial(pepper_of, settings.home, settings.key_pepper)),
            clock=clock,
        )
        stack.push_async_callback(authenticator.aclose)
        stores = _stores(engine, workspace, index, embedder, clock)
        yield _knowledge(settings, engine, stores, authenticator, passages=passages, models=models)


async def warmed(settings: KnowledgeSettings, embedder: Embedder) -> None:
    """Load what embeds while Postgres starts, so that no query waits for it; endpoints are not called."""
    if settings.bundled_model:
        await embedder.space()
        return
    from knowledge.adapters.openai_endpoint import load  # noqa: PLC0415

    await load()
