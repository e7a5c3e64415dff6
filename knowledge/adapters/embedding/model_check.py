"""Recognition of an embedding model by its vectors of a few texts: an endpoint may serve another model by that name.

The texts are unrelated, so their vectors also tell which cosine the model gives unrelated texts, by which its cosines
are scaled (`knowledge.retrieval.cosine_scale`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from hardwon.errors import (
    BUNDLED_MODEL,
    ENDPOINT_PROVIDER,
    LOCAL_PROVIDER,
    EmbedderRejected,
    ModelReplaced,
    TextRejected,
)
from knowledge.models import Embeddings, EmbeddingSpace, Vector
from knowledge.ports import Embedder, SpaceStore
from knowledge.runtime.scheduling import gather_all

PROBES = (
    "The build failed because a dependency could not be resolved.",
    "Reviewers asked for the error to be handled where it is raised.",
    "How long are backups kept, and who may restore them?",
)
"""The probe texts. Not to be changed: stores keep the vectors of these."""

MIN_COSINE = 0.98
"""Ours: one model in 32 bits and in 8 gives vectors of a cosine of 0.993, two models next to none."""

AGAIN_SECONDS: Mapping[Literal["query", "document"], float] = {"query": 3600.0, "document": 60.0}
"""Time for which a model counts as recognised; ours. Documents are stored with the wrong vectors, queries are not."""


def _needs_probing(space: EmbeddingSpace) -> bool:
    return space.provider == ENDPOINT_PROVIDER or (space.provider == LOCAL_PROVIDER and space.model != BUNDLED_MODEL)


class RecognisingEmbedder(Embedder):
    """Embeds, and compares the model's vectors of `PROBES` with the stored ones, at first and from time to time.

    Raises ModelReplaced, and gives no vector, if another model answers. Not for the bundled model, whose files are
    known, nor for an embedder given in code, which is its caller's business.
    """

    def __init__(self, embedder: Embedder, spaces: SpaceStore) -> None:
        self.embedder = embedder
        self._spaces = spaces
        self._recognised_at: float | None = None

    @property
    def efficient_batch_size(self) -> int | None:
        return self.embedder.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        return await self.embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        if not texts or self._is_recognised(kind):
            return await self.embedder.embed(texts, kind)
        space = await self.embedder.space()
        if not _needs_probing(space):
            return await self.embedder.embed(texts, kind)
        if kind == "document":  # in the same call
            try:
                both = await self.embedder.embed([*texts, *PROBES], kind)
            except TextRejected:
                await self._probe(space)  # the accepted ones cost nothing again
                return await self.embedder.embed(texts, kind)
            await self._compare(space, both.vectors[len(texts) :])
            return Embeddings(
                vectors=both.vectors[: len(texts)],
                tokens=both.tokens,
                truncated=tuple(at for at in both.truncated if at < len(texts)),
            )
        embedded, _ = await gather_all((self.embedder.embed(texts, kind), self._probe(space)))  # concurrently
        return embedded

    async def recognise(self, space: EmbeddingSpace) -> None:
        if _needs_probing(space) and not self._is_recognised("document"):
            await self._probe(space)

    def forget(self) -> None:
        self.embedder.forget()

    async def aclose(self) -> None:
        await self.embedder.aclose()

    def _is_recognised(self, kind: Literal["query", "document"]) -> bool:
        at = self._recognised_at
        return at is not None and asyncio.get_running_loop().time() < at + AGAIN_SECONDS[kind]

    async def _probe(self, space: EmbeddingSpace) -> Embeddings:
        try:
            probed = await self.embedder.embed(PROBES, "document")
        except TextRejected as error:  # no entry may be refused for it
            raise EmbedderRejected(f"The texts by which the model is recognised are refused: {error}") from error
        await self._compare(space, probed.vectors)
        return probed

    async def _compare(self, space: EmbeddingSpace, now: Vector) -> None:
        """Compare the vectors of `PROBES` with the stored ones; the first time they are stored."""
        self._recognised_at = None
        before = await self._spaces.probes(space)
        if before is None and not await self._spaces.keep_probes(space, now):
            return  # the space is not bound yet
        alike = 1.0 if before is None else float(np.sum(before * now, axis=1).min())
        if alike < MIN_COSINE:
            self.embedder.forget()  # its cached queries
            raise ModelReplaced(
                f"{space.model} embeds otherwise than when the store was embedded with it (a cosine of {alike:.2f} for"
                f" the same text, {MIN_COSINE} at least): another model answers by that name. Have the endpoint serve"
                " the old one again, or change over to the new one, under a word of your own for it:"
                f" `hardwon reembed --model {space.model} --revision WORD`"
            )
        self._recognised_at = asyncio.get_running_loop().time()
