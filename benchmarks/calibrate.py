"""`python -m benchmarks.calibrate`: where the shipped constants of relevance and fusion come from (docs/evaluation.md).

Nothing is fitted here: the figures stand beside what ships. A right hit is a relevant text among the first ten, ranked
by the exact fused score over all documents of its set.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks import tables
from benchmarks.halves import Searched, embed_all, place_of, search_through
from benchmarks.resampling import Figures, auc, evenly
from benchmarks.sets import DATA, SETS, load, missing
from benchmarks.violations import violation_sets
from hardwon.errors import InvalidInput
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.memory.index.embedding_space import score_unrelated
from knowledge.ports import Embedder
from knowledge.retrieval import fusion
from knowledge.retrieval.calibration import BUNDLED
from orchestrator.cli.support.terminal import print_json, stages
from orchestrator.observability.logging import configure_logs
from orchestrator.observability.progress import Stages

SAMPLE = 400
"""Documents of a set that unrelated texts are drawn from: as many as a checkpoint looks at."""

MIDDLES = 150
"""Documents of a set whose middle part is asked for."""

DRAWN = 4_000
SATURATIONS = (2.0, 4.0, 8.0, 12.0)
_SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScores:
    """Fused scores of one set. `first` and `in_ten`: right texts at the first place, and among the first ten.

    `best` is the highest score of each query, `without` the highest where the relevant texts are taken out.
    """

    name: str
    in_ten: Figures
    first: Figures
    best: Figures
    without: Figures
    hit_at_1: float
    mrr_at_10: float


def score(searched: Searched) -> SetScores:
    """Ask every query of a set, by the exact fused score."""
    in_ten, first, best, without = [], [], [], []
    places: list[int | None] = []
    for halves, relevant in searched.asked():
        fused = halves.fused()
        place = place_of(fused, relevant)
        places.append(place)
        right = max(fused[document] for document in relevant)
        if place is not None:
            in_ten.append(right)
        if place == 1:
            first.append(right)
        best.append(fused.max())
        without.append(np.delete(fused, list(relevant)).max())
    return SetScores(
        name=searched.labelled.name,
        in_ten=np.array(in_ten),
        first=np.array(first),
        best=np.array(best),
        without=np.array(without),
        hit_at_1=mean(place == 1 for place in places),
        mrr_at_10=mean(1 / place if place else 0.0 for place in places),
    )


def unrelated(searched: Searched) -> float:
    """Return the median fused score of unrelated texts of a set, as a checkpoint measures it."""
    chosen = _some(len(searched.labelled.documents), SAMPLE)
    texts = [searched.labelled.documents[at] for at in chosen]
    return median(score_unrelated(texts, searched.documents[chosen], searched.mean_terms))


async def middles(searched: Searched, embedder: Embedder) -> Figures:
    """Return the fused score of texts against their own middle half: the recalibration that was rejected."""
    chosen = [at for at in _some(len(searched.labelled.documents), MIDDLES) if _middle(searched.labelled.documents[at])]
    parts = [_middle(searched.labelled.documents[at]) for at in chosen]
    vectors = await embed_all(embedder, parts)
    return np.array(
        [searched.halves(part, vector).fused()[at] for at, part, vector in zip(chosen, parts, vectors, strict=True)]
    )


def _middle(text: str) -> str:
    words = text.split()
    return " ".join(words[len(words) // 4 : len(words) - len(words) // 4])


def _some(count: int, at_most: int) -> list[int]:
    return [int(at) for at in np.random.default_rng(_SEED).permutation(count)[:at_most]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The marks of the scale of relevance."""

    unrelated: float
    right_90: float
    right_85: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFigures:
    """What one set says. `passing_*`: share of right first hits whose relevance reaches the shipped mark."""

    name: str
    unrelated: float
    right_10th: float
    first_10th: float
    first_median: float
    middle_10th: float
    passing_70: float
    passing_75: float
    auc: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturated:
    """What another saturation of the lexical half would give; the means of the hits are over the labelled sets."""

    saturation: float
    hit_at_1: float
    mrr_at_10: float
    right_90: float
    right_85: float
    passing_75: float
    auc: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """All figures."""

    shipped: Marks
    measured: Marks
    sets: Sequence[SetFigures]
    saturations: Sequence[Saturated]


def marks(scores: Sequence[SetScores], zero: float) -> Marks:
    """Return the marks, every set drawn from as often."""
    right_90, right_85 = np.percentile(evenly([each.in_ten for each in scores], DRAWN), [10, 15])
    return Marks(unrelated=zero, right_90=float(right_90), right_85=float(right_85))


def saturated(sets: Sequence[Searched], saturation: float) -> Saturated:
    """Score all sets with another saturation."""
    with _saturation(saturation):
        scores = [score(searched) for searched in sets]
    found = marks(scores, 0.0)
    labelled = [each for each in scores if each.name in SETS]
    return Saturated(
        saturation=saturation,
        hit_at_1=mean(each.hit_at_1 for each in labelled),
        mrr_at_10=mean(each.mrr_at_10 for each in labelled),
        right_90=found.right_90,
        right_85=found.right_85,
        passing_75=mean(float((each.first >= found.right_85).mean()) for each in scores),
        auc=mean(auc(each.best, each.without) for each in scores),
    )


@contextmanager
def _saturation(value: float) -> Iterator[None]:
    shipped = fusion.SATURATION
    fusion.SATURATION = value
    try:
        yield
    finally:
        fusion.SATURATION = shipped


async def calibrate(data: Path, progress: Stages) -> Calibrated:
    """Measure everything."""
    labelled = [load(data / name, name) for name in SETS]
    try:
        labelled += violation_sets()
    except InvalidInput as error:
        print(f"Without the linter's violations: {error}", file=sys.stderr)
    embedder = LocalEmbedder()
    try:
        sets = [await search_through(embedder, each, progress.stage(f"Embedding {each.name}")) for each in labelled]
        progress.stage("Scoring")
        scores = [score(searched) for searched in sets]
        zeros = [unrelated(searched) for searched in sets]
        figures = [
            _figures(each, zero, await middles(searched, embedder))
            for each, zero, searched in zip(scores, zeros, sets, strict=True)
        ]
    finally:
        await embedder.aclose()
    return Calibrated(
        shipped=Marks(unrelated=BUNDLED.unrelated, right_90=BUNDLED.right_90, right_85=BUNDLED.right_85),
        measured=marks(scores, mean(zeros)),
        sets=figures,
        saturations=[saturated(sets, value) for value in SATURATIONS],
    )


def _figures(scores: SetScores, zero: float, middle: Figures) -> SetFigures:
    return SetFigures(
        name=scores.name,
        unrelated=zero,
        right_10th=float(np.percentile(scores.in_ten, 10)),
        first_10th=float(np.percentile(scores.first, 10)),
        first_median=float(np.median(scores.first)),
        middle_10th=float(np.percentile(middle, 10)),
        passing_70=float((scores.first >= BUNDLED.right_90).mean()),
        passing_75=float((scores.first >= BUNDLED.right_85).mean()),
        auc=auc(scores.best, scores.without),
    )


def rendered(found: Calibrated) -> str:
    """Return the figures as Markdown tables."""
    three = tables.table(
        ["", "shipped", "measured"],
        [
            ["unrelated (relevance 0)", f"{found.shipped.unrelated:.2f}", f"{found.measured.unrelated:.3f}"],
            ["right_90 (relevance 0.70)", f"{found.shipped.right_90:.2f}", f"{found.measured.right_90:.3f}"],
            ["right_85 (relevance 0.75)", f"{found.shipped.right_85:.2f}", f"{found.measured.right_85:.3f}"],
        ],
    )
    head = ["set", "unrelated", "right p10", "first p10", "first p50", "own middle p10", "≥ 0.70", "≥ 0.75", "AUC"]
    by_set = tables.table(head, [[each.name, *_numbers(each)] for each in found.sets])
    head = ["SATURATION", "hit@1", "MRR@10", "right_90", "right_85", "first hits ≥ 0.75", "AUC"]
    saturations = tables.table(head, [[f"{each.saturation:g}", *_numbers(each)] for each in found.saturations])
    return f"{three}\n\n{by_set}\n\n{saturations}"


def _numbers(row: SetFigures | Saturated) -> list[str]:
    return [f"{value:.3f}" for name, value in asdict(row).items() if name not in {"name", "saturation"}]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help=f"the labelled sets ({DATA})")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evaluation.md")
    given = parser.parse_args(arguments)
    configure_logs()
    absent = missing(given.data)
    if absent:
        print(absent, file=sys.stderr)
        return 0
    with stages(quiet=False) as progress:
        found = asyncio.run(calibrate(given.data, progress))
    if given.json:
        print_json(found)
    else:
        print(rendered(found))
    if given.write:
        tables.put(tables.EVALUATION, "calibration", rendered(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
