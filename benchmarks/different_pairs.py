"""Pairs of texts from different groups of a corpus: those that a checkpoint would compare, and some at random.

A group holds all texts about one thing: linked reports, alerts of one name, failing tests of one program, reports about
one source file. Random pairs are easy to tell apart; so the nearest texts of other groups are taken as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bm25 import Bm25, Scores
from knowledge.memory.consolidation.decision import MAX_COMPARED
from knowledge.models import Vector
from orchestrator.evaluation.retrieval import read_jsonl

AT_LEAST = 1_000
"""Number of pairs of each kind: with none of them merged, the upper end of the 95 % interval is 0.37 %."""

_SEED = 20260115

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentPairs:
    """Pairs of positions in a list of texts, each once. `nearest`: by cosine or BM25. `random`: by a fixed seed."""

    nearest: Sequence[Pair]
    random: Sequence[Pair]


def read_groups(data: Path, name: str) -> Mapping[str, str]:
    """Return the group of each text of a set's corpus that is known to be about one thing. Raises InvalidInput."""
    folder = data / name
    links = [(row["a"], row["b"]) for row in read_jsonl(folder / "pairs.jsonl") if row["same"]]
    match name:
        case "gitbugs":
            texts, further = _read_bugs(folder)
        case "runbooks":
            texts, further = _read_alerts(folder)
        case "typecheck_reports":
            texts, further = _read_reports(folder)
        case _:
            further = [
                (row["failure_masked"], _key(row["pattern"])) for row in read_jsonl(folder / "all_failures.jsonl")
            ]
            texts = [text for text, _ in further]
    return _group(texts, [*links, *further])


def _read_bugs(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Read bugs that were fixed, each on its own: others may be duplicates that nobody marked."""
    bugs = {row["id"]: row for name in ("corpus", "queries") for row in read_jsonl(folder / f"{name}.jsonl")}
    links = [
        (bugs[row["query_id"]]["text"], bugs[relevant]["text"])
        for row in read_jsonl(folder / "qrels.jsonl")
        for relevant in row["relevant_ids"]
    ]
    return [bug["text"] for bug in bugs.values() if str(bug["resolution"]).casefold() == "fixed"], links


def _read_alerts(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    alerts = {row["id"]: _key(row["alert"]) for row in read_jsonl(folder / "provenance.jsonl")}
    links = [(row["problem"], alerts[row["id"]]) for row in read_jsonl(folder / "alerts" / "corpus.jsonl")]
    links += [(row["text"], alerts[row["id"]]) for row in read_jsonl(folder / "alerts" / "queries.jsonl")]
    texts = [text for text, _ in links]
    links += [
        (alerts[row["query_id"]], alerts[relevant])
        for row in read_jsonl(folder / "alerts" / "qrels.jsonl")
        for relevant in row["relevant_ids"]
    ]
    return texts, links


def _read_reports(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    texts = {row["id"]: row["text"] for name in ("corpus", "queries") for row in read_jsonl(folder / f"{name}.jsonl")}
    links = [
        (texts[row[side]], _key(row["file"]))
        for row in read_jsonl(folder / "provenance.jsonl")
        for side in ("doc_id", "query_id")
    ]
    return list(texts.values()), links


def _key(name: str) -> str:
    """Return a name that is no text of a set."""
    return f"\0{name}"


def _group(texts: Iterable[str], links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a representative of each text's group: texts are in one group if links connect them."""
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        while (above := parent.setdefault(text, text)) != text:
            parent[text] = parent[above]
            text = parent[text]
        return text

    for one, other in links:
        parent[root(one)] = root(other)
    return {text: root(text) for text in dict.fromkeys(texts)}


def draw_pairs(texts: Sequence[str], groups: Sequence[str], vectors: Vector) -> DifferentPairs:
    """Return pairs of texts of different groups: the nearest of each text, and random ones.

    As many are taken for each text as a checkpoint compares, or more until there are `AT_LEAST`.
    """
    numbers = np.unique(groups, return_inverse=True)[1]
    lexical = Bm25(texts)
    orders = []
    for at, text in enumerate(texts):
        other = numbers != numbers[at]
        orders += [(at, _order(scores, other)) for scores in (vectors @ vectors[at], lexical.scores(text))]
    nearest: set[Pair] = set()
    depth = 0
    while depth < len(texts) and (depth < MAX_COMPARED or len(nearest) < AT_LEAST):
        nearest.update(_order_pair(at, int(order[depth])) for at, order in orders if depth < len(order))
        depth += 1
    rng = np.random.default_rng(_SEED)
    random: set[Pair] = set()
    while len(random) < AT_LEAST:
        one, another = map(int, rng.integers(len(texts), size=2))
        if numbers[one] != numbers[another]:
            random.add(_order_pair(one, another))
    return DifferentPairs(nearest=sorted(nearest), random=sorted(random))


def _order(scores: Scores | Vector, allowed: np.typing.NDArray[np.bool_]) -> np.typing.NDArray[np.intp]:
    order = np.argsort(-scores, kind="stable")
    return order[allowed[order]]


def _order_pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
