"""What it costs to look for patterns that tell of the same: checkpoints with consolidation and without, in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count, islice
from typing import Literal

from benchmarks.materials import failure, texts, throwaway
from benchmarks.rounds import Outcome, timed
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.embedding_space import with_fingerprint
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import Embedder
from knowledge.wiring.open import Knowledge
from orchestrator.observability.progress import Stages

GOAL = 1.3
_CHUNK = 500


class Unmeasured(Embedder):
    """The bundled model under another name: one whose likeness nobody measured, so that only equal texts join."""

    def __init__(self) -> None:
        self._model = LocalEmbedder()

    @property
    def efficient_batch_size(self) -> int | None:
        """Return what is enough for the model."""
        return self._model.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        """Return the model's space, but for the name."""
        return with_fingerprint(replace(await self._model.space(), model="unmeasured", fingerprint=""))

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed by the model."""
        return await self._model.embed(texts, kind)

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()


async def measure(*, entries: int, progress: Stages) -> list[Outcome]:
    """Grow a store of each kind to so many entries, a chunk at a time in turn; compare the whole times."""
    told = progress.stage(f"Checkpoints of {entries:,} entries with and without consolidation")
    stock = texts()
    numbers = count()
    took = {"with": 0.0, "without": 0.0}
    async with AsyncExitStack() as stack:
        stores = {
            "with": await stack.enter_async_context(throwaway(LocalEmbedder())),
            "without": await stack.enter_async_context(throwaway(Unmeasured())),
        }
        for knowledge in stores.values():  # the first checkpoint loads and plans
            await _checkpoint(knowledge, list(islice(stock, 8)), numbers)
        for done in range(0, entries, _CHUNK):
            chunk = list(islice(stock, min(_CHUNK, entries - done)))
            for name in ("with", "without") if done // _CHUNK % 2 else ("without", "with"):
                took[name] += await _checkpoint(stores[name], chunk, numbers)
            if told:
                told(done + len(chunk), entries)
    return [
        Outcome(
            name=f"checkpoints of {entries:,} entries / the same without consolidation, bundled model",
            ratio=took["with"] / took["without"],
            goal=GOAL,
            at_most=True,
            ours=f"{took['with']:,.0f} s",
            raw=f"{took['without']:,.0f} s",
        )
    ]


async def _checkpoint(knowledge: Knowledge, chunk: Sequence[str], numbers: Iterator[int]) -> float:
    await knowledge.capture.capture_all([failure(next(numbers), text) for text in chunk])
    return await timed(knowledge.checkpoints.process_all())
