"""Places of vectors in two dimensions: nearest neighbours attract each other, all others repel (UMAP, in numpy alone).

The weights are the fuzzy neighbour graph of McInnes, Healy and Melville, "UMAP" (2018), sections 3.1 and 3.2. Each
round moves all points at once, along the attraction of all edges and the repulsion of some random others, so that the
same vectors give the same places. ADR 0055 has the figures, and why no library does this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Integers: TypeAlias = npt.NDArray[np.int64]

NEIGHBOURS: Final = 15
ROUNDS: Final = 200
REPULSIONS: Final = 8
"""Random points that each point is repelled by in a round; with 5 the trustworthiness falls by 0.004."""
_SAMPLES: Final = 2.5
"""Repulsion against attraction, UMAP's: five negative samples an edge, of which the moved end takes half."""
_SEED: Final = 20_260
_A: Final = 1.577
_B: Final = 0.895
"""The curve 1 / (1 + a d^2b) that UMAP fits to a least distance of 0.1."""
_MAX_STEP: Final = 4.0
_START_RADIUS: Final = 10.0
_BLOCK: Final = 512
_SPAN: Final = 64
"""Columns whose maximum is looked at first; ours."""
_TINY: Final = np.float32(1e-6)


@dataclass(frozen=True, slots=True)
class Edges:
    """Weighted edges in both directions, ordered by head; `begins`: the first edge of each point."""

    heads: Integers
    tails: Integers
    weights: Floats
    begins: Integers


def lay_out(vectors: Floats) -> Floats:
    """Return a place from 0 to 1 in each of two dimensions for each vector; the vectors have a length of 1.

    The same vectors in the same order have the same places.
    """
    count = len(vectors)
    if count < 3:
        return np.array([[(place + 1) / (count + 1), 0.5] for place in range(count)], np.float32).reshape(count, 2)
    neighbours, distances = find_neighbours(vectors, min(NEIGHBOURS, count - 1))
    return _to_unit(_move(_principal_places(vectors), _join_both_ways(neighbours, _weigh(distances))))


def find_neighbours(vectors: Floats, number: int) -> tuple[Integers, Floats]:
    """Return for each vector the nearest others by cosine, and their distances, the nearest first."""
    count = len(vectors)
    nearest = np.empty((count, number), np.int64)
    distances = np.empty((count, number), np.float32)
    for start in range(0, count, _BLOCK):
        similar = vectors[start : start + _BLOCK] @ vectors.T
        rows = np.arange(len(similar))
        similar[rows, start + rows] = -np.inf
        found, values = _pick_greatest(similar, number)
        order = np.lexsort((found, -values), axis=1)
        nearest[start : start + _BLOCK] = np.take_along_axis(found, order, axis=1)
        distances[start : start + _BLOCK] = 1 - np.take_along_axis(values, order, axis=1)
    return nearest, np.maximum(distances, 0)


def _pick_greatest(values: Floats, number: int) -> tuple[Integers, Floats]:
    """Return for each row the columns of its greatest values, and those.

    As many as `number` of a row's spans have a maximum of at least their `number`-th greatest: only what is as great is
    sorted. Of 10,000 columns that takes a fifth of what partitioning the rows does.
    """
    height, width = values.shape
    spans = width // _SPAN
    if spans >= number:
        maxima = values[:, : spans * _SPAN].reshape(height, spans, _SPAN).max(axis=2)
        least = np.partition(maxima, -number, axis=1)[:, -number]
        is_great = values >= least[:, None]
        if np.count_nonzero(is_great) <= _SPAN * number * height:  # not where most are equal
            rows, columns = np.nonzero(is_great)
            great = values[rows, columns]
            order = np.lexsort((columns, -great, rows))
            at = order[np.searchsorted(rows, np.arange(height))[:, None] + np.arange(number)]
            return columns[at], great[at]
    found = np.argpartition(values, -number, axis=1)[:, -number:]
    return found, np.take_along_axis(values, found, axis=1)


def _weigh(distances: Floats) -> Floats:
    """Return the weight of each neighbour: 1 for the nearest, and a sum of log2(k) by bisection of the scale."""
    beyond = distances - distances[:, :1]
    wanted = np.log2(distances.shape[1]) if distances.shape[1] > 1 else 1.0
    low, high = np.zeros((len(beyond), 1), np.float32), np.full((len(beyond), 1), 4, np.float32)
    for _ in range(32):
        scale = (low + high) / 2
        is_wide = np.exp(-beyond / np.maximum(scale, _TINY)).sum(axis=1, keepdims=True) > wanted
        low, high = np.where(is_wide, low, scale), np.where(is_wide, scale, high)
    weights: Floats = np.exp(-beyond / np.maximum(high, _TINY)).astype(np.float32)
    return weights


def _join_both_ways(neighbours: Integers, weights: Floats) -> Edges:
    """Return the edges of the graph, with p + q - pq of the weights that both ends give."""
    count, number = neighbours.shape
    heads, tails = np.repeat(np.arange(count), number), neighbours.ravel()
    keys = np.concatenate([heads * count + tails, tails * count + heads])
    edges, at, times = np.unique(keys, return_inverse=True, return_counts=True)
    both = np.concatenate([weights.ravel(), weights.ravel()])
    total = np.bincount(at, both)
    squares = np.bincount(at, both**2)
    product = np.where(times > 1, (total**2 - squares) / 2, 0)  # of two numbers, by their sum and their squares' sum
    heads = edges // count
    return Edges(heads, edges % count, (total - product).astype(np.float32), np.searchsorted(heads, np.arange(count)))


def _principal_places(vectors: Floats) -> Floats:
    """Return the places along the two principal axes, whose signs are fixed by their largest part."""
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    places = centred @ axes
    spread = np.abs(places).max()
    scaled: Floats = (places * (_START_RADIUS / spread if spread > 0 else 1)).astype(np.float32)
    return scaled


def _move(places: Floats, edges: Edges) -> Floats:
    """Return the places after all rounds, each with a smaller step than the one before."""
    rng = np.random.default_rng(_SEED)
    x, y = (places + rng.normal(0, 0.01, places.shape).astype(np.float32)).T.copy()
    degrees = np.add.reduceat(edges.weights, edges.begins)
    for number in range(ROUNDS):
        step = np.float32(1 - number / ROUNDS)
        along_x, along_y = _attract(x, y, edges)
        away_x, away_y = _repel(x, y, rng)
        along_x += away_x * degrees
        along_y += away_y * degrees
        steps = step * np.minimum(1, _MAX_STEP / np.maximum(np.hypot(along_x, along_y), _TINY))
        x, y = x + steps * along_x, y + steps * along_y
    return np.stack([x, y], axis=1)


def _attract(x: Floats, y: Floats, edges: Edges) -> tuple[Floats, Floats]:
    dx, dy = x[edges.tails] - x[edges.heads], y[edges.tails] - y[edges.heads]
    square = np.maximum(dx * dx + dy * dy, _TINY)
    power = square ** np.float32(_B)
    pull = edges.weights * np.float32(2 * _A * _B) * power / (square * (1 + np.float32(_A) * power))
    return np.add.reduceat(pull * dx, edges.begins), np.add.reduceat(pull * dy, edges.begins)


def _repel(x: Floats, y: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    count = len(x)
    others = rng.permutation(count)
    total_x, total_y = np.zeros(count, np.float32), np.zeros(count, np.float32)
    for turn in rng.integers(1, count, REPULSIONS):
        others = np.roll(others, turn)
        dx, dy = x - x[others], y - y[others]
        square = dx * dx + dy * dy
        push = np.float32(2 * _B) / ((np.float32(0.001) + square) * (1 + np.float32(_A) * square ** np.float32(_B)))
        push *= np.minimum(1, _MAX_STEP / np.maximum(push * np.sqrt(square), _TINY))
        total_x += push * dx
        total_y += push * dy
    factor = np.float32(_SAMPLES / REPULSIONS)
    return total_x * factor, total_y * factor


def _to_unit(places: Floats) -> Floats:
    """Return the places within the unit square, half by value and half by rank.

    So a few that are far away press no others together; neighbours stay neighbours, for each axis keeps its order.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    by_value = (places - low) / np.maximum(high - low, _TINY)
    by_rank = np.argsort(np.argsort(places, axis=0, kind="stable"), axis=0, kind="stable") / (len(places) - 1)
    unit: Floats = np.round((by_value + by_rank) / 2, 5).astype(np.float32)
    return unit
