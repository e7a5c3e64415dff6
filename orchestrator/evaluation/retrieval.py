"""Evaluation of retrieval and abstention, on folders of real data through the services of production."""

from __future__ import annotations

import json
import os
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from hardwon.errors import InvalidInput
from knowledge.models import CaptureOutcome, EntryId, EntryType, NewEntry
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.observability.progress import Stages

DEPTH = 10
_CAPTURE_BATCH = 500
_TEXT_FIELDS = ("id", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalReport:
    """Over the queries with a relevant record: share found within ranks 1, 3 and 10, and the mean reciprocal rank."""

    queries: int
    documents: int
    hit_at_1: float
    hit_at_3: float
    hit_at_10: float
    mrr_at_10: float
    query_p50_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionReport:
    """Each query run on the whole corpus and on the corpus without its relevant records, at the default thresholds.

    `false_injection_rate`: share with patterns though the relevant records were out; `false_silence_rate`: share
    without patterns though they were there. `auc`: of confidence as a classifier of the two.
    """

    queries: int
    auc: float
    false_injection_rate: float
    false_silence_rate: float


def read_jsonl(path: Path, *, texts: Sequence[str] = (), lists: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file, each with these texts and lists of texts.

    Raises InvalidInput naming file, line and field.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _parse_row(f"{path}:{number}", line, texts, lists)
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(str(path), "cannot be read: it is not UTF-8") from error


def _parse_row(place: str, line: str, texts: Sequence[str], lists: Sequence[str]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(place, f"is not JSON ({error})") from error
    if not isinstance(row, dict):
        raise InvalidInput(place, "is not a JSON object")
    for name in texts:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise InvalidInput(place, f"needs a text `{name}`")
    for name in lists:
        if not isinstance(row.get(name), list) or not all(isinstance(each, str) for each in row[name]):
            raise InvalidInput(place, f"needs a list of texts `{name}`")
    return row


def read_relevant(folder: Path) -> dict[str, frozenset[str]]:
    """Return the relevant records by query, from `qrels.jsonl`."""
    rows = read_jsonl(folder / "qrels.jsonl", texts=["query_id"], lists=["relevant_ids"])
    return {row["query_id"]: frozenset(row["relevant_ids"]) for row in rows}


@contextmanager
def throwaway_home() -> Iterator[Path]:
    """Yield an empty data directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="hardwon-", ignore_cleanup_errors=True) as home:
        if os.geteuid() == 0:
            os.chmod(home, 0o755)  # noqa: S103, PTH101 - as root Postgres runs as another user
        yield Path(home)


@asynccontextmanager
async def throwaway_knowledge(
    settings: KnowledgeSettings, embedder: Embedder | None = None
) -> AsyncIterator[Knowledge]:
    """Open empty embedded stores instead of those of the settings; the embedder is theirs unless one is passed."""
    with throwaway_home() as home:
        others = ("database_url", "qdrant_url", "api_url", "seal_keys", "seal_anew", "keep_heads", "backup_dir")
        local = settings.model_copy(update={"home": home, **dict.fromkeys(others)})
        async with open_knowledge(local, embedder=embedder) as knowledge:
            yield knowledge


async def evaluate_retrieval(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    limit: int | None = None,
    progress: Stages | None = None,
) -> RetrievalReport:
    """Store `corpus.jsonl` as verified failures, ask `queries.jsonl` (at most `limit`), judge by `qrels.jsonl`."""
    places, times = await rank_first_hits(folder, settings, limit=limit, progress=progress)
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


async def rank_first_hits(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    limit: int | None = None,
    progress: Stages | None = None,
    embedder: Embedder | None = None,
) -> tuple[Mapping[str, int | None], list[float]]:
    """Return the rank (1..10, None if not found) of the first relevant record for each query, and the times in ms."""
    progress = progress or Stages()
    relevant, queries = _read_queries(folder, limit)
    places: dict[str, int | None] = {}
    times: list[float] = []
    async with throwaway_knowledge(settings, embedder) as knowledge:
        entries = await _store(knowledge, folder / "corpus.jsonl")
        await knowledge.checkpoints.process_all(progress=progress.stage("Embedding"))
        asking = progress.stage("Asking")
        for number, query in enumerate(queries, 1):
            began = time.perf_counter()
            found = await knowledge.queries.query_for_failure(query["text"], max_results=DEPTH, min_relevance=0)
            times.append((time.perf_counter() - began) * 1000)
            right = {entries[record] for record in relevant[query["id"]] if record in entries}
            hits = (at for at, pattern in enumerate(found, 1) if not right.isdisjoint(pattern.entry_ids))
            places[query["id"]] = next(hits, None)
            if asking:
                asking(number, len(queries))
    return places, times


async def evaluate_abstention(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    limit: int | None = None,
    progress: Stages | None = None,
) -> AbstentionReport:
    """Run each query twice, the second time without its relevant records, and count when no pattern is returned."""
    progress = progress or Stages()
    relevant, queries = _read_queries(folder, limit)
    whole, without = [], []
    async with throwaway_knowledge(settings) as knowledge:
        entries = await _store(knowledge, folder / "corpus.jsonl")
        await knowledge.checkpoints.process_all(progress=progress.stage("Embedding"))
        asking = progress.stage("Asking")
        for number, query in enumerate(queries, 1):
            right = [entries[record] for record in relevant[query["id"]] if record in entries]
            hidden = [point for entry in right for point in await knowledge.stores.entries.sole_points(entry)]
            whole.append(await knowledge.queries.weigh_failure(query["text"]))
            without.append(await knowledge.queries.weigh_failure(query["text"], without=hidden))
            if asking:
                asking(number, len(queries))
    return AbstentionReport(
        queries=len(queries),
        auc=round(_auc([each.confidence for each in whole], [each.confidence for each in without]), 4),
        false_injection_rate=round(mean(bool(each.patterns) for each in without), 4),
        false_silence_rate=round(mean(not each.patterns for each in whole), 4),
    )


def _auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Return the probability that a right figure is above a wrong one, ties counting half."""
    ordered = sorted(wrong)
    return mean((bisect_left(ordered, each) + bisect_right(ordered, each)) / (2 * len(ordered)) for each in right)


def _read_queries(folder: Path, limit: int | None) -> tuple[dict[str, frozenset[str]], list[dict[str, Any]]]:
    """Return the relevant records by query, and the queries that have any."""
    relevant = read_relevant(folder)
    queries = [row for row in read_jsonl(folder / "queries.jsonl", texts=_TEXT_FIELDS) if row["id"] in relevant][:limit]
    records = {row["id"] for row in read_jsonl(folder / "corpus.jsonl", texts=_TEXT_FIELDS)}
    if all(records.isdisjoint(relevant[row["id"]]) for row in queries):
        raise InvalidInput(
            str(folder), "has no query with a relevant record: `qrels.jsonl` names none of `corpus.jsonl`"
        )
    return relevant, queries


async def _store(knowledge: Knowledge, corpus: Path) -> dict[str, EntryId]:
    """Store each record as a verified failure: its text is the situation, its id the resolution. Return the entries."""
    stored: dict[str, EntryId] = {}
    entries = [
        NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id="corpus",
            agent_type="evaluation",
            failure_description=row["text"],
            solution_steps=row["id"],
            success_verified=True,
        )
        for row in read_jsonl(corpus, texts=_TEXT_FIELDS)
    ]
    for start in range(0, len(entries), _CAPTURE_BATCH):
        chunk = entries[start : start + _CAPTURE_BATCH]
        for entry, answer in zip(chunk, await knowledge.capture.capture_all(chunk), strict=True):
            if answer.outcome is CaptureOutcome.REFUSED or answer.entry_id is None:
                raise InvalidInput(f"{corpus}: {answer.field}", answer.error or "was refused")
            stored[str(entry.solution_steps)] = answer.entry_id
    return stored
