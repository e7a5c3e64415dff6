"""Build the services for answers on open stores, with the models that the settings name."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Final, Literal

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import InvalidSetting
from knowledge.adapters.llm.redacting import RedactingJournal
from knowledge.adapters.postgres.documents.answers import PostgresJournal
from knowledge.documents.access import Scope
from knowledge.documents.answer_service import Answering, DocumentLists, Models
from knowledge.documents.answering.entailment import Entailment, Judge
from knowledge.documents.answering.llm_draft import Drafter, ModelDrafter
from knowledge.documents.answering.pipeline import GroundedAnswerer
from knowledge.documents.answering.query_rewriting import Rewriter
from knowledge.documents.answering.reranking import Reranking
from knowledge.documents.answering.strategies import DirectFinder, KeywordFinder, MultiQueryFinder
from knowledge.documents.llm import LanguageModel, SpendingModel
from knowledge.documents.ports import Reranker
from knowledge.documents.reading.extractor import FITTED, ExtractiveDrafter
from knowledge.documents.relevance import default_scale
from knowledge.documents.retrieval.keyword_score import KeywordWeights
from knowledge.documents.service import Documents
from knowledge.ports import Stores
from knowledge.settings import KnowledgeSettings

Role = Literal["main", "synthesis"]

_SEARCH_SETTINGS: Final = {name for name in KnowledgeSettings.model_fields if name.startswith("kb_")}


def make_models(settings: KnowledgeSettings) -> Models:
    """Return the models that the settings name; a role without its own settings gets the chat model."""
    return Models(
        main=_model(settings, "main"), synthesis=_model(settings, "synthesis"), reranker=make_reranker(settings)
    )


def _model(settings: KnowledgeSettings, role: Role) -> LanguageModel | None:
    own = getattr(settings, f"{role}_model") is not None
    prefix = role if own else "chat"
    model: str | None = getattr(settings, f"{prefix}_model")
    if model is None:
        return None
    base_url: str | None = getattr(settings, f"{prefix}_base_url")
    key: SecretStr | None = getattr(settings, f"{prefix}_api_key")
    if base_url is None and key is None:
        variable = f"HARDWON_{prefix.upper()}"
        raise InvalidSetting(f"{variable}_API_KEY", f"{model} needs an OpenAI key; set it, or {variable}_BASE_URL.")
    from knowledge.adapters.llm.conversation import OpenAIConversation  # noqa: PLC0415
    from knowledge.adapters.llm.endpoint import RetryPolicy  # noqa: PLC0415

    seconds = settings.chat_timeout_seconds
    return OpenAIConversation(
        prefix,
        model,
        api_key=key,
        base_url=base_url,
        redaction=settings.redaction,
        retry=RetryPolicy(attempts=3, timeout_seconds=seconds, patience_seconds=2 * seconds),
    )


def keyword_weights(settings: KnowledgeSettings) -> KeywordWeights:
    """Return the weights of the keyword score. Raises InvalidSetting for an unknown name."""
    names = {field.name for field in fields(KeywordWeights)}
    for name in settings.kb_weights:
        if name not in names:
            raise InvalidSetting("HARDWON_KB_WEIGHTS", f"{name} is not one of {', '.join(sorted(names))}")
    return KeywordWeights(**settings.kb_weights)


def _search_settings(settings: KnowledgeSettings) -> str:
    """Return the settings that affect the answers of a search, as JSON."""
    return settings.model_dump_json(include=_SEARCH_SETTINGS)


def make_reranker(settings: KnowledgeSettings) -> Reranker | None:
    """Return the reranker that the settings name. Raises InvalidSetting for a file that cannot be read."""
    if settings.reranker_model is None:
        return None
    from knowledge.adapters.reranking import EndpointReranker, open_onnx  # noqa: PLC0415 - it is optional

    if settings.reranker_base_url is None:
        return open_onnx(Path(settings.reranker_model).expanduser())
    return EndpointReranker(
        settings.reranker_model,
        settings.reranker_base_url,
        settings.reranker_api_key,
        settings.reranker_timeout_seconds,
        judges=settings.reranker_judges,
        ranks=not settings.reranker_judges,
    )


async def _make_reranking(settings: KnowledgeSettings, stores: Stores, models: Models) -> Reranking | None:
    """Return the reranker for a question; None for an endpoint if the workspace is local only."""
    if models.reranker is None or (settings.reranker_base_url is not None and await stores.spaces.local_only()):
        return None
    return Reranking(models.reranker, settings.reranker_timeout_seconds)


async def _make_reader(
    documents: Documents, models: Models, scope: Scope, reranking: Reranking | None
) -> ExtractiveDrafter:
    """Return what answers a question without a model."""
    search = documents.search
    active = await search.active_space()
    return ExtractiveDrafter(
        embedder=active.embedder,
        scale=FITTED if default_scale(active.space.model) == FITTED else await search.scale(active),
        passages=documents.quotes,
        scope=scope,
        sentences=models.sentences,
        is_word=search.is_word,
        reranking=reranking,
    )


def make_answering(
    settings: KnowledgeSettings, engine: AsyncEngine, stores: Stores, documents: Documents, models: Models
) -> Answering:
    """Return the services for answers in one workspace."""

    async def permit(model: LanguageModel | None) -> LanguageModel | None:
        """Return the model, charged to the workspace's quota; None if the workspace is local only."""
        return None if model is None or await stores.spaces.local_only() else SpendingModel(stores, model)

    async def drafter(scope: Scope) -> Drafter:
        synthesis = await permit(models.synthesis)
        reranking = await _make_reranking(settings, stores, models)
        reader = await _make_reader(documents, models, scope, reranking)
        return reader if synthesis is None else ModelDrafter(synthesis, gate=reader, reranking=reranking)

    async def rewriter() -> Rewriter:
        return Rewriter(language_model=await permit(models.synthesis))

    async def entailment() -> Judge | None:
        reranking = await _make_reranking(settings, stores, models)
        if reranking is not None and reranking.model.judges:
            return reranking
        synthesis = await permit(models.synthesis)
        return None if synthesis is None else Entailment(synthesis)

    evidence = replace(documents.evidence, model=lambda: permit(models.synthesis))
    cache = documents.upkeep.answers
    journal = PostgresJournal(engine, stores.workspace)
    return Answering(
        workspace=stores.workspace,
        access=documents.access,
        answerer=GroundedAnswerer(
            quotes=documents.quotes,
            drafter=drafter,
            rewriter=rewriter,
            cache=cache,
            redaction=settings.redaction,
            settings=_search_settings(settings) + (models.reranker.name if models.reranker is not None else ""),
            entailment=entailment if settings.verify_entailment else None,
        ),
        lists=DocumentLists(documents.quotes),
        direct=DirectFinder(searcher=documents.search, evidence=evidence),
        by_queries=MultiQueryFinder(searcher=documents.search, rewriter=rewriter),
        by_keywords=KeywordFinder(
            store=documents.quotes,
            searcher=documents.search,
            weights=keyword_weights(settings),
            max_docs=settings.kb_max_docs,
            min_relevance=settings.kb_min_relevance,
            relevance=settings.kb_relevance,
        ),
        cache=cache,
        journal=RedactingJournal(journal) if settings.redaction else journal,
        clock=stores.clock,
        main=lambda: permit(models.main),
    )
