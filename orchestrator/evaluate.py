"""How well finding again works, measured on folders of real data through the services that production uses."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from knowledge.errors import InvalidInput
from knowledge.models import CaptureOutcome, EntryType, NewEntry
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import Knowledge, open_knowledge
from orchestrator.progress import Stages

DEPTH = 10
_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalReport:
    """Over the queries that have a relevant record: share found at places 1, 3, 10, and the mean reciprocal rank."""

    queries: int
    documents: int
    hit_at_1: float
    hit_at_3: float
    hit_at_10: float
    mrr_at_10: float
    query_p50_ms: float


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file. Raises InvalidInput naming file and line."""
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except ValueError as error:
                        raise InvalidInput(f"{path}:{number}", f"is not JSON ({error})") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), f"cannot be read ({error})") from error


@contextmanager
def throwaway_home() -> Iterator[Path]:
    """Give an empty data directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="hardwon-", ignore_cleanup_errors=True) as home:
        if os.geteuid() == 0:
            os.chmod(home, 0o755)  # noqa: S103, PTH101 - as root Postgres runs as another user
        yield Path(home)


@asynccontextmanager
async def throwaway_knowledge(
    settings: KnowledgeSettings, embedder: Embedder | None = None
) -> AsyncIterator[Knowledge]:
    """Open empty embedded stores, whatever stores the settings name; the embedder is theirs unless one is given."""
    with throwaway_home() as home:
        apart = settings.model_copy(update={"home": home, "database_url": None, "qdrant_url": None, "api_url": None})
        async with open_knowledge(apart, embedder=embedder) as knowledge:
            yield knowledge


async def evaluate_retrieval(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    limit: int | None = None,
    progress: Stages | None = None,
) -> RetrievalReport:
    """Store `corpus.jsonl` as verified failures, ask `queries.jsonl` (at most `limit`), judge by `qrels.jsonl`."""
    places, times = await retrieval_places(folder, settings, limit=limit, progress=progress)
    found = list(places.values())

    def share(depth: int) -> float:
        return round(mean(place is not None and place <= depth for place in found), 4)

    return RetrievalReport(
        queries=len(found),
        documents=sum(1 for _ in read_jsonl(folder / "corpus.jsonl")),
        hit_at_1=share(1),
        hit_at_3=share(3),
        hit_at_10=share(10),
        mrr_at_10=round(mean(1 / place if place else 0 for place in found), 4),
        query_p50_ms=round(median(times), 2),
    )


async def retrieval_places(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    limit: int | None = None,
    progress: Stages | None = None,
    embedder: Embedder | None = None,
) -> tuple[Mapping[str, int | None], list[float]]:
    """Return the place (1..10, None if not found) of the first relevant record for each query, and the times in ms."""
    progress = progress or Stages()
    relevant = {row["query_id"]: set(row["relevant_ids"]) for row in read_jsonl(folder / "qrels.jsonl")}
    queries = [row for row in read_jsonl(folder / "queries.jsonl") if row["id"] in relevant][:limit]
    if not queries:
        raise InvalidInput(str(folder), "has no query with a relevant record")
    places: dict[str, int | None] = {}
    times: list[float] = []
    async with throwaway_knowledge(settings, embedder) as knowledge:
        await _store(knowledge, folder / "corpus.jsonl")
        await knowledge.checkpoints.process_all(progress=progress.stage("Embedding"))
        asking = progress.stage("Asking")
        for number, query in enumerate(queries, 1):
            began = time.perf_counter()
            found = await knowledge.queries.query_for_failure(query["text"], max_results=DEPTH, min_relevance=0)
            times.append((time.perf_counter() - began) * 1000)
            right = relevant[query["id"]]
            places[query["id"]] = next((at for at, p in enumerate(found, 1) if p.solution in right), None)
            if asking:
                asking(number, len(queries))
    return places, times


async def _store(knowledge: Knowledge, corpus: Path) -> None:
    """Store each record as one verified failure: its text is the situation, its id the resolution."""
    entries = [
        NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id="corpus",
            agent_type="evaluation",
            failure_description=row["text"],
            solution_steps=row["id"],
            success_verified=True,
        )
        for row in read_jsonl(corpus)
    ]
    for start in range(0, len(entries), _CHUNK):
        for answer in await knowledge.capture.capture_all(entries[start : start + _CHUNK]):
            if answer.outcome is CaptureOutcome.REFUSED:
                raise InvalidInput(f"{corpus}: {answer.field}", answer.error or "was refused")
