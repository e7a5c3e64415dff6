"""An embedder without a model: instant, the same everywhere, and texts that share words lie near each other."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from hardwon.errors import EmbedderUnavailable, TextRejected
from knowledge.adapters.embedding_space import refuse_unembeddable, unit, with_fingerprint
from knowledge.models import Embeddings, EmbeddingSpace, Vector
from knowledge.ports import Embedder

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def hashed_bag(text: str, *, dims: int, model: str = "hashing") -> Vector:
    """Return the words of a text as signed counts at hashed places, of length 1; another model has other places."""
    salt = zlib.crc32(model.encode())
    row = np.zeros(dims, dtype=np.float64)
    for word in words_of(text):
        place = zlib.crc32(word.encode(), salt)
        row[(place >> 1) % dims] += 1.0 if place & 1 else -1.0
    # Every text has a direction of its own, even one without words.
    row[zlib.crc32(text.encode(), salt) % dims] += 0.01
    return unit(row)


def crowded(vector: Vector, crowd: float) -> Vector:
    """Return a vector as of a model that gives texts that share nothing about this cosine."""
    row = np.sqrt(1 - crowd) * vector.astype(np.float64)
    row[0] += np.sqrt(crowd)
    return unit(row)


def _ends(words: list[str], most: int) -> list[str]:
    return words if len(words) <= most else words[: most - most // 2] + words[len(words) - most // 2 :]


class HashingEmbedder(Embedder):
    """Embeds by `hashed_bag`, one word a token. Counts calls and texts; refuses texts that contain `refuses`.

    `unavailable` set to a sentence makes every call raise EmbedderUnavailable with it.
    """

    def __init__(
        self, *, dims: int = 64, model: str = "hashing", max_tokens: int = 512, refuses: str | None = None
    ) -> None:
        revision = hashlib.sha256(model.encode()).hexdigest()[:16]
        self._space = with_fingerprint(
            EmbeddingSpace(provider="test", model=model, revision=revision, dims=dims, max_tokens=max_tokens)
        )
        self._closed = False
        self.refuses = refuses
        self.unavailable: str | None = None
        self.calls = 0
        self.texts = 0

    async def space(self) -> EmbeddingSpace:
        return self._space

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        self.calls += 1
        if self._closed or self.unavailable:
            raise EmbedderUnavailable(self.unavailable or "The embedder was closed: open the stores again.")
        refuse_unembeddable(texts)
        if self.refuses and any(self.refuses in text for text in texts):
            raise TextRejected(f"A text contains {self.refuses!r}: leave it out.")
        self.texts += len(texts)
        kept = [_ends(words_of(text), self._space.max_tokens) for text in texts]
        truncated = tuple(
            position
            for position, (text, words) in enumerate(zip(texts, kept, strict=True))
            if len(words_of(text)) > len(words)
        )
        cut = [" ".join(kept[position]) if position in truncated else text for position, text in enumerate(texts)]
        rows = [hashed_bag(text, dims=self._space.dims, model=self._space.model) for text in cut]
        return Embeddings(
            vectors=np.array(rows, dtype=np.float32).reshape(len(texts), self._space.dims),
            tokens=sum(map(len, kept)),
            truncated=truncated,
        )

    async def aclose(self) -> None:
        self._closed = True
