"""Whether another model finds the same texts near each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knowledge.memory.maintenance.reindex import NeighbourCount, count_kept_neighbours
from knowledge.models import Vector
from tests.support.cases import over


def some(texts: int, dims: int = 384, *, seed: int = 1) -> Vector:
    return unit(np.random.default_rng(seed).standard_normal((texts, dims)))


def unit(rows: npt.NDArray[np.float64]) -> Vector:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / lengths, dtype=np.float32)


@over("texts", [12, 60, 400])
def test_the_same_model_keeps_all_and_so_does_one_that_turns_every_vector_alike(texts: int) -> None:
    before = some(texts)
    turned, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((384, 384)))
    for after in (before, unit(before @ turned), unit(np.hstack([before, np.zeros((texts, 128))]))):
        assert count_kept_neighbours(before, after) == NeighbourCount(min(texts, 100), min(texts, 100))


@over("texts, most", [(15, 0.45), (60, 0.3), (400, 0.1)])
def test_vectors_that_have_nothing_to_do_with_the_texts_keep_what_chance_keeps(texts: int, most: float) -> None:
    kept = sum(
        (count_kept_neighbours(some(texts, seed=at), some(texts, seed=100 + at)) for at in range(20)), NeighbourCount()
    )
    assert kept.compared == 20 * min(texts, 100)
    assert kept.share <= most


def test_a_model_that_finds_all_texts_the_same_keeps_none() -> None:
    before = some(30)
    assert count_kept_neighbours(before, np.tile(before[:1], (30, 1))).kept == 0


def test_texts_that_are_the_same_but_for_their_names_say_nothing() -> None:
    """Any model finds them near each other."""
    twins, others = np.repeat(some(15), 2, axis=0), np.repeat(some(15, seed=2), 2, axis=0)
    assert count_kept_neighbours(twins, others).share <= 0.5
    assert count_kept_neighbours(np.tile(twins[:1], (20, 1)), some(20)) == NeighbourCount()


def test_fewer_than_twelve_texts_say_nothing() -> None:
    assert count_kept_neighbours(some(11), some(11, seed=2)) == NeighbourCount()
    assert NeighbourCount().share == 1.0
    assert count_kept_neighbours(some(12), some(12)).compared == 12
