"""A worker of `benchmarks.before`: a checkpoint with an instant model, its CPU, and Postgres' count of updates.

`python before_checkpoint.py ENTRIES [model]`; each round embeds new entries, and the same texts by hand for comparison;
with `model` by the bundled model, and not by hand.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from itertools import count, islice

import sqlalchemy as sa

from benchmarks.checkpointing import by_hand
from benchmarks.materials import InstantEmbedder, failure, texts, throwaway
from benchmarks.rounds import timed
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.memory.checkpoint.service import CHECKPOINT_BATCH
from knowledge.ports import Embedder
from knowledge.wiring.open import Knowledge
from orchestrator.evaluation.retrieval import throwaway_home

_UPDATES = sa.text("""
    SELECT relname, n_tup_ins AS inserted, n_tup_upd AS updated, n_tup_hot_upd AS hot FROM pg_stat_user_tables
""")
_FLUSH = sa.text("SELECT pg_stat_force_next_flush()")


async def updates(knowledge: Knowledge) -> dict[str, tuple[int, int]]:
    """Return the number of updates of each table, and of those that touched no index."""
    async with AsyncExitStack() as stack:  # all at once: each backend reports what it did itself, idle ones late
        for _ in range(knowledge.engine.sync_engine.pool.checkedin()):  # type: ignore[attr-defined]
            connection = await stack.enter_async_context(knowledge.engine.connect())
            await connection.execute(_FLUSH)
    async with knowledge.engine.connect() as connection:
        return {row.relname: (row.updated, row.hot) for row in await connection.execute(_UPDATES)}


async def main(entries: int, *, with_model: bool) -> None:
    """Embed once for each line of input."""
    stock, numbers = texts(), count()
    embedder: Embedder = LocalEmbedder() if with_model else InstantEmbedder()
    with throwaway_home() as folder:
        index = QdrantEdgeIndex(folder / "raw")
        async with throwaway(embedder) as knowledge:
            await index.ensure(await embedder.space())
            print(json.dumps({"ready": 1}), flush=True)
            while await asyncio.to_thread(sys.stdin.readline):
                told = list(islice(stock, entries))
                await knowledge.capture.capture_all([failure(next(numbers), text) for text in told])
                before = await updates(knowledge)
                own = time.process_time()
                seconds = await timed(knowledge.checkpoints.process_all())
                own = time.process_time() - own
                raw = 0.0
                if not with_model:
                    raw = await timed(by_hand(embedder, index, told, CHECKPOINT_BATCH, words=None))
                after = await updates(knowledge)
                changed = {name: (after[name][0] - before[name][0], after[name][1] - before[name][1]) for name in after}
                figures = {
                    "seconds": seconds / entries,
                    "own": own / entries,
                    "raw": raw / entries,
                    "share": raw / seconds,
                    "wide_updates": changed["knowledge_staging"][0] / entries,
                    "updates": sum(updated for updated, _ in changed.values()) / entries,
                    "hot": sum(hot for _, hot in changed.values()) / max(1, sum(one for one, _ in changed.values())),
                }
                print(json.dumps(figures), flush=True)


asyncio.run(main(int(sys.argv[1]), with_model="model" in sys.argv[2:]))
