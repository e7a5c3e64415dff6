"""`python -m benchmarks.young`: when is nothing said in a store that knows little yet? (docs/evaluation.md).

Stores of a few texts of a labelled set, picked at random: once with one that a question is about among them, once
without. Unlike in a large corpus from which it is taken out, no word of it is known then.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import tables
from benchmarks.asked import at_least_one
from benchmarks.halves import Searched, search_through
from benchmarks.sets import DATA, SETS, load, missing
from hardwon.errors import BUNDLED_MODEL
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.retrieval import confidence as likeness
from knowledge.retrieval import confidence as silence
from knowledge.retrieval.calibration import default_calibration, relevance
from knowledge.retrieval.features import MAX_CANDIDATES, Candidate, features, read_query
from knowledge.retrieval.fusion import coverage
from knowledge.retrieval.term_profile import extract_terms
from knowledge.settings import KnowledgeSettings
from orchestrator.cli.support.terminal import stages
from orchestrator.observability.progress import Stages

SIZES = (2, 3, 4, 8, 12, 16, 30, 80)


@dataclass(frozen=True, slots=True)
class Said:
    """Whether something is said of a question: by the floor of relevance alone, and by the signs of silence."""

    by_relevance: bool
    by_signs: bool


def ask(store: Searched, query: str, vector: np.ndarray, floor: float) -> Said:
    """Ask a store as the services do."""
    halves = store.halves(query, vector)
    fused = halves.fused()
    best = np.argsort(-fused, kind="stable")[:MAX_CANDIDATES]
    documents = store.labelled.documents
    found = [
        Candidate(
            extract_terms(documents[at]), float(halves.cosine[at]), coverage(float(halves.bm25[at]), halves.weight)
        )
        for at in best
    ]
    told = features(read_query(query, store.statistics), found, store.mean_terms)
    likenesses = [likeness.likeness(each, likeness.BUNDLED_LIKENESS) for each in told]
    scores = [float(fused[at]) for at in best]
    relevant = max(likeness.to_fused_scale(likenesses, scores))
    confidence = silence.confidence(silence.signals(scores, likenesses, told), silence.BUNDLED_CONFIDENCE)
    return Said(
        relevance(relevant, default_calibration(BUNDLED_MODEL)) >= floor, confidence >= silence.BUNDLED_CONFIDENCE.level
    )


def part(whole: Searched, places: Sequence[int]) -> Searched:
    """Return a store of some documents of a set."""
    documents = [whole.labelled.documents[at] for at in places]
    return Searched(replace(whole.labelled, documents=documents), whole.documents[list(places)], whole.queries)


def rates(whole: Searched, size: int, *, questions: int, rng: np.random.Generator) -> np.ndarray | None:
    """Return (2, 2): shares of questions of which something is said; with and without a right text; by both rules.

    None for a set that is too small.
    """
    labelled, floor = whole.labelled, KnowledgeSettings.model_fields["task_relevance"].default
    told = []
    for at in rng.permutation(len(labelled.queries))[:questions]:
        right = sorted(labelled.relevant[at])
        others = rng.permutation(np.setdiff1d(np.arange(len(labelled.documents)), right))[:size]
        if len(others) < size:
            return None
        stores = ([*others[1:], right[0]], list(others))
        said = [ask(part(whole, places), labelled.queries[at], whole.queries[at], floor) for places in stores]
        told.append([[each.by_relevance, each.by_signs] for each in said])
    mean: np.ndarray = np.array(told, dtype=np.float64).mean(axis=0)
    return mean


async def measure(questions: int, seed: int, progress: Stages) -> str:
    """Return the table: a row a size, means over the sets."""
    rng = np.random.default_rng(seed)
    embedder = LocalEmbedder()
    found: dict[int, list[np.ndarray]] = {size: [] for size in SIZES}
    try:
        for name in SETS:
            progress.stage(name)
            whole = await search_through(embedder, load(DATA / name, name), progress.stage(name))
            for size in SIZES:
                if (told := rates(whole, size, questions=questions, rng=rng)) is not None:
                    found[size].append(told)
    finally:
        await embedder.aclose()
    head = ["patterns", "answered: relevance", "answered: signs", "false: relevance", "false: signs", "sets"]
    rows = []
    for size, sets in found.items():
        mean = np.mean(sets, axis=0)
        rows.append([str(size), *(f"{mean[side, rule]:.2f}" for side in (0, 1) for rule in (0, 1)), str(len(sets))])
    return tables.table(head, rows)


def main() -> int:
    """Print the table, or put it into the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=at_least_one, default=100, help="of each set and size")
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--write", action="store_true", help="put the table into docs/evaluation.md")
    arguments = parser.parse_args()
    if said := missing(DATA):
        print(said, file=sys.stderr)
        return 1
    with stages(quiet=False) as progress:
        told = asyncio.run(measure(arguments.questions, arguments.seed, progress))
    if arguments.write:
        tables.put(tables.EVALUATION, "young", told)
    print(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
