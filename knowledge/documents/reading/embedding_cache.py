"""The embeddings of sentences that were read lately: the next question about the same passages costs less."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from cachetools import LRUCache

from knowledge.models import Vector
from knowledge.ports import Embedder

MAX_BYTES: Final = 16_000_000
"""What all that is kept may take: 10,000 sentences of 384 dimensions."""


class SentenceVectors:
    """Embeddings by workspace, space and text, the least recently used dropped first. Texts themselves are not kept."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._kept: LRUCache[bytes, Vector] = LRUCache(most_bytes, getsizeof=lambda vector: vector.nbytes)

    async def of(self, texts: Sequence[str], embedder: Embedder, workspace: str) -> Vector:
        """Return the embeddings of texts, a row each; only those that are not kept are embedded, and then kept.

        What one workspace had embedded is nothing to another: how soon an answer comes would tell what that one has.
        """
        space = await embedder.space()
        head = f"{workspace}\0{space.fingerprint}\0".encode()
        keys = [hashlib.sha256(head + text.encode()).digest() for text in texts]
        found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            made = await embedder.embed(list(missing.values()), "document")
            found |= {key: row.copy() for key, row in zip(missing, made.vectors, strict=True)}
        for key, vector in found.items():
            if vector.nbytes <= self._kept.maxsize:
                self._kept[key] = vector
        return np.array([found[key] for key in keys], dtype=np.float32).reshape(len(texts), space.dims)
