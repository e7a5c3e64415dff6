"""`python -m benchmarks.criteria`: what do the criteria in a question, and its words, bring beside its sense?

A log and pages are made up, so that what is right is known: nothing but a severity, a time, a line, a file or a code
tells what is asked for from the rest. Each question is searched three times: by sense alone, with words, and as
production does it, with the filters that its words ask for besides.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import median

import numpy as np

from benchmarks import tables
from benchmarks.resampling import estimate
from hardwon.models.documents import NewDocument, Passage, Severity
from knowledge.documents.access import Permission
from knowledge.documents.models import Query
from knowledge.documents.service import LOCAL
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.evaluation.retrieval import throwaway_knowledge
from orchestrator.observability.logging import configure_logs

SEED = 81
LINES, PAGES, EACH = 3_000, 300, 40
DEPTH = 5
WAYS = ("sense", "words too", "criteria too")
PATHS = ("/api/payment", "/api/orders", "/api/users", "/health")
PARTS = ("pool", "cache", "queue", "gateway", "scheduler")
_BEGAN = datetime(2025, 10, 19, 14, tzinfo=UTC)
_STEP = timedelta(seconds=3)


Right = Callable[[Passage], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A question, of which kind it is, and which passages meet it. `first`: one is looked for, not all there are."""

    kind: str
    question: str
    right: Right
    first: bool = True


def documents(rng: random.Random) -> dict[str, str]:
    """Return a log, and pages that differ in their codes alone."""
    names = ["INFO"] * 80 + ["WARN"] * 12 + ["ERROR"] * 7 + ["CRITICAL"]
    log = ""
    for number in range(LINES):
        when, took = _BEGAN + number * _STEP, rng.randrange(900)
        log += f"{when.isoformat()} {rng.choice(names)} GET {rng.choice(PATHS)} took {took} ms\n"
    pages = {}
    for number in range(PAGES):
        part, step = PARTS[number % len(PARTS)], rng.randrange(90)
        told = f"When the {part} reports ERR-{4000 + number}, restart step {step} of it."
        pages[f"page-{number}.md"] = f"# Trouble with the {part}\n\n{told}\n"
    return {"server.log": log, **pages}


def criteria(rng: random.Random) -> list[Criterion]:
    """Return questions of each kind."""
    asked: list[Criterion] = []
    for _ in range(EACH):
        path, page, line = rng.choice(PATHS), rng.randrange(PAGES), rng.randrange(1, LINES + 1)
        since = _BEGAN + rng.randrange(LINES * 7 // 10, LINES * 9 // 10) * _STEP
        part, code = PARTS[page % len(PARTS)], 4000 + page
        since_then = f"requests of {path} since {since:%Y-%m-%dT%H:%M:%SZ}"
        asked += [
            Criterion(kind="severity", question=f"CRITICAL entries of {path}", right=_critical, first=False),
            Criterion(kind="time", question=since_then, right=_since(since), first=False),
            Criterion(kind="line", question=f"What is on line {line} of server.log?", right=_with_line(line)),
            Criterion(kind="file", question=f"What does page-{page}.md say about the {part}?", right=_of(page)),
            Criterion(kind="code", question=f"What do I do when the {part} reports ERR-{code}?", right=_of(page)),
        ]
    return asked


def _critical(found: Passage) -> bool:
    return f" {Severity.CRITICAL} " in found.text


def _since(when: datetime) -> Right:
    return lambda found: found.timestamp is not None and found.timestamp >= when


def _with_line(line: int) -> Right:
    return lambda found: found.name == "server.log" and (found.line_start or 0) <= line <= (found.line_end or 0)


def _of(page: int) -> Right:
    return lambda found: found.uri == f"page-{page}.md"


async def measure(knowledge: Knowledge) -> tuple[Mapping[tuple[str, str], list[float]], Mapping[str, list[float]]]:
    """Return the share that is right, by kind and way, and the milliseconds, by way."""
    rng = random.Random(SEED)
    scope = await knowledge.documents.access.scope(LOCAL, "global", permission=Permission.WRITE)
    for uri, text in documents(rng).items():
        await knowledge.documents.library.add(NewDocument(uri=uri, content=text.encode()), scope)
    await knowledge.documents.indexing.run()
    right: dict[tuple[str, str], list[float]] = defaultdict(list)
    times: dict[str, list[float]] = defaultdict(list)
    whole = knowledge.documents.search
    for asked in criteria(rng):
        for way in rng.sample(WAYS, len(WAYS)):  # in turn, so that what else the machine does is of all of them
            search = replace(whole, vector_weight=1.0) if way == "sense" else whole
            query = Query(question=asked.question, k=DEPTH, filtering=way == "criteria too")
            began = time.perf_counter()
            found = (await search.search(query, scope)).passages
            times[way].append((time.perf_counter() - began) * 1000)
            meets = [asked.right(passage) for passage in found]
            right[asked.kind, way].append(float(meets[0]) if asked.first else sum(meets) / len(meets))
    return right, times


def rendered(right: Mapping[tuple[str, str], Sequence[float]], times: Mapping[str, Sequence[float]]) -> str:
    """Return the table."""
    kinds = {"severity": f"of the best {DEPTH}", "time": f"of the best {DEPTH}"}
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in right):
        found = [estimate([np.array(right[kind, way])]) for way in WAYS]
        told = [f"{each.mean:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in found]
        rows.append([f"{kind}: right, {kinds.get(kind, 'the first')}", *told])
    rows.append(["ms a search, p50", *(f"{median(times[way]):.1f}" for way in WAYS)])
    return tables.table(["", *WAYS], rows)


async def _measured() -> str:
    async with throwaway_knowledge(KnowledgeSettings()) as knowledge:
        return rendered(*await measure(knowledge))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.criteria", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/evaluation.md")
    given = parser.parse_args(arguments)
    configure_logs()
    text = asyncio.run(_measured())
    print(text)
    if given.write:
        tables.put(tables.EVALUATION, "criteria", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
