"""`python -m benchmarks.fit_answers FOLDER...`: where the weights of answering without a model come from.

Every question is searched and its sentences are read as production does; the signs are fitted as a logistic model,
answerable and unanswerable counting the same in each set, and every set the same. Printed are the figures by ten-fold
cross-validation, and of the weights that were fitted on the other sets alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.logits import yes_weights
from benchmarks.resampling import Figures, auc
from knowledge.documents.reading.extractor import Signs
from knowledge.settings import KnowledgeSettings
from orchestrator.evaluation.answer_quality import evaluate_questions
from orchestrator.observability.logging import configure_logs

RIDGE = 0.02
FOLDS = 10
REPEATS = 5
_SEED = 20260115


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The signs of a set's questions, a row each, and which of them can be answered."""

    rows: Figures
    right: Figures

    def each(self) -> Figures:
        """Return what each question counts: both halves the same, a half in all."""
        answerable = self.right.sum()
        counted: Figures = np.where(self.right == 1, 0.5 / answerable, 0.5 / (len(self.right) - answerable))
        return counted


async def weigh(folder: Path) -> Weighed:
    """Return the signs of each question of a set, from the pipeline that production uses."""
    found = [each for each in await evaluate_questions(folder, KnowledgeSettings()) if each.signs]
    rows = np.array([[each.signs[f"sign_{name}"] for name in Signs._fields] for each in found], dtype=np.float64)
    return Weighed(rows=rows, right=np.array([each.answerable for each in found], dtype=np.float64))


def fitted(sets: Sequence[Weighed]) -> Figures:
    """Return the weights of the signs, the intercept last."""
    return yes_weights(
        np.concatenate([each.rows for each in sets]),
        np.concatenate([each.right for each in sets]),
        np.concatenate([each.each() / len(sets) for each in sets]),
        RIDGE,
    )


def logits(rows: Figures, weights: Figures) -> Figures:
    """Return how sure weights are of some rows."""
    found: Figures = rows @ weights[:-1] + weights[-1]
    return found


def crossed(sets: Mapping[str, Weighed]) -> dict[str, list[Figures]]:
    """Return how sure is, of each question, the model of the folds it is not in; a list of repeats for each set."""
    found: dict[str, list[Figures]] = {name: [] for name in sets}
    for repeat in range(REPEATS):
        rng = np.random.default_rng(_SEED + repeat)
        order = {name: rng.permutation(len(each.right)) for name, each in sets.items()}
        sure = {name: np.zeros(len(each.right)) for name, each in sets.items()}
        for fold in range(FOLDS):
            kept = {name: np.setdiff1d(order[name], order[name][fold::FOLDS]) for name in sets}
            weights = fitted(
                [Weighed(rows=each.rows[kept[name]], right=each.right[kept[name]]) for name, each in sets.items()]
            )
            for name, each in sets.items():
                held = order[name][fold::FOLDS]
                sure[name][held] = logits(each.rows[held], weights)
        for name, figures in sure.items():
            found[name].append(figures)
    return found


def rates(sure: Figures, right: Figures, level: float) -> tuple[float, float]:
    """Return the shares of false answers and of false refusals at a level."""
    logit = float(np.log(level / (1 - level)))
    return float((sure[right == 0] >= logit).mean()), float((sure[right == 1] < logit).mean())


def main() -> int:
    """Print weights and figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    configure_logs()
    sets = {folder.name: asyncio.run(weigh(folder)) for folder in parser.parse_args().folders}
    weights = fitted(list(sets.values()))
    print(dict(zip((*Signs._fields, "intercept"), weights.round(3).tolist(), strict=True)))
    print("| set | weights of | AUC | " + " | ".join(f"at {level}" for level in (0.5, 0.55, 0.6, 0.65)) + " |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    held = crossed(sets)
    for name, each in sets.items():
        others = [other for other_name, other in sets.items() if other_name != name]
        told = {"other folds": held[name]} | ({"other sets": [logits(each.rows, fitted(others))]} if others else {})
        for of, runs in told.items():
            area = np.mean([auc(sure[each.right == 1], sure[each.right == 0]) for sure in runs])
            cells = []
            for level in (0.5, 0.55, 0.6, 0.65):
                false_answers, false_refusals = np.mean([rates(sure, each.right, level) for sure in runs], axis=0)
                cells.append(f"{false_answers:.3f} / {false_refusals:.3f}")
            print(f"| {name} | {of} | {area:.3f} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
