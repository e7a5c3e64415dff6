"""Pick the models that the settings name: what embeds, and the chat model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from pydantic import SecretStr

from knowledge.adapters.redacting import RedactingChat, RedactingEmbedder
from knowledge.errors import BUNDLED_MODEL, UNVERSIONED, InvalidInput, InvalidSetting
from knowledge.memory.limits import check_text
from knowledge.memory.store_upkeep import ModelChoice
from knowledge.ports import ChatModel, Embedder
from knowledge.settings import FOLDER_SIGNS, KnowledgeSettings, check_http


def make_embedder(settings: KnowledgeSettings) -> Embedder:
    """Return the embedder the settings ask for; nothing is loaded or connected yet."""
    # drivers are loaded when they are picked: openai and qdrant_client take a second each
    if settings.local_model:
        from knowledge.adapters.local_embedder import LocalEmbedder, folder_model  # noqa: PLC0415

        folder = settings.embedding_folder
        return LocalEmbedder(folder_model(folder) if folder else None)
    from knowledge.adapters.openai_embedder import OpenAIEmbedder  # noqa: PLC0415
    from knowledge.adapters.openai_endpoint import RetryPolicy  # noqa: PLC0415

    patience = RetryPolicy()
    seconds = settings.embedding_timeout_seconds
    endpoint = OpenAIEmbedder(
        settings.embedding_model or "",
        api_key=settings.embedding_api_key,
        base_url=settings.embedding_base_url,
        dimensions=settings.embedding_dims,
        revision=settings.embedding_revision or UNVERSIONED,
        query_prefix=settings.embedding_query_prefix,
        document_prefix=settings.embedding_document_prefix,
        retry=replace(patience, timeout_seconds=seconds, patience_seconds=max(patience.patience_seconds, 3 * seconds)),
    )
    return RedactingEmbedder(endpoint) if settings.redaction else endpoint


async def warmed(settings: KnowledgeSettings, embedder: Embedder) -> None:
    """Load what embeds while Postgres starts, so that no query waits for it; endpoints are not called."""
    if settings.local_model:
        await embedder.space()
        return
    from knowledge.adapters.openai_endpoint import load  # noqa: PLC0415

    await load()


def chosen(settings: KnowledgeSettings, choice: ModelChoice) -> KnowledgeSettings:
    """Return the settings with another model. A key of the settings never goes to an address they do not name."""
    check_text("model", choice.model)
    for field, told in (
        ("revision", choice.revision),
        ("query_prefix", choice.query_prefix),
        ("document_prefix", choice.document_prefix),
    ):
        if told is not None:
            check_text(field, told)
    try:
        address = check_http(choice.base_url)
    except ValueError as error:
        raise InvalidInput("base_url", str(error)) from error
    key = settings.embedding_api_key
    if address is not None:
        key = SecretStr(choice.api_key) if choice.api_key else None
    elif choice.model == settings.embedding_model or not _is_local(choice.model):
        address = settings.embedding_base_url
    kept = settings if choice.model == settings.embedding_model and choice.base_url is None else None
    asked = settings.model_copy(
        update={
            "embedding_model": choice.model,
            "embedding_dims": choice.dims or (kept and kept.embedding_dims),
            "embedding_revision": choice.revision or (kept and kept.embedding_revision),
            "embedding_query_prefix": choice.query_prefix or (kept.embedding_query_prefix if kept else ""),
            "embedding_document_prefix": choice.document_prefix or (kept.embedding_document_prefix if kept else ""),
            "embedding_base_url": address,
            "embedding_api_key": key,
        }
    )
    if asked.local_model:
        _refuse_of_endpoints(choice)
    return asked


def _refuse_of_endpoints(choice: ModelChoice) -> None:
    """Raise InvalidInput for what is asked of a model in process and only endpoints have: it would change nothing."""
    for field in ("revision", "dims", "query_prefix", "document_prefix"):
        if getattr(choice, field) is not None:
            raise InvalidInput(
                field, f"is of a model that an endpoint serves; {choice.model} runs in this process: leave it out"
            )


def _is_local(model: str) -> bool:
    return model == BUNDLED_MODEL or model.startswith(FOLDER_SIGNS)


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


def chat_of(settings: KnowledgeSettings) -> Callable[[], ChatModel] | None:
    """Return what opens the chat model, None where there is none. Raises InvalidSetting where it lacks a key."""
    if settings.chat_model is None:
        return None
    if settings.chat_base_url is None and settings.chat_api_key is None:
        raise InvalidSetting(
            "HARDWON_CHAT_API_KEY", f"{settings.chat_model} needs a key of OpenAI; set it, or HARDWON_CHAT_BASE_URL."
        )
    return functools.partial(make_chat, settings)
