"""Redaction before an endpoint: every text sent is redacted.

Captured texts have no secrets left; older entries and those of archives may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import ChatModel, Embedder
from knowledge.redaction import redact


class RedactingEmbedder(Embedder):
    """Redacts texts before they are embedded."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def efficient_batch_size(self) -> int | None:
        return self._embedder.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        return await self._embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        return await self._embedder.embed([redact(text).text for text in texts], kind)

    def forget(self) -> None:
        self._embedder.forget()

    async def aclose(self) -> None:
        await self._embedder.aclose()


class RedactingChat(ChatModel):
    """Redacts texts before they are answered."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def model(self) -> str:
        return self._chat.model

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        return await self._chat.answer(instructions, redact(text).text, as_json=as_json)

    async def aclose(self) -> None:
        await self._chat.aclose()
