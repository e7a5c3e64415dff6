"""An embedder that embeds no text twice: what is compared on the same texts need not pay for them each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from knowledge.models import Embeddings, EmbeddingSpace, Vector
from knowledge.ports import Embedder


class Remembering(Embedder):
    """Keeps every vector of another embedder, which stays open: closing this one closes nothing.

    Only for models that embed queries and documents alike, as the bundled one does.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, tuple[Vector, bool]] = {}

    async def space(self) -> EmbeddingSpace:
        """Return the space of the other one."""
        return await self._embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed what is new; `tokens` are those of the new texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = 0
        if new:
            embedded = await self._embedder.embed(new, kind)
            tokens = embedded.tokens
            cut = set(embedded.truncated)
            for position, text in enumerate(new):
                self._known[text] = (embedded.vectors[position], position in cut)
        return Embeddings(
            vectors=np.stack([self._known[text][0] for text in texts]),
            tokens=tokens,
            truncated=tuple(position for position, text in enumerate(texts) if self._known[text][1]),
        )

    async def aclose(self) -> None:
        """Close nothing."""
