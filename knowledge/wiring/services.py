"""Build the services of a workspace on open stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.access.authentication import Authenticator
from knowledge.access.keys import KeyService, KeyStore
from knowledge.access.provenance import Auditor
from knowledge.access.quota import with_quota
from knowledge.adapters.clocks import PostgresClock, SystemClock
from knowledge.adapters.embedding.switch import EmbedderSwitch
from knowledge.adapters.postgres.admin.access import PostgresSpending
from knowledge.adapters.postgres.admin.archive import PostgresArchive
from knowledge.adapters.postgres.admin.audit import PostgresAudit
from knowledge.adapters.postgres.admin.corrections import PostgresCorrections
from knowledge.adapters.postgres.admin.deeds import PostgresDeeds
from knowledge.adapters.postgres.admin.provenance import PostgresProvenance
from knowledge.adapters.postgres.admin.runs import PostgresCheckpoints, PostgresJobs
from knowledge.adapters.postgres.admin.stored_texts import PostgresStoredTexts
from knowledge.adapters.postgres.admin.verify import PostgresUpkeep
from knowledge.adapters.postgres.admin.webhooks import PostgresWebhooks
from knowledge.adapters.postgres.lists.maps import PostgresMaps
from knowledge.adapters.postgres.lists.store import PostgresLists
from knowledge.adapters.postgres.memory.contexts import PostgresContexts
from knowledge.adapters.postgres.memory.distillations import PostgresDistillations
from knowledge.adapters.postgres.memory.entries import PostgresEntries
from knowledge.adapters.postgres.memory.grouping import PostgresGrouping
from knowledge.adapters.postgres.memory.patterns import PostgresPatterns
from knowledge.adapters.postgres.memory.points import PostgresPoints
from knowledge.adapters.postgres.memory.records import PostgresRecords
from knowledge.adapters.postgres.memory.spaces import PostgresSpaces
from knowledge.documents.answer_service import Models
from knowledge.documents.ingestion.reindex import DocumentMoves
from knowledge.documents.journal import Journal
from knowledge.documents.ports import Converter, PassageIndex
from knowledge.documents.service import Documents
from knowledge.memory.capture.outcomes import OutcomeService
from knowledge.memory.capture.service import KnowledgeCaptureService
from knowledge.memory.capture.task_events import TaskEventService
from knowledge.memory.checkpoint.service import CHECKPOINT_BATCH, CHECKPOINT_DEADLINE, LEASE, CheckpointEmbeddingService
from knowledge.memory.checkpoint.summaries import DistillationService
from knowledge.memory.curation.audit_log import AuditService
from knowledge.memory.curation.corrections import CorrectionService
from knowledge.memory.curation.deeds import DeedService
from knowledge.memory.curation.merge_split import PatternGroupingService
from knowledge.memory.curation.review_queue import ReviewService
from knowledge.memory.curation.revocation import RevocationService
from knowledge.memory.curation.stored_secrets import StoredSecretsService
from knowledge.memory.lists.service import ListService
from knowledge.memory.maintenance.archive import ArchiveService
from knowledge.memory.maintenance.integrity import IntegrityService
from knowledge.memory.maintenance.pruning import KnowledgePruningService
from knowledge.memory.maintenance.reindex import StoreUpkeepService
from knowledge.memory.maintenance.verify import KnowledgeUpkeepService
from knowledge.memory.map.service import MapService
from knowledge.memory.query.context_log import ContextLog
from knowledge.memory.query.service import RAGQueryService
from knowledge.ports import Clock, Embedder, Stores, VectorIndex
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.answering import make_answering
from knowledge.wiring.documents import make_document_redaction, make_documents, make_moves
from knowledge.wiring.facade import Knowledge
from knowledge.wiring.model_adapters import chat_of, choose_model, make_embedder
from knowledge.wiring.seal_wiring import make_integrity


def make_stores(
    settings: KnowledgeSettings,
    engine: AsyncEngine,
    workspace: str,
    *,
    index: VectorIndex,
    embedder: Embedder,
    clock: Clock,
) -> Stores:
    """Return the stores of a workspace."""
    return Stores(
        workspace=workspace,
        entries=PostgresEntries(engine, workspace),
        patterns=PostgresPatterns(engine, workspace),
        distillations=PostgresDistillations(engine, workspace),
        points=PostgresPoints(engine, workspace),
        spaces=PostgresSpaces(engine, workspace),
        checkpoints=PostgresCheckpoints(engine, workspace),
        contexts=PostgresContexts(engine, workspace),
        records=PostgresRecords(engine, workspace),
        spending=PostgresSpending(engine, workspace, settings.tokens_per_day),
        lists=PostgresLists(engine, workspace),
        maps=PostgresMaps(engine, workspace),
        corrections=PostgresCorrections(engine, workspace),
        index=index,
        embedder=embedder,
        clock=clock,
        index_is_remote=settings.qdrant_url is not None,
    )


def make_knowledge(
    settings: KnowledgeSettings,
    engine: AsyncEngine,
    stores: Stores,
    authenticator: Authenticator,
    *,
    passages: PassageIndex,
    converter: Converter,
    models: Models,
) -> Knowledge:
    """Return all services of the workspace of these stores, for their owner."""
    audit = Auditor(store=PostgresAudit(engine), clock=stores.clock, workspace=stores.workspace)
    provenance = PostgresProvenance(engine, stores.workspace)
    capture = _capture(settings, stores, authenticator, audit)
    outcomes = OutcomeService(stores=stores)
    chat = with_quota(stores, chat_of(settings))
    documents = make_documents(settings, engine, stores, passages, converter, chat=chat)
    answering = make_answering(settings, engine, stores, documents, models)
    integrity = make_integrity(settings, engine, stores.clock, stores.workspace)
    store_services = _StoreServices(settings, engine, stores, passages, converter, audit)
    return Knowledge(
        settings=settings,
        workspace=stores.workspace,
        stores=stores,
        jobs=PostgresJobs(engine),
        webhooks=PostgresWebhooks(engine),
        capture=capture,
        checkpoints=_checkpoints(settings, stores, integrity.take_head),
        queries=_queries(settings, stores),
        pruning=_pruning(settings, engine, stores, answering.journal, audit),
        contexts=ContextLog(stores=stores),
        lists=ListService(stores=stores),
        maps=MapService(stores=stores),
        outcomes=outcomes,
        events=TaskEventService(stores=stores, capture=capture, outcomes=outcomes),
        grouping=_grouping(engine, stores, audit),
        upkeep=store_services.upkeep_of(stores.workspace),
        store_upkeep=store_services.store_upkeep(),
        archives=store_services.archives(),
        corrections=_corrections(settings, stores, audit),
        reviews=ReviewService(stores=stores, provenance=provenance, audit=audit),
        redaction=_stored_secrets(settings, engine, stores, documents, audit),
        deeds=_deeds(engine, provenance, capture, authenticator.store, audit),
        revocations=RevocationService(stores=stores, provenance=provenance, keys=authenticator.store, audit=audit),
        audits=_audits(engine, integrity, audit),
        integrity=integrity,
        keys=_keys(authenticator, stores.clock, replace(audit, workspace="")),
        authenticator=authenticator,
        documents=documents,
        passages=passages,
        converter=converter,
        answering=answering,
        models=models,
        engine=engine,
        of_workspace=_in_workspace,
    )


def _capture(
    settings: KnowledgeSettings, stores: Stores, authenticator: Authenticator, audit: Auditor
) -> KnowledgeCaptureService:
    return KnowledgeCaptureService(
        stores=stores,
        redaction=settings.redaction,
        review=settings.review,
        audit=audit,
        keys=authenticator.store,
    )


def _audits(engine: AsyncEngine, integrity: IntegrityService, audit: Auditor) -> AuditService:
    return AuditService(store=PostgresAudit(engine), workspace=integrity.workspace, integrity=integrity, audit=audit)


def _grouping(engine: AsyncEngine, stores: Stores, audit: Auditor) -> PatternGroupingService:
    grouping = PostgresGrouping(engine, stores.workspace)
    return PatternGroupingService(stores=stores, grouping=grouping, audit=audit)


def _in_workspace(knowledge: Knowledge, workspace: str) -> Knowledge:
    open_stores = knowledge.stores
    stores = make_stores(
        knowledge.settings,
        knowledge.engine,
        workspace,
        index=open_stores.index,
        embedder=open_stores.embedder,
        clock=open_stores.clock,
    )
    stores = replace(stores, embedded=open_stores.embedded)
    return make_knowledge(
        knowledge.settings,
        knowledge.engine,
        stores,
        knowledge.authenticator,
        passages=knowledge.passages,
        converter=knowledge.converter,
        models=knowledge.models,
    )


def _checkpoints(
    settings: KnowledgeSettings, stores: Stores, take_head: Callable[[], Awaitable[object]] | None = None
) -> CheckpointEmbeddingService:
    return CheckpointEmbeddingService(
        stores=stores,
        take_head=take_head,
        batch=CHECKPOINT_BATCH,
        lease=LEASE,
        deadline=CHECKPOINT_DEADLINE,
        retention_years=settings.retention_years,
        distillation=DistillationService(
            stores=stores,
            open_chat=with_quota(stores, chat_of(settings)),
            deadline=CHECKPOINT_DEADLINE,
        ),
    )


def _deeds(
    engine: AsyncEngine,
    provenance: PostgresProvenance,
    capture: KnowledgeCaptureService,
    keys: KeyStore,
    audit: Auditor,
) -> DeedService:
    stores = capture.stores
    grouping = PostgresGrouping(engine, stores.workspace)
    return DeedService(
        stores=stores,
        deeds=PostgresDeeds(engine, stores.workspace),
        reviews=ReviewService(stores=stores, provenance=provenance, audit=audit),
        grouping=PatternGroupingService(stores=stores, grouping=grouping, audit=audit),
        capture=capture,
        keys=keys,
        audit=audit,
    )


def _corrections(settings: KnowledgeSettings, stores: Stores, audit: Auditor) -> CorrectionService:
    checkpoints = _checkpoints(settings, stores)
    return CorrectionService(stores=stores, checkpoints=checkpoints, redaction=settings.redaction, audit=audit)


def _stored_secrets(
    settings: KnowledgeSettings, engine: AsyncEngine, stores: Stores, documents: Documents, audit: Auditor
) -> StoredSecretsService:
    return StoredSecretsService(
        stores=stores,
        texts=PostgresStoredTexts(engine, stores.workspace),
        checkpoints=_checkpoints(settings, stores),
        documents=make_document_redaction(engine, stores.workspace, documents),
        enabled=settings.redaction,
        audit=audit,
    )


def _queries(settings: KnowledgeSettings, stores: Stores) -> RAGQueryService:
    return RAGQueryService(
        stores=stores,
        task_relevance=settings.task_relevance,
        failure_relevance=settings.failure_relevance,
        redaction=settings.redaction,
        margin=settings.context_margin,
    )


def _pruning(
    settings: KnowledgeSettings, engine: AsyncEngine, stores: Stores, journal: Journal, audit: Auditor
) -> KnowledgePruningService:
    return KnowledgePruningService(
        stores=stores,
        # an injected clock is trusted
        store_clock=PostgresClock(engine) if isinstance(stores.clock, SystemClock) else None,
        retention_years=settings.retention_years,
        documents=journal,
        audit=audit,
    )


def _keys(authenticator: Authenticator, clock: Clock, audit: Auditor) -> KeyService:
    return KeyService(
        store=authenticator.store,
        pepper=authenticator.pepper,
        clock=clock,
        cache=authenticator,
        audit=audit,
    )


@dataclass(frozen=True, slots=True)
class _StoreServices:
    """Factory of the services that work on all workspaces of the store, one after the other."""

    settings: KnowledgeSettings
    engine: AsyncEngine
    stores: Stores
    passages: PassageIndex
    converter: Converter
    audit: Auditor

    def upkeep_of(self, workspace: str) -> KnowledgeUpkeepService:
        """Return the maintenance service of a workspace."""
        return KnowledgeUpkeepService(
            stores=self._stores_of(workspace),
            upkeep=PostgresUpkeep(self.engine, workspace),
            documents=self._moves_of(workspace),
            integrity=make_integrity(self.settings, self.engine, self.stores.clock, workspace),
            audit=replace(self.audit, workspace=workspace),
        )

    def store_upkeep(self) -> StoreUpkeepService:
        """Return the maintenance service of the whole store, which can switch the embedding model."""
        embedder = self.stores.embedder
        switch = embedder if isinstance(embedder, EmbedderSwitch) else EmbedderSwitch(embedder)
        return StoreUpkeepService(
            workspaces=PostgresJobs(self.engine).workspaces,
            of=self.upkeep_of,
            use=switch.use,
            make=lambda choice: switch.keep(make_embedder(choose_model(self.settings, choice))),
            release=switch.release,
            audit=replace(self.audit, workspace=""),
        )

    def archives(self) -> ArchiveService:
        """Return the service that exports the whole store to an archive, and imports one."""
        return ArchiveService(
            archive=PostgresArchive(self.engine),
            index=self.stores.index,
            embedder=self.stores.embedder,
            workspaces=PostgresJobs(self.engine).workspaces,
            of=self.upkeep_of,
            check_store=make_integrity(self.settings, self.engine, self.stores.clock, "").check_store,
            spool=self.settings.home if self.settings.home.is_dir() else None,  # /tmp may be memory
            audit=replace(self.audit, workspace=""),
        )

    def _moves_of(self, workspace: str) -> DocumentMoves:
        stores = self._stores_of(workspace)
        documents = make_documents(self.settings, self.engine, stores, self.passages, self.converter, chat=None)
        return make_moves(self.engine, stores, documents)

    def _stores_of(self, workspace: str) -> Stores:
        open_stores = self.stores
        return make_stores(
            self.settings,
            self.engine,
            workspace,
            index=open_stores.index,
            embedder=open_stores.embedder,
            clock=open_stores.clock,
        )
