"""A model is known by what it makes of a few texts: an endpoint may come to answer with another one of that name.

The texts have nothing to do with each other, so they also tell how alike the model finds such texts, which is what its
cosines are read by (`knowledge.search.cosines`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from knowledge.errors import BUNDLED_MODEL, ENDPOINT_PROVIDER, LOCAL_PROVIDER, ModelReplaced
from knowledge.models import Embeddings, EmbeddingSpace, Vector
from knowledge.ports import Embedder, SpaceStore
from knowledge.turns import gather_all

PROBES = (
    "The build failed because a dependency could not be resolved.",
    "Reviewers asked for the error to be handled where it is raised.",
    "How long are backups kept, and who may restore them?",
)
"""What a model is known by. Not to be changed: stores keep what their models made of these."""

LEAST_ALIKE = 0.98
"""Ours: one model in 32 bits and in 8 gives vectors of a cosine of 0.993, two models next to none."""

AGAIN_SECONDS: Mapping[Literal["query", "document"], float] = {"query": 3600.0, "document": 60.0}
"""How long a model counts as recognised; ours. What is embedded to be kept stays wrong, an answer does not."""


def _asked(space: EmbeddingSpace) -> bool:
    return space.provider == ENDPOINT_PROVIDER or (space.provider == LOCAL_PROVIDER and space.model != BUNDLED_MODEL)


class RecognisingEmbedder(Embedder):
    """Embeds, and compares what a model makes of `PROBES` with what it once made of them, at first and in time.

    Raises ModelReplaced, and gives no vector, where another model answers. The bundled model is known, an embedder
    given in code is its caller's: those are not asked.
    """

    def __init__(self, embedder: Embedder, spaces: SpaceStore) -> None:
        self.embedder = embedder
        self._spaces = spaces
        self._recognised_at: float | None = None

    @property
    def enough_at_once(self) -> int | None:
        return self.embedder.enough_at_once

    async def space(self) -> EmbeddingSpace:
        return await self.embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        if not texts or self._known(kind):
            return await self.embedder.embed(texts, kind)
        space = await self.embedder.space()
        if not _asked(space):
            return await self.embedder.embed(texts, kind)
        if kind == "document":  # no call more
            both = await self.embedder.embed([*texts, *PROBES], kind)
            await self._compare(space, both.vectors[len(texts) :])
            return Embeddings(
                vectors=both.vectors[: len(texts)],
                tokens=both.tokens,
                truncated=tuple(at for at in both.truncated if at < len(texts)),
            )
        embedded, _ = await gather_all((self.embedder.embed(texts, kind), self._look(space)))  # no second round trip
        return embedded

    async def recognise(self, space: EmbeddingSpace) -> None:
        if _asked(space) and not self._known("document"):
            await self._look(space)

    def forget(self) -> None:
        self.embedder.forget()

    async def aclose(self) -> None:
        await self.embedder.aclose()

    def _known(self, kind: Literal["query", "document"]) -> bool:
        at = self._recognised_at
        return at is not None and asyncio.get_running_loop().time() < at + AGAIN_SECONDS[kind]

    async def _look(self, space: EmbeddingSpace) -> Embeddings:
        made = await self.embedder.embed(PROBES, "document")
        await self._compare(space, made.vectors)
        return made

    async def _compare(self, space: EmbeddingSpace, now: Vector) -> None:
        """Compare what the model made of `PROBES` with what it once made of them; the first time that is kept."""
        self._recognised_at = None
        before = await self._spaces.probes(space)
        if before is None and not await self._spaces.keep_probes(space, now):
            return  # the space is not bound yet
        alike = 1.0 if before is None else float(np.sum(before * now, axis=1).min())
        if alike < LEAST_ALIKE:
            self.embedder.forget()  # what it made of questions since
            raise ModelReplaced(
                f"{space.model} embeds otherwise than when the store was embedded with it (a cosine of {alike:.2f} for"
                f" the same text, {LEAST_ALIKE} at least): another model answers by that name. Have the endpoint serve"
                " the old one again, or change over to the new one, under a word of your own for it:"
                f" `hardwon reembed --model {space.model} --revision WORD`"
            )
        self._recognised_at = asyncio.get_running_loop().time()
