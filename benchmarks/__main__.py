"""`python -m benchmarks`: how much hardwon costs over the parts that nobody can save (docs/performance.md).

Ratios in one run, measured in turn: they hold on another machine where milliseconds do not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks import (
    busy,
    capturing,
    checkpointing,
    consolidating,
    embedding,
    http,
    querying,
    redaction,
    scale,
    tables,
)
from benchmarks.asked import at_least_one
from benchmarks.rounds import Outcome
from orchestrator.cli.support.terminal import print_json, stages
from orchestrator.observability.logging import configure_logs
from orchestrator.observability.progress import Stages

PARTS = ("busy", "before", "embedding", "query", "capture", "http", "redaction", "checkpoint", "consolidation", "scale")
_SMALL_SCALE = 20_000
_FULL_SCALE = 100_000
_HTTP_PATTERNS = 2_000
_SMALL_CONSOLIDATION = 2_000
_FULL_CONSOLIDATION = 10_000


async def measure(parts: Sequence[str], *, patterns: int, full: bool, progress: Stages) -> list[Outcome]:
    """Measure the parts named, one after the other."""
    entries = _FULL_SCALE if full else _SMALL_SCALE
    consolidated = _FULL_CONSOLIDATION if full else _SMALL_CONSOLIDATION
    outcomes = await _measure_before(parts, patterns, progress)
    if "embedding" in parts:
        outcomes += await embedding.measure(progress)
    if "query" in parts:
        outcomes += await querying.measure(patterns=patterns, rounds=5, each=30, progress=progress)
    if "capture" in parts:
        outcomes += await capturing.measure(rounds=5, each=60, progress=progress)
    if "http" in parts:
        outcomes += await http.measure(patterns=_HTTP_PATTERNS, rounds=5, each=60, progress=progress)
    if "redaction" in parts:
        outcomes += redaction.measure(progress)
    if "checkpoint" in parts:
        outcomes += await checkpointing.measure(rounds=5, with_model=512, instant=1024, progress=progress)
    if "consolidation" in parts:
        outcomes += await consolidating.measure(entries=consolidated, progress=progress)
    if "scale" in parts:
        progress.stage(f"At scale, {entries:,} entries, in a process of its own")
        outcomes += scale.all_outcomes(await asyncio.to_thread(scale.measure_apart, [entries]))
    return outcomes


async def _measure_before(parts: Sequence[str], patterns: int, progress: Stages) -> list[Outcome]:
    """Measure the parts named that run in turn with the same in a worktree of the commit before."""
    outcomes: list[Outcome] = []
    if "busy" in parts:
        outcomes += await busy.measure(progress)
    if "before" in parts:
        with busy.checkouts() as (_, before):
            progress.stage("Queries, in turn with those of the commit before")
            outcomes += await querying.measure_before(before.root, patterns=patterns, rounds=7, each=120)
            progress.stage("Checkpoints, in turn with those of the commit before")
            outcomes += await checkpointing.measure_before(before.root, entries=1024, with_model=512, rounds=6)
    return outcomes


def rendered(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    rows = [
        [
            each.name,
            f"{each.ratio:.2f}",
            f"{'≤' if each.at_most else '≥'} {each.goal:g}",
            "reached" if each.reached else "**missed**",
            each.ours,
            each.raw,
            each.note,
        ]
        for each in outcomes
    ]
    return tables.table(["what", "measured", "goal", "", "ours", "raw", "note"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 0; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--part", dest="parts", action="append", choices=PARTS, help="only this one; may be repeated")
    parser.add_argument("--patterns", type=at_least_one, default=10_000, help="in the store that is queried (10,000)")
    parser.add_argument(
        "--full", action="store_true", help=f"{_FULL_SCALE:,} entries at scale, {_FULL_CONSOLIDATION:,} consolidated"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    given = parser.parse_args(arguments)
    configure_logs()
    with stages(quiet=False) as progress:
        measured = measure(given.parts or PARTS, patterns=given.patterns, full=given.full, progress=progress)
        outcomes = asyncio.run(measured)
    if given.json:
        print_json([asdict(each) | {"reached": each.reached} for each in outcomes])
    else:
        print(rendered(outcomes))
    if given.write:
        tables.put(tables.PERFORMANCE, "bench", rendered(outcomes))
    return 0 if all(each.reached for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
