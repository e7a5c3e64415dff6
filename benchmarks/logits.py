"""Two small models in plain numpy, fitted by Newton's method with a ridge: which of several, and whether at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.resampling import Figures

_STEPS = 60
_SETTLED = 1e-9


def choice_weights(choices: Sequence[Figures], right: Sequence[Figures], each: Figures, ridge: float) -> Figures:
    """Return the weights of a conditional logit (McFadden 1974).

    `choices` are tables of features, a row a candidate; `right` says by ones which rows are right, at least one in
    each; `each` is what each table counts. The ridge is on features scaled to unit variance.
    """
    rows = np.concatenate(choices)
    scale = rows.std(axis=0) + _SETTLED
    rows = rows / scale
    lengths = np.array([len(table) for table in choices])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    wanted = np.concatenate([ones / ones.sum() for ones in right])
    counting = np.repeat(each, lengths)

    def loss(weights: Figures) -> float:
        scores = rows @ weights
        highest = np.maximum.reduceat(scores, starts)
        sums = np.add.reduceat(np.exp(scores - np.repeat(highest, lengths)), starts)
        told = each @ (np.log(sums) + highest) - (counting * wanted) @ scores
        return float(told + ridge / 2 * weights @ weights)

    def slope(weights: Figures) -> tuple[Figures, Figures]:
        scores = rows @ weights
        grown = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
        chances = grown / np.repeat(np.add.reduceat(grown, starts), lengths)
        means = np.add.reduceat(rows * chances[:, None], starts, axis=0)
        curvature = (rows * (counting * chances)[:, None]).T @ rows - (means * each[:, None]).T @ means
        return rows.T @ (counting * (chances - wanted)) + ridge * weights, curvature + ridge * np.eye(len(weights))

    found: Figures = _newton(np.zeros(rows.shape[1]), loss, slope) / scale
    return found


def yes_weights(rows: Figures, yes: Figures, each: Figures, ridge: float) -> Figures:
    """Return the weights of a logistic model, the intercept last; `each` is what each row counts."""
    centre, scale = rows.mean(axis=0), rows.std(axis=0) + _SETTLED
    table = np.column_stack([(rows - centre) / scale, np.ones(len(rows))])
    penalty = ridge * np.eye(table.shape[1])
    penalty[-1, -1] = 0.0

    def loss(weights: Figures) -> float:
        logits = table @ weights
        return float(each @ (np.logaddexp(0, logits) - yes * logits) + weights @ penalty @ weights / 2)

    def slope(weights: Figures) -> tuple[Figures, Figures]:
        chances = 1 / (1 + np.exp(-table @ weights))
        curvature = (table * (each * chances * (1 - chances))[:, None]).T @ table + penalty
        return table.T @ (each * (chances - yes)) + penalty @ weights, curvature

    found = _newton(np.zeros(table.shape[1]), loss, slope)
    weights = found[:-1] / scale
    return np.append(weights, found[-1] - centre @ weights)


def _newton(
    start: Figures, loss: Callable[[Figures], float], slope: Callable[[Figures], tuple[Figures, Figures]]
) -> Figures:
    """Go down by Newton's steps, halved while they lead up."""
    at, cost = start, loss(start)
    for _ in range(_STEPS):
        gradient, curvature = slope(at)
        step = np.linalg.solve(curvature, gradient)
        while np.abs(step).max() > _SETTLED and loss(at - step) > cost:
            step = step / 2
        new = loss(at - step)
        if cost - new < _SETTLED:
            break
        at, cost = at - step, new
    return at
