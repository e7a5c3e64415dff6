"""`query_for_task` among many patterns, against what cannot be saved: one embedding, one engine query, one fetch."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from uuid import UUID

import qdrant_edge as edge
import sqlalchemy as sa

from benchmarks.before import HERE, QUERY_WORKER, alternate, median_of
from benchmarks.materials import (
    AGENTS,
    TASKS,
    TECHNOLOGIES,
    InstantDocuments,
    InstantEmbedder,
    failure,
    texts,
    throwaway,
)
from benchmarks.rounds import Outcome, Timed, Times, interleaved, ms, timed
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.postgres.memory_tables import knowledge_staging, points
from knowledge.memory.query.search import CANDIDATES
from knowledge.models import SparseVector
from knowledge.ports import Progress
from knowledge.text.bm25 import document_vector, query_vector, term_counts
from knowledge.wiring.open import Knowledge
from orchestrator.observability.progress import Stages

GOAL = 1.25
GOAL_OF_BEFORE = 0.45
_CHUNK = 1_000
_WORDS = 24
_FEW_WORDS = 5
_MOST_ROWS = 32
_SHOWN = 5
_FETCH = (
    sa.select(points.c.id.label("point_id"), knowledge_staging)
    .join(knowledge_staging, knowledge_staging.c.pattern_id == points.c.pattern_id)
    .where(points.c.id == sa.any_(sa.bindparam("wanted", type_=sa.ARRAY(sa.UUID))))
)


async def fill(knowledge: Knowledge, situations: Sequence[str], progress: Progress | None = None) -> None:
    """Capture and embed texts as verified failures."""
    for start in range(0, len(situations), _CHUNK):
        chunk = situations[start : start + _CHUNK]
        await knowledge.capture.capture_all([failure(start + at, text) for at, text in enumerate(chunk)])
    await knowledge.checkpoints.process_all(progress=progress)


def question(situations: Sequence[str], number: int, side: str, *, size: int = _WORDS) -> str:
    """Return some words of a stored text, as a task would name them, and one that no other question has."""
    words = situations[number * 37 % len(situations)].split()
    return " ".join([*words[1 : 1 + size], f"{side}{number}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """The parts by hand, with nothing around them: no fields, no filter, lexical weights worked out beforehand."""

    knowledge: Knowledge
    shard: edge.EdgeShard

    async def ask(self, text: str, lexical: SparseVector, rows: int) -> int:
        """Embed, ask the engine for the nearest by sense and by words, fetch the first rows."""
        vector = (await self.knowledge.stores.embedder.embed([text], "query")).vectors[0]
        by_words = edge.SparseVector(list(lexical.indices), list(lexical.values))
        nearest = (
            edge.Query.Nearest(vector.tolist(), using="dense"),
            edge.Query.Nearest(by_words, using="lexical"),
        )
        tops = self.shard.query_batch(
            edge.QueryBatchRequest([edge.QueryRequest(limit=CANDIDATES, query=query) for query in nearest])
        )
        found = chain.from_iterable(zip_longest(*tops))
        wanted = list(islice(dict.fromkeys(UUID(str(each.id)) for each in found if each is not None), rows))
        async with self.knowledge.engine.connect() as connection:
            return len((await connection.execute(_FETCH, {"wanted": wanted})).all())


@asynccontextmanager
async def raw_engine(knowledge: Knowledge, situations: Sequence[str]) -> AsyncIterator[edge.EdgeShard]:
    """Give a bare shard that holds the same vectors under the ids the store knows; but for the few redacted texts."""
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    chosen = sa.select(points.c.id, knowledge_staging.c.failure_description).join(
        knowledge_staging, knowledge_staging.c.pattern_id == points.c.pattern_id
    )
    async with knowledge.engine.connect() as connection:
        ids = {row.failure_description: row.id for row in await connection.execute(chosen)}
    config = edge.EdgeConfig(
        vectors={"dense": edge.EdgeVectorParams(size=bound.space.dims, distance=edge.Distance.Cosine)},
        sparse_vectors={"lexical": edge.EdgeSparseVectorParams()},
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=10**9),
    )
    with tempfile.TemporaryDirectory(prefix="hardwon-raw-") as folder:
        shard = edge.EdgeShard.create(str(Path(folder) / "shard"), config)
        instant = InstantEmbedder(bound.space)
        for start in range(0, len(situations), _CHUNK):
            chunk = [text for text in situations[start : start + _CHUNK] if text in ids]
            vectors = (await instant.embed(chunk, "document")).vectors
            stored = [document_vector(term_counts(text), bound.mean_terms) for text in chunk]
            shard.update(
                edge.UpdateOperation.upsert_points(
                    [
                        edge.Point(
                            ids[text],
                            {
                                "dense": vector.tolist(),
                                "lexical": edge.SparseVector(list(lexical.indices), list(lexical.values)),
                            },
                            {},
                        )
                        for text, vector, lexical in zip(chunk, vectors, stored, strict=True)
                    ]
                )
            )
        shard.flush()
        try:
            yield shard
        finally:
            shard.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The measurements on one filled store."""

    knowledge: Knowledge
    raw: Raw
    situations: Sequence[str]
    size: int = _WORDS

    async def everything(self, *, rounds: int, each: int) -> Times:
        """Ask without fields and without threshold: the most candidates, the most rows."""

        async def ours(number: int) -> float:
            text = question(self.situations, number, "ours", size=self.size)
            return await timed(self.knowledge.queries.query_for_task(text, min_relevance=0))

        return await interleaved(ours, self._by_hand(_MOST_ROWS), rounds=rounds, each=each)

    async def as_orchestrators_ask(self, *, rounds: int, each: int) -> Times:
        """Ask for an agent's task with the shipped threshold."""

        async def ours(number: int) -> float:
            text = question(self.situations, number, "mine", size=self.size)
            fields = (AGENTS[number % 4], TASKS[number % 3], TECHNOLOGIES[number % 3])
            return await timed(self.knowledge.queries.query_for_task(text, *fields))

        return await interleaved(ours, self._by_hand(_SHOWN), rounds=rounds, each=each)

    def _by_hand(self, rows: int) -> Timed:
        async def raw(number: int) -> float:
            text = question(self.situations, number, f"raw{rows}x", size=self.size)
            counts = term_counts(text)
            lexical, _ = query_vector(counts, await self.knowledge.stores.spaces.statistics(list(counts)))
            return await timed(self.raw.ask(text, lexical, rows))

        return raw


async def measure(*, patterns: int, rounds: int, each: int, progress: Stages) -> list[Outcome]:
    """Return how long a query takes against its parts."""
    situations = list(islice(texts(), patterns))
    async with throwaway(InstantDocuments(LocalEmbedder())) as knowledge:
        await fill(knowledge, situations, progress.stage(f"Storing {patterns:,} patterns"))
        async with raw_engine(knowledge, situations) as shard:
            queries = Queries(knowledge=knowledge, raw=Raw(knowledge=knowledge, shard=shard), situations=situations)
            progress.stage("Asking")
            widest = await queries.everything(rounds=rounds, each=each)
            usual = await queries.as_orchestrators_ask(rounds=rounds, each=each)
            short = await replace(queries, size=_FEW_WORDS).as_orchestrators_ask(rounds=rounds, each=each)
    return [
        _outcome(f"query_for_task p50, {patterns:,} patterns, no fields, no threshold (32 rows)", widest),
        _outcome(f"query_for_task p50, {patterns:,} patterns, as an orchestrator asks (5 rows)", usual),
        _outcome(f"query_for_task p50, {patterns:,} patterns, the same in {_FEW_WORDS} words", short),
    ]


async def measure_before(before: Path, *, patterns: int, rounds: int, each: int) -> list[Outcome]:
    """Return the CPU of a query, with that of Postgres, against another checkout's, with an instant model."""
    arguments = (str(patterns), str(each))
    then, now = await alternate(QUERY_WORKER, [before, HERE], rounds=rounds, arguments=arguments)
    cpu = {name: (median_of(then, name), median_of(now, name)) for name in ("cpu", "own", "postgres")}
    return [
        Outcome(
            name=f"CPU of query_for_task / the same before, {patterns:,} patterns, instant embedder",
            ratio=cpu["cpu"][1] / cpu["cpu"][0],
            goal=GOAL_OF_BEFORE,
            at_most=True,
            ours=ms(cpu["cpu"][1]),
            raw=ms(cpu["cpu"][0]),
            note=f"of it Postgres {ms(cpu['postgres'][1])}, before {ms(cpu['postgres'][0])}",
        )
    ]


def _outcome(name: str, times: Times) -> Outcome:
    return Outcome(
        name=name,
        ratio=times.ratio,
        goal=GOAL,
        at_most=True,
        ours=ms(times.median_of(times.ours)),
        raw=ms(times.median_of(times.raw)),
        note=f"p95 ratio {times.ratio_p95:.2f}; raw = one embedding + one unfiltered engine query + one fetch",
    )
