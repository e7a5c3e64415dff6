"""A checkpoint against what it cannot do without: embedding the texts and putting the points into the engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from uuid import uuid4

import numpy as np
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from benchmarks.before import CHECKPOINT_WORKER, HERE, alternate, median_of
from benchmarks.materials import InstantEmbedder, failure, texts, throwaway
from benchmarks.rounds import Outcome, Times, timed
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.memory.checkpoint.service import CHECKPOINT_BATCH
from knowledge.models import EntryType, Point, PointId, SparseVector, View
from knowledge.ports import Embedder, VectorIndex
from knowledge.text.bm25 import DEFAULT_MEAN_TERMS, document_vector, term_counts
from knowledge.wiring.open import Knowledge
from orchestrator.evaluation.retrieval import throwaway_home
from orchestrator.observability.progress import Stages

GOAL_WITH_MODEL = 0.9
GOAL_INSTANT = 0.7
GOAL_OF_BEFORE = 1.8
GOAL_INSTANT_SHARE = 0.35
GOAL_WIDE_UPDATES = 1.2
GOAL_HOT = 0.8


def points_of(chunk: Sequence[str], lexical: Sequence[SparseVector], vectors: Sequence[object]) -> list[Point]:
    """Return points with the payload that ours carry."""
    now = datetime.now(UTC)
    return [
        Point(
            point_id=PointId(uuid4()),
            dense=vector,  # type: ignore[arg-type]
            lexical=words,
            workspace="default",
            entry_type=EntryType.FAILURE_SOLUTION,
            view=View.SITUATION,
            agent_type="coder",
            task_type="bugfix",
            technology="python",
            gate_type=None,
            embedded_at=now,
            expires_at=now + timedelta(days=365),
        )
        for _, words, vector in zip(chunk, lexical, vectors, strict=True)
    ]


def lexical_of(chunk: Sequence[str]) -> list[SparseVector]:
    """Return the words of texts as sparse vectors."""
    return [document_vector(term_counts(text), DEFAULT_MEAN_TERMS) for text in chunk]


async def by_hand(
    embedder: Embedder, index: VectorIndex, stock: Sequence[str], batch: int, *, words: list[SparseVector] | None
) -> None:
    """Embed and upsert batch by batch; the words are counted on the way unless given."""
    space = await embedder.space()
    for start in range(0, len(stock), batch):
        chunk = stock[start : start + batch]
        vectors = (await embedder.embed(chunk, "document")).vectors
        lexical = lexical_of(chunk) if words is None else words[start : start + batch]
        await index.upsert(space, points_of(chunk, lexical, list(vectors)))


_TABLE = """
    CREATE TABLE IF NOT EXISTS by_hand
        (id bigserial PRIMARY KEY, told text NOT NULL, leased timestamptz, embedded timestamptz)
"""
_CLAIM = sa.text("""
    UPDATE by_hand SET leased = now() WHERE id IN (
        SELECT id FROM by_hand WHERE leased IS NULL ORDER BY id LIMIT :batch FOR UPDATE SKIP LOCKED
    ) RETURNING id, told
""")
_KEEP = sa.text("INSERT INTO by_hand_points SELECT unnest(CAST(:ids AS uuid[])), unnest(CAST(:vectors AS bytea[]))")
_MARK = sa.text("UPDATE by_hand SET embedded = now() WHERE id = any(CAST(:ids AS bigint[]))")


async def prepare_by_hand(engine: AsyncEngine, stock: Sequence[str]) -> None:
    """Put texts into a table of their own, none of them embedded."""
    async with engine.begin() as connection:
        for statement in (
            _TABLE,
            "CREATE INDEX IF NOT EXISTS by_hand_waiting ON by_hand (id) WHERE leased IS NULL",
            "CREATE TABLE IF NOT EXISTS by_hand_points (id uuid PRIMARY KEY, vector bytea NOT NULL)",
        ):
            await connection.execute(sa.text(statement))
        await connection.execute(
            sa.text("INSERT INTO by_hand (told) SELECT unnest(CAST(:told AS text[]))"), {"told": stock}
        )


async def by_hand_from_postgres(embedder: Embedder, index: VectorIndex, engine: AsyncEngine, batch: int) -> None:
    """Claim, embed, upsert, keep the vectors and mark: the least that resumes after a kill, with nothing decided."""
    space = await embedder.space()
    while True:
        async with engine.begin() as connection:
            claimed = (await connection.execute(_CLAIM, {"batch": batch})).all()
        if not claimed:
            return
        told = [row.told for row in claimed]
        vectors = (await embedder.embed(told, "document")).vectors
        points = points_of(told, lexical_of(told), list(vectors))
        await index.upsert(space, points)
        kept = [vector.astype(np.float16).tobytes() for vector in vectors]
        async with engine.begin() as connection:
            await connection.execute(_KEEP, {"ids": [point.point_id for point in points], "vectors": kept})
            await connection.execute(_MARK, {"ids": [row.id for row in claimed]})


async def _ours(knowledge: Knowledge, stock: Sequence[str], numbers: Iterator[int]) -> float:
    await knowledge.capture.capture_all([failure(next(numbers), text) for text in stock])
    return await timed(knowledge.checkpoints.process_all())


def _batch(embedder: Embedder) -> int:
    """Return how many texts a checkpoint embeds at a time: the same size is what it is measured against."""
    return min(CHECKPOINT_BATCH, embedder.efficient_batch_size or sys.maxsize)


async def _rounds(
    embedder: Embedder, *, rounds: int, entries: int, words_too: bool, from_postgres: bool = False
) -> Times:
    """Measure checkpoints of `entries` against the same by hand, in turn; both of the same texts, new ones each round.

    Texts differ in length by more than what is measured; no embedder keeps the vectors of documents.
    """
    stock = texts()
    numbers = iter(range(10**9))
    times = Times(ours=[], raw=[])
    with throwaway_home() as folder:
        index = QdrantEdgeIndex(folder / "raw")
        async with throwaway(embedder) as knowledge:
            await index.ensure(await embedder.space())
            batch = _batch(embedder)
            for turn in range(rounds + 1):
                told = list(islice(stock, entries))
                words = None if words_too else lexical_of(told)
                if from_postgres:
                    await prepare_by_hand(knowledge.engine, told)
                took = [0.0, 0.0]
                for side in (0, 1) if turn % 2 else (1, 0):
                    if side == 0:
                        took[0] = await _ours(knowledge, told, numbers)
                    elif from_postgres:
                        took[1] = await timed(by_hand_from_postgres(embedder, index, knowledge.engine, batch))
                    else:
                        took[1] = await timed(by_hand(embedder, index, told, batch, words=words))
                if turn:  # the first one warms up
                    times.ours.append([took[0]])
                    times.raw.append([took[1]])
        await index.aclose()
    return times


async def measure(*, rounds: int, with_model: int, instant: int, progress: Stages) -> list[Outcome]:
    """Return the throughput of checkpoints against embed and upsert."""
    progress.stage("Checkpoints with the bundled model")
    model = await _rounds(LocalEmbedder(), rounds=rounds, entries=with_model, words_too=False)
    progress.stage("Checkpoints with an instant embedder")
    strict = await _rounds(InstantEmbedder(), rounds=rounds, entries=instant, words_too=False)
    fair = await _rounds(InstantEmbedder(), rounds=rounds, entries=instant, words_too=True)
    durable = await _rounds(InstantEmbedder(), rounds=rounds, entries=instant, words_too=True, from_postgres=True)
    return [
        _outcome("checkpoint throughput / embed + upsert, bundled model", model, with_model, GOAL_WITH_MODEL),
        _outcome("checkpoint throughput / embed + upsert, instant embedder", strict, instant, GOAL_INSTANT),
        _outcome("the same, words counted by hand as well", fair, instant, GOAL_INSTANT),
        _outcome("the same, claimed from and marked in Postgres by hand as well", durable, instant, GOAL_INSTANT),
    ]


def _outcome(name: str, times: Times, entries: int, goal: float) -> Outcome:
    ours, raw = (entries / median(took for (took,) in rounds) for rounds in (times.ours, times.raw))
    return Outcome(name=name, ratio=ours / raw, goal=goal, at_most=False, ours=f"{ours:,.0f}/s", raw=f"{raw:,.0f}/s")


async def measure_before(before: Path, *, entries: int, with_model: int, rounds: int) -> list[Outcome]:
    """Return the throughput of checkpoints, and their updates with an instant model, against another checkout's."""
    arguments = [str(with_model), "model"]
    slower, faster = await alternate(CHECKPOINT_WORKER, [before, HERE], rounds=rounds, arguments=arguments)
    was, made = (median_of(side[1:], "seconds") for side in (slower, faster))  # the first round warms up
    then, now = await alternate(CHECKPOINT_WORKER, [before, HERE], rounds=rounds, arguments=[str(entries)])

    def line(figure: str, name: str, goal: float, *, at_most: bool) -> Outcome:
        was, made = median_of(then[1:], figure), median_of(now[1:], figure)
        return Outcome(name=name, ratio=made, goal=goal, at_most=at_most, ours=f"{made:.2f}", raw=f"{was:.2f} before")

    return [
        Outcome(
            name=f"checkpoint of {with_model} entries, bundled model: throughput / the same before",
            ratio=was / made,
            goal=GOAL_OF_BEFORE,
            at_most=False,
            ours=f"{1 / made:,.0f}/s",
            raw=f"{1 / was:,.0f}/s",
        ),
        line("share", "checkpoint / raw embed + upsert, instant embedder", GOAL_INSTANT_SHARE, at_most=False),
        line("wide_updates", "updates of a wide row an entry", GOAL_WIDE_UPDATES, at_most=True),
        line("hot", "HOT share of all updates", GOAL_HOT, at_most=False),
    ]
