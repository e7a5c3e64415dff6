"""`python -m benchmarks.fit_merging`: where the constants of `knowledge/memory/rules/similarity.py` come from.

Likeness is a logistic model with a small ridge, fitted by Newton's method (iteratively reweighted least squares), every
set and both answers of it weighing the same. Pairs with stack traces are left out of the fit: they are judged by where
the program failed. The gates are chosen on the same folds as the weights, so that no figure is of pairs that were seen.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks import tables
from benchmarks.pairs import FOLDS, PAIR_SETS, PairSet, load_pairs
from benchmarks.resampling import Figures, auc
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
    Gates(names=names, rarest=rarest, named=named, likeness=floor)
    for names, rarest, named, floor in product((0.9, 0.95, 1.0), (0.3, 0.4, 0.5), (0.35, 0.4, 0.45), (0.3, 0.5))
)
LOOSEST = GRID[0]
MOST_FALSE = 0.005
"""Share of the different pairs seen in a fit that its gates may merge: half of what is promised."""

_STEPS = 50
_ENOUGH = 1e-9


def fit(sets: Iterable[PairSet], keep: Callable[[PairSet, int], bool] = lambda _set, _at: True) -> Weights:
    """Return the weights for the pairs that are kept."""
    rows, answers, weights = [], [], []
    for pairs in sets:
        chosen = [at for at, each in enumerate(pairs.features) if not each.traces and keep(pairs, at)]
        same = pairs.same[chosen]
        if len(set(same)) < 2:
            continue
        rows += [[1.0, *(getattr(pairs.features[at], name) for name in FITTED)] for at in chosen]
        answers.append(same)
        weights.append(np.where(same == 1, EACH / (same == 1).sum(), EACH / (same == 0).sum()))
    found = _newton(np.array(rows), np.concatenate(answers), np.concatenate(weights))
    constant, *slopes = (float(value) for value in found)
    return Weights(constant=constant, **dict(zip(FITTED, slopes, strict=True)), near=BUNDLED.near)


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


def choose(sets: Sequence[PairSet], weights: Weights, keep: Callable[[PairSet, int], bool]) -> Gates:
    """Return the gates with the best mean recall that merge no more different pairs of any set than they may.

    Where none does, those that merge the fewest.
    """
    kept = [[at for at in range(len(pairs.features)) if keep(pairs, at)] for pairs in sets]
    seen = [pairs.same[places] == 1 for pairs, places in zip(sets, kept, strict=True)]
    passing = [  # by the loosest gates: the others let through no more
        [(pairs.features[at], pairs.same[at] == 1) for at in places if judge(pairs.features[at], weights, LOOSEST).same]
        for pairs, places in zip(sets, kept, strict=True)
    ]

    def worth(gates: Gates) -> tuple[float, float]:
        merged = [[same for each, same in some if judge(each, weights, gates).same] for some in passing]
        recall = [sum(some) / max(1, answers.sum()) for some, answers in zip(merged, seen, strict=True)]
        wrong = [some.count(False) / max(1, (~answers).sum()) for some, answers in zip(merged, seen, strict=True)]
        return -max(0.0, max(wrong) - MOST_FALSE), float(np.mean(recall))

    return max(GRID, key=worth)


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


def across_folds(sets: Sequence[PairSet], others: Callable[[PairSet], Sequence[PairSet]]) -> list[Outcome]:
    """Judge every pair by weights and gates that saw no text of its groups, fitted on `others` of its set."""
    outcomes = []
    for pairs in sets:
        said, minimal = np.zeros(len(pairs.features)), np.zeros(len(pairs.minimal))
        for out in ((i, j) for i in range(FOLDS) for j in range(i, FOLDS)):

            def keep(other: PairSet, at: int, out: tuple[int, int] = out, own: PairSet = pairs) -> bool:
                return other is not own or not set(other.folds[at]) & set(out)

            places = [at for at, folds in enumerate(pairs.folds) if tuple(sorted(folds)) == out]
            few = [at for at, folds in enumerate(pairs.minimal_folds) if folds == out]
            if not places and not few:
                continue
            weights = fit(others(pairs), keep)
            gates = choose(others(pairs), weights, keep)
            said[places] = [same_probability(pairs.features[at], weights, gates) for at in places]
            minimal[few] = [same_probability(pairs.minimal[at], weights, gates) for at in few]
        outcomes.append(tell(pairs, said, minimal))
    return outcomes


def as_shipped(sets: Sequence[PairSet], gates: Gates = GATES) -> list[Outcome]:
    """Judge every pair as it would be in use."""
    return [
        tell(
            pairs,
            np.array([same_probability(each, BUNDLED, gates) for each in pairs.features]),
            np.array([same_probability(each, BUNDLED, gates) for each in pairs.minimal]),
        )
        for pairs in sets
    ]


def cosine_alone(sets: Sequence[PairSet], threshold: float) -> list[Outcome]:
    """Judge every pair by its cosine, merging and suggesting from one threshold on."""

    def said(some: Sequence[Features]) -> Figures:
        return np.array([1.0 if each.cosine >= threshold else 0.0 for each in some])

    return [tell(pairs, said(pairs.features), said(pairs.minimal)) for pairs in sets]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures."""

    fitted: Weights
    shipped: Sequence[Outcome]
    folds: Sequence[Outcome]
    left_out: Sequence[Outcome]
    cosine: Sequence[Outcome]
    gates: Sequence[tuple[str, Sequence[Outcome]]]


def measure(sets: Sequence[PairSet]) -> Report:
    """Fit and judge in every way."""
    changed = {
        "names 0.90": Gates(names=0.90),
        "rarest 0.30": Gates(rarest=0.30),
        "rarest 0.50": Gates(rarest=0.50),
        "named 0.30": Gates(named=0.30),
        "named 0.35": Gates(named=0.35),
        "named 0.50": Gates(named=0.50),
        "likeness 0": Gates(likeness=0.0),
        "likeness 0.50": Gates(likeness=0.50),
    }
    return Report(
        fitted=fit(sets),
        shipped=as_shipped(sets),
        folds=across_folds(sets, lambda _: sets),
        left_out=across_folds(sets, lambda own: [each for each in sets if each is not own]),
        cosine=cosine_alone(sets, 0.90),
        gates=[(name, as_shipped(sets, gates)) for name, gates in changed.items()],
    )


def rendered(report: Report) -> str:
    """Return the figures as Markdown tables."""
    weights = tables.table(
        ["", "constant", *FITTED],
        [
            [name, *(f"{getattr(each, field):+.2f}" for field in ("constant", *FITTED))]
            for name, each in (("shipped", BUNDLED), ("fitted", report.fitted))
        ],
    )
    head = ["set", "how", "pairs", "merged: recall", "different merged", "minimal merged", "false merges",
            "suggested: precision", "suggested: recall", "AUC"]  # fmt: skip
    ways = {
        "as shipped": report.shipped,
        "cross-validated": report.folds,
        "set left out": report.left_out,
        "cosine ≥ 0.90": report.cosine,
    }
    rows = [[outcome.name, way, *_cells(outcome)] for at in range(len(PAIR_SETS)) for way, told in ways.items()
            for outcome in told[at:at + 1]]  # fmt: skip
    gates = tables.table(
        ["gate changed", *(f"{name}: recall / false" for name in PAIR_SETS)],
        [
            [name, *(f"{each.recall:.2f} / {each.false + each.minimal_false}" for each in told)]
            for name, told in (("none", report.shipped), *report.gates)
        ],
    )
    return "\n\n".join([weights, tables.table(head, rows), gates])


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
