"""Evaluation of merging, on a folder of labelled pairs of situations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardwon.errors import InvalidInput
from knowledge.memory.consolidation.comparison import TextComparer
from knowledge.memory.rules.similarity import Judgement
from knowledge.models import CaptureOutcome, EntryType, NewEntry, Vector
from knowledge.settings import KnowledgeSettings
from knowledge.text.profile import ParsedText
from knowledge.wiring.open import Knowledge
from orchestrator.evaluation.retrieval import read_jsonl, throwaway_knowledge
from orchestrator.observability.progress import Stages

_CAPTURE_BATCH = 500
_EMBEDDING_BATCH = 64
_RESOLUTION = "as in every pair"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergingReport:
    """Over labelled pairs of situations whose resolutions are equal.

    `precision`, `recall`: of pairs merged automatically. `false_merge_rate`: share of the different pairs that was
    merged. `suggestion_*`: of pairs merged or suggested to a person. The precision of no pairs is 1.
    """

    pairs: int
    precision: float
    recall: float
    false_merge_rate: float
    suggestion_precision: float
    suggestion_recall: float


async def evaluate_merging(
    folder: Path, settings: KnowledgeSettings, *, progress: Stages | None = None
) -> MergingReport:
    """Capture the texts of `pairs.jsonl` ({a, b, same} a line) and judge each pair by the store's term statistics.

    Raises InvalidInput for a file of another form.
    """
    progress = progress or Stages()
    pairs = _read_pairs(folder / "pairs.jsonl")
    texts = list(dict.fromkeys(text for one, other, _ in pairs for text in (one, other)))
    async with throwaway_knowledge(settings) as knowledge:
        await _store(knowledge, texts, folder)
        await knowledge.checkpoints.process_all(progress=progress.stage("Embedding"))
        vectors = await _embed_texts(knowledge, texts)
        terms = sorted({term for text in texts for term in ParsedText(text).term_ids})
        statistics = await knowledge.stores.spaces.statistics(terms)
        comparing = TextComparer(statistics, (await knowledge.stores.embedder.space()).model)
    progress.stage("Comparing")
    judged = [
        (comparing.situations(one, other, float(vectors[one] @ vectors[other])), same) for one, other, same in pairs
    ]
    return _report(judged)


def _report(judged: Sequence[tuple[Judgement, bool]]) -> MergingReport:
    merged = [same for judgement, same in judged if judgement.same]
    proposed = [same for judgement, same in judged if judgement.likely]
    alike = sum(same for _, same in judged)
    return MergingReport(
        pairs=len(judged),
        precision=_share(sum(merged), len(merged), of_none=1.0),
        recall=_share(sum(merged), alike, of_none=0.0),
        false_merge_rate=_share(merged.count(False), len(judged) - alike, of_none=0.0),
        suggestion_precision=_share(sum(proposed), len(proposed), of_none=1.0),
        suggestion_recall=_share(sum(proposed), alike, of_none=0.0),
    )


def _share(part: int, whole: int, *, of_none: float) -> float:
    return round(part / whole, 4) if whole else of_none


def _read_pairs(path: Path) -> list[tuple[str, str, bool]]:
    pairs = [_parse_pair(path, number, row) for number, row in enumerate(read_jsonl(path), 1)]
    if not pairs:
        raise InvalidInput(str(path), "has no pair")
    return pairs


def _parse_pair(path: Path, number: int, row: Mapping[str, Any]) -> tuple[str, str, bool]:
    match row:
        case {"a": str(one), "b": str(other), "same": bool(same)} if one.strip() and other.strip():
            return one, other, same
        case _:
            raise InvalidInput(f"{path}, pair {number}", "needs two texts `a` and `b`, and `same`, true or false")


async def _store(knowledge: Knowledge, texts: Sequence[str], folder: Path) -> None:
    """Store each text as the situation of a verified failure."""
    entries = [
        NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id="pairs",
            agent_type="evaluation",
            failure_description=text,
            solution_steps=_RESOLUTION,
            success_verified=True,
        )
        for text in texts
    ]
    for start in range(0, len(entries), _CAPTURE_BATCH):
        for answer in await knowledge.capture.capture_all(entries[start : start + _CAPTURE_BATCH]):
            if answer.outcome is CaptureOutcome.REFUSED:
                raise InvalidInput(f"{folder / 'pairs.jsonl'}: {answer.field}", answer.error or "was refused")


async def _embed_texts(knowledge: Knowledge, texts: Sequence[str]) -> dict[str, Vector]:
    vectors: dict[str, Vector] = {}
    for start in range(0, len(texts), _EMBEDDING_BATCH):
        some = texts[start : start + _EMBEDDING_BATCH]
        vectors |= zip(some, (await knowledge.stores.embedder.embed(some, "document")).vectors, strict=True)
    return vectors
