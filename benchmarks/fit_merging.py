"""`python -m benchmarks.fit_merging`: where the constants of `knowledge/memory/rules/similarity.py` come from.

Likeness is a logistic model with a small ridge, fitted by Newton's method (iteratively reweighted least squares), every
set and both answers of it weighing the same. Pairs with stack traces are left out of the fit: they are judged by where
the program failed. Weights and gates are fitted on three sets and checked on the fourth, each left out in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks import tables
from benchmarks.pairs import PAIR_SETS, PairSet, load_pairs
from benchmarks.resampling import Figures, auc, exact_upper
from benchmarks.sets import DATA
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.memory.rules.similarity import (
    BUNDLED,
    GATES,
    MERGE,
    SUGGEST,
    Features,
    Gates,
    Weights,
    judge,
    same_probability,
)
from orchestrator.cli.support.terminal import print_json, stages
from orchestrator.observability.progress import Stages

FITTED = ("cosine", "shared", "contained", "opening")
RIDGE = 0.5
EACH = 100.0
"""What all pairs of one answer of one set weigh together."""

GRID = tuple(
    Gates(rarest=rarest, named=named, likeness=floor)
    for rarest, named, floor in product((0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.1, 0.3, 0.5))
)
LOOSEST = GRID[0]
PRICE = 0.01
"""Mean recall that may be lost for stricter gates: the margin for texts that nobody fitted to."""

PROMISED = 0.01
"""Share of different pairs that may be merged, at the upper end of the 95 % interval."""

_STEPS = 50
_ENOUGH = 1e-9


def fit(sets: Iterable[PairSet]) -> Weights:
    """Return the weights for the pairs of some sets."""
    rows, answers, weights = [], [], []
    for pairs in sets:
        chosen = [at for at, each in enumerate(pairs.features) if not each.traces]
        same = pairs.same[chosen]
        if len(set(same)) < 2:
            continue
        rows += [[1.0, *(getattr(pairs.features[at], name) for name in FITTED)] for at in chosen]
        answers.append(same)
        weights.append(np.where(same == 1, EACH / (same == 1).sum(), EACH / (same == 0).sum()))
    found = _newton(np.array(rows), np.concatenate(answers), np.concatenate(weights))
    constant, *slopes = (float(value) for value in found)
    return Weights(constant=constant, **dict(zip(FITTED, slopes, strict=True)))


def _newton(rows: Figures, answers: Figures, weights: Figures) -> Figures:
    ridge = np.diag([_ENOUGH, *[RIDGE] * (rows.shape[1] - 1)])
    found: Figures = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        said = 1 / (1 + np.exp(-(rows @ found)))
        slope = rows.T @ (weights * (said - answers)) + ridge @ found
        curve = (rows * (weights * said * (1 - said))[:, None]).T @ rows + ridge
        step = np.linalg.solve(curve, slope)
        found = found - step
        if np.abs(step).max() < _ENOUGH:
            break
    return found


def choose(sets: Sequence[PairSet], weights: Weights) -> Gates:
    """Return the strictest gates that merge no different pair of any set, and cost at most `PRICE` of mean recall.

    Where all gates merge one, those that merge the fewest.
    """
    same = [
        _keep_passing(_same_pairs(pairs), weights) for pairs in sets
    ]  # by the loosest gates: the others let through no more
    different = [_keep_passing(_different_pairs(pairs), weights) for pairs in sets]
    counts = [max(1, len(_same_pairs(pairs))) for pairs in sets]

    def wrong(gates: Gates) -> int:
        return sum(_count_merged(some, weights, gates) for some in different)

    def recall(gates: Gates) -> float:
        found = (_count_merged(some, weights, gates) / count for some, count in zip(same, counts, strict=True))
        return float(np.mean(list(found)))

    fewest = min(map(wrong, GRID))
    recalls = {gates: recall(gates) for gates in GRID if wrong(gates) == fewest}
    best = max(recalls.values())
    return max((gates for gates in recalls if recalls[gates] >= best - PRICE), key=lambda gates: sum(astuple(gates)))


def _same_pairs(pairs: PairSet) -> list[Features]:
    return [each for each, same in zip(pairs.features, pairs.same, strict=True) if same]


def _different_pairs(pairs: PairSet) -> list[Features]:
    """Return all different pairs: labelled ones, minimal ones, and those of other groups."""
    labelled = [each for each, same in zip(pairs.features, pairs.same, strict=True) if not same]
    return [*labelled, *pairs.minimal, *pairs.nearest, *pairs.random]


def _keep_passing(some: Iterable[Features], weights: Weights) -> list[Features]:
    return [each for each in some if judge(each, weights, LOOSEST).same]


def _count_merged(some: Iterable[Features], weights: Weights, gates: Gates) -> int:
    return sum(judge(each, weights, gates).same for each in some)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a set's pairs. `false` counts different pairs that were merged, `minimal_false` minimal ones."""

    name: str
    pairs: int
    different: int
    minimal: int
    recall: float
    false: int
    minimal_false: int
    suggestion_precision: float
    suggestion_recall: float
    auc: float

    @property
    def false_rate(self) -> float:
        """Return the share of all different pairs that was merged."""
        return (self.false + self.minimal_false) / (self.different + self.minimal)


def tell(pairs: PairSet, said: Figures, minimal: Figures) -> Outcome:
    """Return what probabilities mean for a set."""
    same = pairs.same == 1
    merged, likely = said >= MERGE, said >= SUGGEST
    return Outcome(
        name=pairs.name,
        pairs=len(same),
        different=int((~same).sum()),
        minimal=len(minimal),
        recall=float(merged[same].mean()),
        false=int(merged[~same].sum()),
        minimal_false=int((minimal >= MERGE).sum()),
        suggestion_precision=float(same[likely].mean()) if likely.any() else 0.0,
        suggestion_recall=float(likely[same].mean()),
        auc=auc(said[same], said[~same]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Weights and gates, and the sets they were fitted on."""

    weights: Weights
    gates: Gates
    fitted_on: Sequence[PairSet] = ()


SHIPPED = OperatingPoint(weights=BUNDLED, gates=GATES)


def fit_without(sets: Sequence[PairSet], left_out: PairSet) -> OperatingPoint:
    """Fit weights and gates on all sets but one."""
    others = [pairs for pairs in sets if pairs is not left_out]
    weights = fit(others)
    return OperatingPoint(weights=weights, gates=choose(others, weights), fitted_on=others)


def judge_all(pairs: PairSet, point: OperatingPoint) -> Outcome:
    """Judge all pairs of a set."""

    def said(some: Sequence[Features]) -> Figures:
        return np.array([same_probability(each, point.weights, point.gates) for each in some])

    return tell(pairs, said(pairs.features), said(pairs.minimal))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongMerges:
    """Pairs of different groups that were merged. `upper`, `nearest_upper`: ends of the exact 95 % intervals.

    `fitted_upper`: the highest upper end among the sets of the fit.
    """

    name: str
    gates: Gates
    nearest: int
    nearest_merged: int
    random: int
    random_merged: int
    recall: float
    fitted_upper: float | None = None

    @property
    def nearest_upper(self) -> float:
        """Return the upper end for nearest pairs alone, which are the hardest."""
        return exact_upper(self.nearest_merged, self.nearest)

    @property
    def upper(self) -> float:
        """Return the upper end for nearest and random pairs."""
        return exact_upper(self.nearest_merged + self.random_merged, self.nearest + self.random)


def count_wrong(pairs: PairSet, point: OperatingPoint) -> WrongMerges:
    """Count the pairs of different groups that are merged."""
    weights, gates = point.weights, point.gates
    same = _same_pairs(pairs)
    fitted = [count_wrong(each, replace(point, fitted_on=())).nearest_upper for each in point.fitted_on]
    return WrongMerges(
        name=pairs.name,
        gates=gates,
        nearest=len(pairs.nearest),
        nearest_merged=_count_merged(pairs.nearest, weights, gates),
        random=len(pairs.random),
        random_merged=_count_merged(pairs.random, weights, gates),
        recall=_count_merged(same, weights, gates) / max(1, len(same)),
        fitted_upper=max(fitted, default=None),
    )


def ignore_particulars(pairs: PairSet) -> PairSet:
    """Return a set as if all pairs had the same particulars: the mutant that a floor must notice."""

    def ignore(some: Sequence[Features]) -> list[Features]:
        return [replace(each, same_particulars=True) for each in some]

    return replace(pairs, features=ignore(pairs.features), nearest=ignore(pairs.nearest), random=ignore(pairs.random))


def cosine_alone(sets: Sequence[PairSet], threshold: float) -> list[Outcome]:
    """Judge every pair by its cosine, merging and suggesting from one threshold on."""

    def said(some: Sequence[Features]) -> Figures:
        return np.array([1.0 if each.cosine >= threshold else 0.0 for each in some])

    return [tell(pairs, said(pairs.features), said(pairs.minimal)) for pairs in sets]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures."""

    fitted: Weights
    chosen: Gates
    shipped: Sequence[Outcome]
    left_out: Sequence[Outcome]
    cosine: Sequence[Outcome]
    wrong: Sequence[tuple[str, Sequence[WrongMerges]]]
    gates: Sequence[tuple[str, Sequence[WrongMerges]]]


def measure(sets: Sequence[PairSet]) -> Report:
    """Fit and judge in every way."""
    fitted = fit(sets)
    points = [fit_without(sets, pairs) for pairs in sets]
    changed = {
        "none": GATES,
        "rarest 0.10": replace(GATES, rarest=0.1),
        "rarest 0.30": replace(GATES, rarest=0.3),
        "rarest 0.50": replace(GATES, rarest=0.5),
        "named 0.10": replace(GATES, named=0.1),
        "named 0.30": replace(GATES, named=0.3),
        "named 0.50": replace(GATES, named=0.5),
        "likeness 0.10": replace(GATES, likeness=0.1),
        "likeness 0.30": replace(GATES, likeness=0.3),
        "likeness 0.70": replace(GATES, likeness=0.7),
    }
    return Report(
        fitted=fitted,
        chosen=choose(sets, fitted),
        shipped=[judge_all(pairs, SHIPPED) for pairs in sets],
        left_out=[judge_all(pairs, point) for pairs, point in zip(sets, points, strict=True)],
        cosine=cosine_alone(sets, 0.90),
        wrong=[
            ("set left out", [count_wrong(pairs, point) for pairs, point in zip(sets, points, strict=True)]),
            ("as shipped", [count_wrong(pairs, SHIPPED) for pairs in sets]),
            ("particulars ignored", [count_wrong(ignore_particulars(pairs), SHIPPED) for pairs in sets]),
        ],
        gates=[
            (name, [count_wrong(pairs, replace(SHIPPED, gates=gates)) for pairs in sets])
            for name, gates in changed.items()
        ],
    )


def rendered(report: Report) -> str:
    """Return the figures as Markdown tables."""
    weights = tables.table(
        ["", "constant", *FITTED, "rarest", "named", "likeness"],
        [
            [name, *(f"{getattr(each, field):+.2f}" for field in ("constant", *FITTED)), *_gate_cells(gates)]
            for name, each, gates in (("shipped", BUNDLED, GATES), ("fitted", report.fitted, report.chosen))
        ],
    )
    head = ["set", "how", "rarest", "named", "likeness", "fitted sets: upper end", "nearest merged", "upper end",
            "random merged", "all: upper end", "recall"]  # fmt: skip
    wrong = [
        [told[at].name, way, *_wrong_cells(told[at])] for at in range(len(PAIR_SETS)) for way, told in report.wrong
    ]
    judged_head = ["set", "how", "pairs", "merged: recall", "different merged", "minimal merged", "false merges",
            "suggested: precision", "suggested: recall", "AUC"]  # fmt: skip
    ways = {"as shipped": report.shipped, "set left out": report.left_out, "cosine ≥ 0.90": report.cosine}
    judged = [[told[at].name, way, *_cells(told[at])] for at in range(len(PAIR_SETS)) for way, told in ways.items()]
    gates = tables.table(
        ["gate changed", *(f"{name}: recall / nearest merged" for name in PAIR_SETS)],
        [[name, *(f"{each.recall:.3f} / {each.nearest_merged}" for each in told)] for name, told in report.gates],
    )
    return "\n\n".join([weights, tables.table(head, wrong), tables.table(judged_head, judged), gates])


def _gate_cells(gates: Gates) -> list[str]:
    return [f"{gates.rarest:.2f}", f"{gates.named:.2f}", f"{gates.likeness:.2f}"]


def _wrong_cells(wrong: WrongMerges) -> list[str]:
    return [
        *_gate_cells(wrong.gates),
        "" if wrong.fitted_upper is None else f"{wrong.fitted_upper:.2%}",
        f"{wrong.nearest_merged} of {wrong.nearest:,}",
        f"{wrong.nearest_upper:.2%}",
        f"{wrong.random_merged} of {wrong.random:,}",
        f"{wrong.upper:.2%}",
        f"{wrong.recall:.3f}",
    ]


def _cells(outcome: Outcome) -> list[str]:
    return [
        f"{outcome.pairs:,}",
        f"{outcome.recall:.3f}",
        f"{outcome.false} of {outcome.different}",
        f"{outcome.minimal_false} of {outcome.minimal}",
        f"{outcome.false_rate:.2%}",
        f"{outcome.suggestion_precision:.2f}",
        f"{outcome.suggestion_recall:.2f}",
        f"{outcome.auc:.3f}",
    ]


async def load_all(data: Path, progress: Stages) -> list[PairSet]:
    """Read and compare the pairs of every set."""
    embedder = LocalEmbedder()
    try:
        return [await load_pairs(data, name, embedder, progress.stage(f"Embedding {name}")) for name in PAIR_SETS]
    finally:
        await embedder.aclose()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit_merging", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help=f"the labelled sets ({DATA})")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evaluation.md")
    given = parser.parse_args(arguments)
    absent = [name for name in PAIR_SETS if not (given.data / name / "pairs.jsonl").is_file()]
    if absent:
        print(f"No pairs of {', '.join(absent)} in {given.data}: name the folder with --data.", file=sys.stderr)
        return 0
    with stages(quiet=False) as progress:
        sets = asyncio.run(load_all(given.data, progress))
        progress.stage("Fitting")
        report = measure(sets)
    if given.json:
        print_json(asdict(report))
    else:
        print(rendered(report))
    if given.write:
        tables.put(tables.EVALUATION, "merging", rendered(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
