"""Build the embedder and the chat model that the settings name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from pydantic import SecretStr

from hardwon.errors import BUNDLED_MODEL, UNVERSIONED, InvalidInput, InvalidSetting
from hardwon.models.maintenance import ModelChoice
from hardwon.settings import check_http
from hardwon.validation import check_text
from knowledge.adapters.llm.redacting import RedactingChat, RedactingEmbedder
from knowledge.ports import ChatModel, Embedder
from knowledge.settings import FOLDER_SIGNS, KnowledgeSettings


def make_embedder(settings: KnowledgeSettings) -> Embedder:
    """Return the embedder that the settings name; nothing is loaded or connected yet."""
    # imported only when needed: openai and qdrant_client take a second each
    if settings.uses_local_model:
        from knowledge.adapters.embedding.local import LocalEmbedder, folder_model  # noqa: PLC0415

        folder = settings.embedding_folder
        return LocalEmbedder(folder_model(folder) if folder else None)
    from knowledge.adapters.embedding.openai import OpenAIEmbedder  # noqa: PLC0415
    from knowledge.adapters.llm.endpoint import RetryPolicy  # noqa: PLC0415

    policy = RetryPolicy()
    seconds = settings.embedding_timeout_seconds
    endpoint = OpenAIEmbedder(
        settings.embedding_model or "",
        api_key=settings.embedding_api_key,
        base_url=settings.embedding_base_url,
        dimensions=settings.embedding_dims,
        revision=settings.embedding_revision or UNVERSIONED,
        query_prefix=settings.embedding_query_prefix,
        document_prefix=settings.embedding_document_prefix,
        retry=replace(policy, timeout_seconds=seconds, patience_seconds=max(policy.patience_seconds, 3 * seconds)),
    )
    return RedactingEmbedder(endpoint) if settings.redaction else endpoint


async def warm_up(settings: KnowledgeSettings, embedder: Embedder) -> None:
    """Load the embedding model or client, so that no query waits for it; endpoints are not called."""
    if settings.uses_local_model:
        await embedder.space()
        return
    from knowledge.adapters.llm.endpoint import load  # noqa: PLC0415

    await load()


def choose_model(settings: KnowledgeSettings, choice: ModelChoice) -> KnowledgeSettings:
    """Return the settings with another model. The configured key is never sent to another address than configured."""
    check_text("model", choice.model)
    for field, value in (
        ("revision", choice.revision),
        ("query_prefix", choice.query_prefix),
        ("document_prefix", choice.document_prefix),
    ):
        if value is not None:
            check_text(field, value)
    try:
        address = check_http(choice.base_url.strip() if choice.base_url else None)
    except ValueError as error:
        raise InvalidInput("base_url", str(error)) from error
    key = settings.embedding_api_key
    if address is not None:
        key = SecretStr(choice.api_key.strip()) if choice.api_key else None
    elif choice.model == settings.embedding_model or not _is_local(choice.model):
        address = settings.embedding_base_url
    current = settings if choice.model == settings.embedding_model and choice.base_url is None else None
    changed = settings.model_copy(
        update={
            "embedding_model": choice.model,
            "embedding_dims": choice.dims or (current and current.embedding_dims),
            "embedding_revision": choice.revision or (current and current.embedding_revision),
            "embedding_query_prefix": choice.query_prefix or (current.embedding_query_prefix if current else ""),
            "embedding_document_prefix": choice.document_prefix
            or (current.embedding_document_prefix if current else ""),
            "embedding_base_url": address,
            "embedding_api_key": key,
        }
    )
    if changed.uses_local_model:
        _check_local_choice(choice)
    return changed


def _check_local_choice(choice: ModelChoice) -> None:
    """Raise InvalidInput for options that only endpoints have: a model in this process would ignore them."""
    for field in ("revision", "dims", "query_prefix", "document_prefix"):
        if getattr(choice, field) is not None:
            raise InvalidInput(
                field, f"applies only to models of an endpoint, and {choice.model} runs in this process: leave it out"
            )


def _is_local(model: str) -> bool:
    return model == BUNDLED_MODEL or model.startswith(FOLDER_SIGNS)


def make_chat(settings: KnowledgeSettings) -> ChatModel:
    """Return the chat model that the settings name; nothing is connected yet."""
    from knowledge.adapters.llm.chat import OpenAIChat  # noqa: PLC0415
    from knowledge.adapters.llm.endpoint import RetryPolicy  # noqa: PLC0415

    seconds = settings.chat_timeout_seconds
    chat = OpenAIChat(
        settings.chat_model or "",
        api_key=settings.chat_api_key,
        base_url=settings.chat_base_url,
        retry=RetryPolicy(timeout_seconds=seconds, patience_seconds=3 * seconds),
    )
    return RedactingChat(chat) if settings.redaction else chat


def chat_of(settings: KnowledgeSettings) -> Callable[[], ChatModel] | None:
    """Return a factory of the chat model, None without one. Raises InvalidSetting if it lacks a key."""
    if settings.chat_model is None:
        return None
    if settings.chat_base_url is None and settings.chat_api_key is None:
        raise InvalidSetting(
            "HARDWON_CHAT_API_KEY", f"{settings.chat_model} needs an OpenAI key; set it, or HARDWON_CHAT_BASE_URL."
        )
    return functools.partial(make_chat, settings)
