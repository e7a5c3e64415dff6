"""`python -m benchmarks.scale N ...`: what each operation costs in a store of N entries, beside one of 10,000.

A store is filled by COPY (`benchmarks.filling`), and a part of it is captured and embedded for real. The index is the
embedded engine and, where HARDWON_TEST_QDRANT_URL names one, a Qdrant server. Each size runs in a process of its own:
memory that another left behind would hide growth.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import numpy as np
import sqlalchemy as sa

from benchmarks import tables
from benchmarks.asked import at_least_one
from benchmarks.filling import SMALL_TENANT, Seed, fill
from benchmarks.materials import AGENTS, TASKS, TECHNOLOGIES, InstantEmbedder, MovedClock, failure, texts
from benchmarks.operations import Operations, read_rows
from benchmarks.processes import HighestMemory, cpu_seconds, qdrant_seconds, server_of
from benchmarks.rounds import Outcome, ms, timed
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory_tables import knowledge_staging, points, vectors
from knowledge.models import DEFAULT_WORKSPACE, Embeddings, PointFilter, PointId, SparseVector, Vector, View
from knowledge.runtime.instrumentation import SpanEnd, observe
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.cli.support.terminal import print_json, stages
from orchestrator.evaluation.retrieval import throwaway_home
from orchestrator.observability.logging import configure_logs
from orchestrator.observability.progress import Stages

BASE: Final = 10_000
MAX_GROWTH_MB: Final = 150
MAX_RATIO: Final = 1.3
MAX_STATS_S: Final = 0.5
MIN_RECALL: Final = 0.98
SERVER: Final = "HARDWON_TEST_QDRANT_URL"
_CHUNK: Final = 1_000
_MOST_REAL: Final = 20_000
"""Entries of a large store that are captured and embedded for real."""
_QUERIES: Final = 120
_WARM_UP: Final = 20
_SAMPLE: Final = 20
_TOP: Final = 10
_NEAREST: Final = 16
"""Vectors that a checkpoint has compared at a time."""
_PRUNED: Final = timedelta(days=65 + 7)
"""The oldest entries expire in 65 days, and so do a fiftieth of all a week later."""
_MAX_PAGE: Final = 6_000
"""Rows that an operation may read of a table for a page: the fit of hints reads 5,000 outcomes, others far less."""
_WHOLE: Final = frozenset({"job sweep", "prune", "frequent patterns", "alarms of keys", "stats"})
"""Operations that read more: a whole workspace's ids, page by page; the entries of the last day; the contexts of four
weeks (two); the latest 10,000 outcomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What was measured in a store of one size. Growth is of anonymous resident memory, in MB; CPU in seconds.

    `own_cpu`: of a query in this process, without the embedded engine; `reads`: the most rows that each operation read
    of a table, and its name.
    """

    entries: int
    index: str
    fill_s: float
    capture_per_s: float
    checkpoint_per_s: float
    checkpoint_growth: float
    reads: Mapping[str, tuple[int, str]]
    query_p50: float
    index_p50: float
    own_p50: float
    own_cpu: float
    engine_cpu: float
    postgres_cpu: float
    nearest_s: float
    recall: Mapping[str, float]
    stats_s: float
    searches: float
    list_s: float
    verify_s: float
    verify_growth: float
    sound: bool
    export_s: float
    export_growth: float
    export_mb: float
    prune_s: float
    pruned: int
    left: int
    postgres_mb: float
    index_mb: float

    @property
    def whole(self) -> dict[str, tuple[int, str]]:
        """The operations that read more of a table than a page."""
        return {name: (rows, of) for name, (rows, of) in self.reads.items() if rows > _MAX_PAGE and name not in _WHOLE}


def outcomes(scale: Scale, base: Scale) -> list[Outcome]:
    """Return the figures with their goals."""
    rest = scale.own_cpu + scale.postgres_cpu, base.own_cpu + base.postgres_cpu
    size = f"{scale.entries:,} entries ({scale.index})"
    grown = [
        Outcome(
            name=f"memory of {name} of {size} beyond that of {base.entries:,}, MB",
            ratio=getattr(scale, f"{name}_growth") - getattr(base, f"{name}_growth"),
            goal=MAX_GROWTH_MB,
            at_most=True,
            ours=f"{getattr(scale, f'{name}_growth'):.0f} MB",
            raw=f"{getattr(base, f'{name}_growth'):.0f} MB",
            note="RssAnon",
        )
        for name in ("checkpoint", "verify", "export")
    ]
    return [
        *grown,
        Outcome(
            name=f"CPU of a query without the index, {size} / {base.entries:,}",
            ratio=rest[0] / rest[1],
            goal=MAX_RATIO,
            at_most=True,
            ours=ms(rest[0]),
            raw=ms(rest[1]),
            note=f"this process and Postgres; the index {ms(scale.engine_cpu)} and {ms(base.engine_cpu)}",
        ),
        Outcome(
            name=f"stats of {size}, s",
            ratio=scale.stats_s,
            goal=MAX_STATS_S,
            at_most=True,
            ours=ms(scale.stats_s),
            raw=ms(base.stats_s),
        ),
        Outcome(
            name=f"operations on {size} that read more of a table than a page",
            ratio=len(scale.whole),
            goal=0,
            at_most=True,
            ours=", ".join(f"{name}: {rows:,} {of}" for name, (rows, of) in scale.whole.items()),
            raw="",
            note=f"of {len(scale.reads)}, by Postgres' own counters",
        ),
        Outcome(
            name=f"left after pruning {scale.pruned:,} entries, or told by verify",
            ratio=scale.left + (not scale.sound),
            goal=0,
            at_most=True,
            ours=f"{scale.prune_s:.1f} s",
            raw=f"{base.prune_s:.1f} s",
            note="expired in either store",
        ),
        Outcome(
            name=f"recall@{_TOP} of the dense list, the worst of {len(scale.recall)} filters",
            ratio=min(scale.recall.values()),
            goal=MIN_RECALL,
            at_most=False,
            ours=", ".join(f"{name} {found:.2f}" for name, found in scale.recall.items()),
            raw="exact",
        ),
    ]


class _Embedder(InstantEmbedder):
    """Hashes of documents; for a question the vector of the seed that it is about, so that there is something near."""

    def __init__(self) -> None:
        super().__init__()
        self.near: dict[str, Vector] = {}

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        embedded = await super().embed(texts, kind)
        if kind == "document" or not self.near.keys() >= set(texts):
            return embedded
        found = [self.near[text] for text in texts]
        return replace(embedded, vectors=_unit(np.stack(found) + 0.2 * embedded.vectors))


def _unit(rows: Vector) -> Vector:
    scaled: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


@dataclass(slots=True)
class _QueryTimes:
    """What queries took, by the spans: in all, waiting for the index, and of it the CPU of this process."""

    began: dict[str, tuple[float, float]] = field(default_factory=dict)
    searches: int = 0
    index: float = 0.0
    engine_cpu: float = 0.0

    def watch(self, name: str, _values: tuple[object, ...]) -> SpanEnd:
        began, cpu = time.perf_counter(), time.process_time()

        def end(_result: object, _error: BaseException | None) -> None:
            if name == "index":
                self.searches += 1
                self.index += time.perf_counter() - began
                self.engine_cpu += time.process_time() - cpu

        return end


@asynccontextmanager
async def _stores(embedder: _Embedder, clock: MovedClock, url: str | None) -> AsyncIterator[Knowledge]:
    with throwaway_home() as home:
        settings = KnowledgeSettings(home=home).model_copy(
            update={"database_url": None, "qdrant_url": url, "api_url": None}
        )
        async with open_knowledge(settings, embedder=embedder, clock=clock) as knowledge:
            yield knowledge
            if url is not None:
                await knowledge.stores.index.drop(await embedder.space())


async def measure(entries: int, *, url: str | None, progress: Stages) -> Scale:
    """Fill a store and measure each operation."""
    clock, embedder = MovedClock(), _Embedder()
    async with _stores(embedder, clock, url) as knowledge:
        run = _Run(knowledge, embedder, progress, remote=url is not None)
        real = min(_MOST_REAL, entries // 5)
        figures: dict[str, Any] = {"entries": entries, "index": "embedded engine" if url is None else "server"}
        figures["fill_s"] = await run.fill(entries - real)
        figures |= await run.learn(real)
        figures["reads"] = await run.read()
        figures |= await run.query()
        figures |= await run.recall()
        figures |= await run.list()
        figures |= await run.verify()
        figures |= await run.export()
        figures |= await run.disk()
        clock.move(_PRUNED)
        figures |= await run.prune()
    return Scale(**figures)


class _Run:
    """The stages of one measurement."""

    def __init__(self, knowledge: Knowledge, embedder: _Embedder, progress: Stages, *, remote: bool) -> None:
        self._knowledge = knowledge
        self._embedder = embedder
        self._progress = progress
        self._remote = remote
        self._seeds: list[Seed] = []

    async def fill(self, entries: int) -> float:
        """Fill by COPY; return the seconds."""
        shown = self._progress.stage(f"Filling {entries:,} entries by COPY")
        began = time.perf_counter()
        self._seeds = await fill(self._knowledge, entries, progress=shown)
        return round(time.perf_counter() - began, 1)

    async def learn(self, entries: int) -> dict[str, Any]:
        """Capture and embed for real."""
        shown = self._progress.stage(f"Capturing {entries:,} for real")
        stock = texts()
        began = time.perf_counter()
        for start in range(0, entries, _CHUNK):
            chunk = islice(stock, min(_CHUNK, entries - start))
            told = [failure(start + at, f"{text}\nfor real") for at, text in enumerate(chunk)]
            await self._knowledge.capture.capture_all([replace(each, task_id=f"R-{each.task_id}") for each in told])
            if shown:
                shown(start + _CHUNK, entries)
        captured = time.perf_counter()
        memory = HighestMemory(self._progress.stage("Embedding them"))
        embedding = time.perf_counter()
        report = await self._knowledge.checkpoints.process_all(progress=memory)
        seconds = time.perf_counter() - embedding
        assert report.embedded == entries, report
        return {
            "capture_per_s": round(entries / (captured - began)),
            "checkpoint_per_s": round(entries / seconds),
            "checkpoint_growth": round(memory.growth, 1),
        }

    async def read(self) -> dict[str, tuple[int, str]]:
        """Return the most rows that Postgres reads of a table for each operation."""
        operations = Operations(self._knowledge).table()
        shown = self._progress.stage(f"What Postgres reads for each of {len(operations)} operations")
        await self._knowledge.pruning.prune()  # the first one looks for profiles of before
        reads = {}
        for number, (name, operation) in enumerate(operations.items()):
            reads[name] = (await read_rows(self._knowledge, operation)).most
            if shown:
                shown(number, len(operations))
        return reads

    async def query(self) -> dict[str, Any]:
        """Ask as an orchestrator does."""
        self._progress.stage(f"{_QUERIES} queries")
        near = self._embedder.near
        server, asked = await server_of(self._knowledge), []
        spans, took = _QueryTimes(), []
        for number in range(_WARM_UP + _QUERIES):
            entry = self._seeds[number * 37 % len(self._seeds)].entry
            words = " ".join([*(entry.failure_description or "").split()[1:25], f"ask{number}"])
            near[words] = self._seeds[number * 37 % len(self._seeds)].vector
            asked.append((words, AGENTS[number % 4], TASKS[number % 3], entry.technology))
        ask = self._knowledge.queries.query_for_task
        for question in asked[:_WARM_UP]:
            await ask(*question)
        cpu, postgres, remote = time.process_time(), cpu_seconds(server), qdrant_seconds()
        waits: list[float] = []
        with observe(spans.watch):
            for question in asked[_WARM_UP:]:
                before = spans.index
                took.append(await timed(ask(*question)))
                waits.append(spans.index - before)
        cpu = (time.process_time() - cpu) / _QUERIES
        here = spans.engine_cpu / _QUERIES
        engine, after = here, qdrant_seconds()
        if self._remote and remote is not None and after is not None:
            engine = (after - remote) / _QUERIES
        return {
            "query_p50": median(took),
            "index_p50": median(waits),
            "own_p50": median([whole - wait for whole, wait in zip(took, waits, strict=True)]),
            "own_cpu": cpu - (0.0 if self._remote else here),
            "engine_cpu": engine,
            "postgres_cpu": (cpu_seconds(server) - postgres) / _QUERIES,
            "searches": spans.searches / _QUERIES,
            "nearest_s": await self._nearest(),
        }

    async def _nearest(self) -> float:
        """Return the seconds that the index takes for each entry that a checkpoint compares with what is near it."""
        bound = await self._knowledge.stores.spaces.bound()
        assert bound is not None
        vectors_ = _unit(np.stack([seed.vector for seed in self._seeds[:_NEAREST]]))
        where = PointFilter(
            workspace=DEFAULT_WORKSPACE, live_at=self._knowledge.stores.clock.now(), view=View.SITUATION
        )
        nearest = self._knowledge.stores.index.nearest
        seconds = [await timed(nearest(bound.space, list(vectors_), where, limit=_TOP, at_least=0.5)) for _ in range(3)]
        return median(seconds) / len(vectors_)

    async def recall(self) -> dict[str, Any]:
        """Return the share of the nearest points, by all vectors in Postgres, that the dense list has; by filter."""
        self._progress.stage("Recall against exact")
        bound = await self._knowledge.stores.spaces.bound()
        assert bound is not None
        step = max(1, len(self._seeds) // _SAMPLE)
        asked = _unit(np.stack([seed.vector for seed in self._seeds[::step][:_SAMPLE]]))
        asked = _unit(asked + 0.02 * np.random.default_rng(1).standard_normal(asked.shape, dtype=np.float32))
        filters: dict[str, dict[str, Any]] = {
            "no filter": {},
            "1 of 3": {"technology": TECHNOLOGIES[0]},
            "1 of 12": {"technology": TECHNOLOGIES[0], "agent_type": AGENTS[0]},
        }
        wanted = {name: (DEFAULT_WORKSPACE, fields) for name, fields in filters.items()}
        wanted["tenant of 10 %"] = (SMALL_TENANT, {})
        exact = await self._exact(asked, wanted)
        nothing = SparseVector(indices=(1,), values=(1.0,))
        found = {}
        for name, (workspace, fields) in wanted.items():
            where = PointFilter(workspace=workspace, live_at=self._knowledge.stores.clock.now(), **fields)
            shares = []
            for number, vector in enumerate(asked):
                hits = await self._knowledge.stores.index.search(bound.space, vector, nothing, where, limit=_TOP)
                best = sorted(hits, key=lambda hit: -hit.cosine)[:_TOP]
                shares.append(len({hit.point_id for hit in best} & exact[name][number]) / _TOP)
            found[name] = round(float(np.mean(shares)), 3)
        return {"recall": found}

    async def _exact(
        self, asked: Vector, wanted: Mapping[str, tuple[str, Mapping[str, Any]]]
    ) -> dict[str, list[set[PointId]]]:
        """Return the nearest points of each question under each filter, read page by page."""
        e, p, v = knowledge_staging.c, points.c, vectors.c
        page = (
            sa.select(p.id, p.workspace, v.vector, e.technology, e.agent_type)
            .join(vectors, v.point_id == p.id)
            .join(knowledge_staging, e.pattern_id == p.pattern_id)
            .order_by(p.id)
            .limit(20_000)
        )
        best: dict[str, list[list[tuple[float, PointId]]]] = {name: [[] for _ in asked] for name in wanted}
        after: PointId | None = None
        async with autocommit(self._knowledge.engine) as connection:
            while rows := (await connection.execute(page if after is None else page.where(p.id > after))).all():
                after = rows[-1].id
                stored = np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float16)
                likeness = asked @ stored.reshape(len(rows), -1).astype(np.float32).T
                for name, (workspace, fields) in wanted.items():
                    fits = [
                        row.workspace == workspace and all(getattr(row, key) == told for key, told in fields.items())
                        for row in rows
                    ]
                    some = np.flatnonzero(fits)
                    for number, scores in enumerate(likeness[:, some]):
                        top = np.argsort(-scores)[:_TOP]
                        merged = best[name][number] + [(float(scores[at]), rows[some[at]].id) for at in top]
                        best[name][number] = sorted(merged, key=lambda each: -each[0])[:_TOP]
        return {name: [{point for _, point in each} for each in lists] for name, lists in best.items()}

    async def list(self) -> dict[str, Any]:
        """Time the counts and pages of lists."""
        self._progress.stage("Stats and lists")
        knowledge, operations = self._knowledge, Operations(self._knowledge)
        pages = (lambda: knowledge.capture.unresolved(limit=20), operations.browse, operations.list_contexts)
        await knowledge.stats()
        return {
            "stats_s": median([await timed(knowledge.stats()) for _ in range(7)]),
            "list_s": max([median([await timed(page()) for _ in range(7)]) for page in pages]),
        }

    async def verify(self) -> dict[str, Any]:
        """Compare both stores."""
        memory = HighestMemory(self._progress.stage("Verifying"))
        began = time.perf_counter()
        report = await self._knowledge.upkeep.verify(progress=memory)
        seconds = round(time.perf_counter() - began, 1)
        return {"verify_s": seconds, "verify_growth": round(memory.growth, 1), "sound": report.sound}

    async def export(self) -> dict[str, Any]:
        """Export all workspaces."""
        memory = HighestMemory(None)
        shown = self._progress.stage("Exporting")
        began, size = time.perf_counter(), 0
        async for packed in self._knowledge.archives.export_archive(progress=shown):
            size += len(packed)
            memory(0, None)
        seconds = round(time.perf_counter() - began, 1)
        return {"export_s": seconds, "export_growth": round(memory.growth, 1), "export_mb": round(size / 1e6, 1)}

    async def disk(self) -> dict[str, Any]:
        """Measure what both stores take on disk."""
        async with autocommit(self._knowledge.engine) as connection:
            size = await connection.scalar(sa.text("SELECT pg_database_size(current_database())"))
        index = await asyncio.to_thread(_folder_size, self._knowledge.settings.home / "index")
        return {"postgres_mb": round((size or 0) / 1e6), "index_mb": round(index / 1e6)}

    async def prune(self) -> dict[str, Any]:
        """Prune what has expired by now; count what is left of it in either store."""
        self._progress.stage("Pruning")
        bound = await self._knowledge.stores.spaces.bound()
        assert bound is not None
        before = await self._knowledge.stores.index.count(bound.space, DEFAULT_WORKSPACE)
        began = time.perf_counter()
        report = await self._knowledge.pruning.prune()
        seconds = time.perf_counter() - began
        after = await self._knowledge.stores.index.count(bound.space, DEFAULT_WORKSPACE)
        now, ours = self._knowledge.stores.clock.now(), knowledge_staging.c.workspace == DEFAULT_WORKSPACE
        expired = sa.select(sa.func.count()).where(ours, knowledge_staging.c.expires_at <= now)
        async with autocommit(self._knowledge.engine) as connection:
            left = await connection.scalar(expired) or 0
        return {
            "prune_s": round(seconds, 2),
            "pruned": report.entries,
            "left": left + abs(before - after - report.points),
        }


def _folder_size(folder: Path) -> int:
    # what is allocated: the engine's files have holes
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0


def measure_apart(sizes: Sequence[int]) -> list[Scale]:
    """Measure 10,000 entries and each of these sizes, with each index, in a process each."""
    urls = [None, *([os.environ[SERVER]] if os.environ.get(SERVER) else [])]
    found = []
    for entries in dict.fromkeys((BASE, *sizes)):
        for url in urls:
            command = [
                sys.executable,
                "-m",
                "benchmarks.scale",
                "--alone",
                *(["--server"] if url else []),
                str(entries),
            ]
            told = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=3 * 3600).stdout
            read = json.loads(told)
            found.append(Scale(**read | {"reads": {name: tuple(most) for name, most in read["reads"].items()}}))
    return found


def all_outcomes(scales: Sequence[Scale]) -> list[Outcome]:
    """Return the outcomes of each size against 10,000 with the same index."""
    bases = {scale.index: scale for scale in scales if scale.entries == BASE}
    return [each for scale in scales if scale.entries != BASE for each in outcomes(scale, bases[scale.index])]


def rendered(scales: Sequence[Scale]) -> str:
    """Return the figures as a Markdown table, a column a size and index."""
    rows = [
        ["filled by COPY, s", *(f"{each.fill_s:,.0f}" for each in scales)],
        ["captures a second, in batches of 1,000", *(f"{each.capture_per_s:,.0f}" for each in scales)],
        ["entries embedded a second, instant embedder", *(f"{each.checkpoint_per_s:,.0f}" for each in scales)],
        ["query p50, ms", *(f"{each.query_p50 * 1000:.1f}" for each in scales)],
        ["searches of the index for a query", *(f"{each.searches:.2f}" for each in scales)],
        ["of it the index, ms", *(f"{each.index_p50 * 1000:.1f}" for each in scales)],
        ["CPU of a query: the index, ms", *(f"{each.engine_cpu * 1000:.1f}" for each in scales)],
        ["CPU of a query: this process without it, ms", *(f"{each.own_cpu * 1000:.1f}" for each in scales)],
        ["CPU of a query: Postgres, ms", *(f"{each.postgres_cpu * 1000:.1f}" for each in scales)],
        [
            "the index for each entry that a checkpoint compares, ms",
            *(f"{each.nearest_s * 1000:.1f}" for each in scales),
        ],
        *(
            [f"recall@{_TOP} of the dense list, {name}", *(f"{each.recall[name]:.2f}" for each in scales)]
            for name in scales[0].recall
        ),
        ["stats, ms", *(f"{each.stats_s * 1000:.0f}" for each in scales)],
        ["a page of a list, the slowest of three, ms", *(f"{each.list_s * 1000:.1f}" for each in scales)],
        ["most rows of a table read for a page", *(_most_read(each) for each in scales)],
        ["prune, s", *(f"{each.prune_s:.1f} ({each.pruned:,} entries)" for each in scales)],
        ["verify, s", *(f"{each.verify_s:,.0f}" for each in scales)],
        ["export, s", *(f"{each.export_s:,.0f} ({each.export_mb:,.0f} MB)" for each in scales)],
        ["memory: checkpoint, verify, export, MB", *(_grown(each) for each in scales)],
        ["disk: Postgres, index, MB", *(f"{each.postgres_mb:,.0f}, {each.index_mb:,.0f}" for each in scales)],
    ]
    return tables.table(["", *(f"{each.entries:,}, {each.index}" for each in scales)], rows)


def _most_read(scale: Scale) -> str:
    rows, table, name = max((*most, name) for name, most in scale.reads.items() if name not in _WHOLE)
    return f"{rows:,} ({table}, {name})"


def _grown(scale: Scale) -> str:
    return f"{scale.checkpoint_growth:.0f}, {scale.verify_growth:.0f}, {scale.export_growth:.0f}"


@contextmanager
def _progress() -> Iterator[Stages]:
    with stages(quiet=False) as progress:
        yield progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 0; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=at_least_one, default=[100_000], help="entries (100,000)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    configure_logs()
    if given.alone:
        url = os.environ[SERVER] if given.server else None
        with _progress() as progress:
            print_json(asdict(asyncio.run(measure(given.sizes[0], url=url, progress=progress))))
        return 0
    scales = measure_apart(given.sizes)
    reached = all_outcomes(scales)
    if given.json:
        print_json({"sizes": [asdict(each) for each in scales], "outcomes": [asdict(each) for each in reached]})
    else:
        print(rendered(scales))
        for each in reached:
            verdict = "reached" if each.reached else "MISSED"
            print(f"{verdict}: {each.name}: {each.ratio:.2f} of {each.goal:g}; {each.ours}")
    if given.write:
        tables.put(tables.PERFORMANCE, "scale", rendered(scales))
    return 0 if all(each.reached for each in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
