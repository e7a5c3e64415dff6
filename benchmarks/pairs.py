"""Pairs of texts of which somebody knows whether they tell of the same thing, and what is known of them beforehand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.halves import embed_all
from benchmarks.minimal_pairs import minimal_pairs
from benchmarks.resampling import Figures
from knowledge.memory.rules.similarity import Features, features, overlap
from knowledge.models import TermStatistics
from knowledge.ports import Embedder, Progress
from knowledge.text.bm25 import term_counts
from knowledge.text.profile import Rarity, profile
from orchestrator.evaluation.retrieval import read_jsonl

PAIR_SETS = ("gitbugs", "runbooks", "typecheck_reports", "test_failures")
MINIMAL = 500
"""Minimal pairs made of a set's texts, at most."""

FOLDS = 5
_SEED = 20260115


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSet:
    """A set's pairs as features. `folds`: for each pair the folds of its two texts; a group of texts is in one fold.

    Minimal pairs are all different; `kinds` says what was changed.
    """

    name: str
    features: Sequence[Features]
    same: Figures
    folds: Sequence[tuple[int, int]]
    minimal: Sequence[Features]
    minimal_folds: Sequence[tuple[int, int]]
    kinds: Sequence[str]


def statistics_of(texts: Iterable[str]) -> TermStatistics:
    """Return the term statistics a workspace would have that holds these situations."""
    distinct = list(dict.fromkeys(texts))
    frequencies = Counter(term for text in distinct for term in term_counts(text))
    return TermStatistics(documents=len(distinct), frequencies=frequencies)


async def load_pairs(data: Path, name: str, embedder: Embedder, progress: Progress | None = None) -> PairSet:
    """Read `pairs.jsonl` of a set, make its minimal pairs, and compare all of them. Raises InvalidInput."""
    rows = list(read_jsonl(data / name / "pairs.jsonl"))
    texts = list(dict.fromkeys(text for row in rows for text in (row["a"], row["b"])))
    made = minimal_pairs(texts)
    chosen = [made[at] for at in np.random.default_rng(_SEED).permutation(len(made))[:MINIMAL]]
    everything = list(dict.fromkeys([*texts, *(pair.changed for pair in chosen)]))
    vectors = dict(zip(everything, await embed_all(embedder, everything, progress), strict=True))
    rarity = Rarity(statistics_of(texts))
    profiles = {text: profile(text, rarity) for text in everything}

    def compared(a: str, b: str) -> Features:
        one, other = profiles[a], profiles[b]
        return features(one, other, overlap(one, other, float(vectors[a] @ vectors[b])))

    fold = _folds(texts, rows, _places(data / name))
    return PairSet(
        name=name,
        features=[compared(row["a"], row["b"]) for row in rows],
        same=np.array([float(row["same"]) for row in rows]),
        folds=[(fold[row["a"]], fold[row["b"]]) for row in rows],
        minimal=[compared(pair.text, pair.changed) for pair in chosen],
        minimal_folds=[(fold[pair.text], fold[pair.text]) for pair in chosen],
        kinds=[pair.kind for pair in chosen],
    )


def _folds(texts: Sequence[str], rows: Sequence[Mapping[str, object]], places: Mapping[str, str]) -> dict[str, int]:
    """Put texts that tell of the same thing, or come from one source file, into one fold."""
    group = {text: text for text in texts}

    def root(text: str) -> str:
        while group[text] != text:
            text = group[text] = group[group[text]]
        return text

    for row in rows:
        if row["same"]:
            group[root(str(row["a"]))] = root(str(row["b"]))
    for text, place in places.items():
        if text in group:
            group.setdefault(place, place)
            group[root(text)] = root(place)
    groups = sorted({root(text) for text in texts})
    drawn = np.random.default_rng(_SEED).permutation(len(groups)) % FOLDS
    fold = dict(zip(groups, map(int, drawn), strict=True))
    return {text: fold[root(text)] for text in texts}


def _places(folder: Path) -> dict[str, str]:
    """Return the source file that each text of a set comes from, where the set tells."""
    provenance = folder / "provenance.jsonl"
    if not provenance.is_file():
        return {}
    texts = {
        row["id"]: row["text"]
        for name in ("corpus.jsonl", "queries.jsonl")
        if (folder / name).is_file()
        for row in read_jsonl(folder / name)
    }
    places = {}
    for row in read_jsonl(provenance):
        for key in ("doc_id", "query_id"):
            if row.get("file") and row.get(key) in texts:
                places[texts[row[key]]] = json.dumps(["file", row["file"]])
    return places
