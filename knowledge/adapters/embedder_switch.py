"""An embedder that can be exchanged while it is in use: what a change of model does in a running process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from knowledge.adapters.recognising import RecognisingEmbedder
from knowledge.models import Embedded, EmbeddingSpace
from knowledge.ports import Embedder, SpaceStore


class EmbedderSwitch(Embedder):
    """Passes calls on to the embedder in use; closing it closes every one it ever used."""

    def __init__(self, embedder: Embedder) -> None:
        self._used = [embedder]
        self._made: list[Embedder] = []
        self._spaces: SpaceStore | None = None

    def recognise_by(self, spaces: SpaceStore) -> None:
        """Have the models of endpoints recognised from now on by what this store keeps of them."""
        self._spaces = spaces
        self._used = [self._recognising(embedder) for embedder in self._used]

    def use(self, embedder: Embedder) -> None:
        """Use another embedder from now on; those used before still answer for their own spaces."""
        self._used.append(self._recognising(embedder))

    def keep(self, embedder: Embedder) -> Embedder:
        """Return an embedder as it is to be used, to be closed with the others whether it comes into use or not."""
        self._made.append(embedder)
        return self._recognising(embedder)

    def _recognising(self, embedder: Embedder) -> Embedder:
        if self._spaces is None or isinstance(embedder, RecognisingEmbedder):
            return embedder
        return RecognisingEmbedder(embedder, self._spaces)

    @property
    def enough_at_once(self) -> int | None:
        return self._used[-1].enough_at_once

    async def space(self) -> EmbeddingSpace:
        return await self._used[-1].space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embedded:
        return await self._used[-1].embed(texts, kind)

    async def of_space(self, space: EmbeddingSpace) -> Embedder:
        for embedder in reversed(self._used):
            if (await embedder.space()).fingerprint == space.fingerprint:
                return embedder
        return self._used[-1]

    async def aclose(self) -> None:
        for embedder in (*self._used, *self._made):
            await embedder.aclose()
