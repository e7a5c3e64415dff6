"""`python -m benchmarks.scale`: what stays bounded when a store grows: memory, the claim, the prune.

The engine maps its files and keeps buffers of its own; how much, a process that only upserts the same points shows.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from benchmarks.asked import at_least_one
from benchmarks.checkpointing import by_hand
from benchmarks.materials import InstantEmbedder, MovedClock, failure, texts, throwaway
from benchmarks.rounds import Outcome
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.ports import Progress, Selection
from knowledge.wiring.open import Knowledge
from orchestrator.cli.support.terminal import print_json, stages
from orchestrator.evaluation.retrieval import throwaway_home
from orchestrator.observability.logging import configure_logs
from orchestrator.observability.progress import Stages

MOST_GROWTH_MB = 150
_CHUNK = 1_000
_BATCH = 256
_DELETIONS_BY_DATE = 3
"""Points by expiry, entries by expiry, entries that were never resolved."""

_TWO_YEARS = timedelta(days=731)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What Postgres plans for a statement: the indexes it uses, and the tables it reads whole."""

    indexes: tuple[str, ...]
    whole_tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What was measured. Memory is anonymous and resident, in MB; the growth is the highest less that before."""

    entries: int
    capture_s: float
    checkpoint_s: float
    growth_mb: float
    engine_growth_mb: float
    claim: Plan
    prune_s: float
    pruned_entries: int
    pruned_points: int
    prune_plans: tuple[Plan, ...]
    left_in_index: int
    left_in_postgres: int

    def outcomes(self) -> list[Outcome]:
        """Return the figures with their goals."""
        beyond = self.growth_mb - self.engine_growth_mb
        whole = sum(len(plan.whole_tables) for plan in (self.claim, *self.prune_plans))
        used = sorted({index for plan in (self.claim, *self.prune_plans) for index in plan.indexes})
        return [
            Outcome(
                name=f"memory of a checkpoint of {self.entries:,} entries beyond the engine's, MB",
                ratio=beyond,
                goal=MOST_GROWTH_MB,
                at_most=True,
                ours=f"{self.growth_mb:.0f} MB",
                raw=f"{self.engine_growth_mb:.0f} MB",
                note=f"RssAnon; captured in {self.capture_s:.0f} s, embedded in {self.checkpoint_s:.0f} s",
            ),
            Outcome(
                name="tables read whole by the claim and the prune",
                ratio=whole,
                goal=0,
                at_most=True,
                ours=", ".join(used),
                raw="",
                note="EXPLAIN of the statements as sent; the claim by the partial index"
                if "ix_knowledge_staging_pending" in self.claim.indexes
                else "the claim does NOT use its partial index",
            ),
            Outcome(
                name=f"left after pruning {self.pruned_entries:,} entries and {self.pruned_points:,} points",
                ratio=self.left_in_index + self.left_in_postgres,
                goal=0,
                at_most=True,
                ours=f"{self.prune_s:.1f} s",
                raw="",
                note="both stores, by the indexed expiry",
            ),
        ]


def anonymous_mb() -> float:
    """Return the resident anonymous memory of this process. Linux only."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000


class _Highest:
    """The highest memory seen, told as a progress."""

    def __init__(self, shown: Progress | None) -> None:
        self._shown = shown
        gc.collect()
        self.before = self.highest = anonymous_mb()

    def __call__(self, done: int, total: int | None) -> None:
        self.highest = max(self.highest, anonymous_mb())
        if self._shown:
            self._shown(done, total)

    @property
    def growth(self) -> float:
        return self.highest - self.before


@contextmanager
def _statements(engine: AsyncEngine) -> Iterator[list[tuple[str, Any]]]:
    """Keep the statements sent meanwhile, with their parameters."""
    sent: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:  # noqa: FBT001
        sent.append((statement, parameters))

    sa.event.listen(engine.sync_engine, "before_cursor_execute", keep)
    try:
        yield sent
    finally:
        sa.event.remove(engine.sync_engine, "before_cursor_execute", keep)


@asynccontextmanager
async def _driver(engine: AsyncEngine) -> AsyncIterator[Any]:
    async with engine.connect() as connection:
        yield (await connection.get_raw_connection()).driver_connection


async def _plan(engine: AsyncEngine, statement: str, parameters: Sequence[Any]) -> Plan:
    async with _driver(engine) as connection:
        rows = await connection.fetch(f"EXPLAIN (FORMAT JSON) {statement}", *parameters)
    told = rows[0][0]  # SQLAlchemy has its connections decode JSON
    plan = (told if isinstance(told, list) else json.loads(told))[0]["Plan"]
    nodes = list(_nodes(plan))
    return Plan(
        indexes=tuple(sorted({node["Index Name"] for node in nodes if "Index Name" in node})),
        whole_tables=tuple(sorted({node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"})),
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from _nodes(part)


async def _capture(knowledge: Knowledge, entries: int, shown: Progress | None) -> None:
    stock = texts()
    for start in range(0, entries, _CHUNK):
        chunk = islice(stock, min(_CHUNK, entries - start))
        await knowledge.capture.capture_all([failure(start + at, text) for at, text in enumerate(chunk)])
        if shown:
            shown(start + _CHUNK, entries)


async def _claim_plan(knowledge: Knowledge) -> Plan:
    with _statements(knowledge.engine) as sent:
        claim = await knowledge.stores.entries.claim(Selection(), limit=_BATCH, lease=timedelta(seconds=60))
    await knowledge.stores.entries.release(claim)
    statement, parameters = sent[-1]
    return await _plan(knowledge.engine, statement, parameters)


async def measure(entries: int, *, progress: Stages) -> Scale:
    """Capture, embed and prune many entries."""
    clock = MovedClock()
    async with throwaway(InstantEmbedder(), clock=clock) as knowledge:
        began = time.perf_counter()
        await _capture(knowledge, entries, progress.stage(f"Capturing {entries:,} entries"))
        captured = time.perf_counter()
        claim = await _claim_plan(knowledge)
        memory = _Highest(progress.stage("Embedding them"))
        embedding = time.perf_counter()
        report = await knowledge.checkpoints.process_all(progress=memory)
        embedded = time.perf_counter()
        assert report.embedded == entries
        plans = await _prune_plans(knowledge)
        clock.move(_TWO_YEARS)
        progress.stage("Pruning them")
        pruning = time.perf_counter()
        pruned = await knowledge.pruning.prune()
        pruned_at = time.perf_counter()
        stats = await knowledge.stats()
    progress.stage("The engine alone, in a process of its own")
    return Scale(
        entries=entries,
        capture_s=round(captured - began, 1),
        checkpoint_s=round(embedded - embedding, 1),
        growth_mb=round(memory.growth, 1),
        engine_growth_mb=await asyncio.to_thread(_engine_growth, entries),
        claim=claim,
        prune_s=round(pruned_at - pruning, 1),
        pruned_entries=pruned.entries,
        pruned_points=pruned.points,
        prune_plans=plans,
        left_in_index=stats.points or 0,
        left_in_postgres=sum(stats.entries.values()) + stats.patterns,
    )


async def _prune_plans(knowledge: Knowledge) -> tuple[Plan, ...]:
    """Plan the deletions by date as sent on a day on which little expires; where all does, reading all is right."""
    with _statements(knowledge.engine) as sent:
        await knowledge.pruning.prune()
    seen: dict[str, Any] = {}
    for statement, parameters in sent:
        if "DELETE FROM" in statement and ("expires_at" in statement or "timestamp" in statement):
            seen.setdefault(statement, parameters)
    assert len(seen) == _DELETIONS_BY_DATE, "the prune is written in another way: see which statements are its own"
    return tuple([await _plan(knowledge.engine, statement, parameters) for statement, parameters in seen.items()])


def measure_apart(entries: int) -> Scale:
    """Measure in a process of its own: memory that another measurement left behind would hide growth."""
    command = [sys.executable, "-m", "benchmarks.scale", "--entries", str(entries)]
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True, timeout=7200).stdout)
    plans = tuple(Plan(**{name: tuple(found) for name, found in plan.items()}) for plan in told.pop("prune_plans"))
    claim = Plan(**{name: tuple(found) for name, found in told.pop("claim").items()})
    return Scale(**told, claim=claim, prune_plans=plans)


def _engine_growth(entries: int) -> float:
    """Return by how many MB a process grows that puts the same points into the engine and does nothing else."""
    command = [sys.executable, "-m", "benchmarks.scale", "--engine-alone", "--entries", str(entries)]
    told = subprocess.run(command, capture_output=True, check=True, text=True, timeout=3600)
    return float(told.stdout)


async def _engine_alone(entries: int) -> float:
    stock = texts()
    embedder = InstantEmbedder()
    with throwaway_home() as folder:
        index = QdrantEdgeIndex(folder / "raw")
        await index.ensure(await embedder.space())
        memory = _Highest(None)
        for start in range(0, entries, _BATCH):
            chunk = list(islice(stock, min(_BATCH, entries - start)))
            await by_hand(embedder, index, chunk, _BATCH, words=None)
            memory(start, None)
        await index.aclose()
    return memory.growth


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 0; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=at_least_one, default=100_000, help="(100,000)")
    parser.add_argument("--engine-alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    configure_logs()
    if given.engine_alone:
        print(asyncio.run(_engine_alone(given.entries)))
        return 0
    with stages(quiet=False) as progress:
        scale = asyncio.run(measure(given.entries, progress=progress))
    print_json(asdict(scale))
    return 0 if all(each.reached for each in scale.outcomes()) else 1


if __name__ == "__main__":
    sys.exit(main())
