"""The last door before a provider: whatever is to be embedded elsewhere goes out redacted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from knowledge.models import Embedded, EmbeddingSpace
from knowledge.ports import Embedder
from knowledge.redaction import redact


class RedactingEmbedder(Embedder):
    """Passes on texts without their secrets. What is captured has none left; entries of old and archives may."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def space(self) -> EmbeddingSpace:
        return await self._embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embedded:
        return await self._embedder.embed([redact(text).text for text in texts], kind)

    async def aclose(self) -> None:
        await self._embedder.aclose()
