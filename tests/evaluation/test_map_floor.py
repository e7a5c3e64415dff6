"""The map keeps neighbours together: the demo's rules, and ten thousand patterns in the time of a checkpoint's end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.memory.map.groups import group_places, name_groups
from knowledge.memory.map.projection import Floats, find_neighbours, lay_out
from knowledge.memory.map.service import place_patterns
from knowledge.memory.rules.embedding_text import situation_gist
from knowledge.models import PatternId, Vector
from orchestrator.evaluation.demo import entry_of, read_rules


def trustworthiness(vectors: Floats, places: Floats, neighbours: int) -> float:
    """Return the trustworthiness of places as scikit-learn defines it (Venna and Kaski, 2001)."""
    count = len(vectors)
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, np.inf)
    ranks = np.empty((count, count), np.int64)
    np.put_along_axis(ranks, np.argsort(-similar, axis=1, kind="stable"), np.arange(count)[None, :], axis=1)
    apart = ((places[:, None, :].astype(np.float64) - places[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest = np.argsort(apart, axis=1, kind="stable")[:, :neighbours]
    beyond = np.take_along_axis(ranks, nearest, axis=1) - neighbours
    worst = count * neighbours * (2 * count - 3 * neighbours - 1)
    return 1 - 2 * float(beyond[beyond > 0].sum()) / worst


async def _embed(texts: Sequence[str]) -> Floats:
    embedder = LocalEmbedder()
    try:
        vectors = (await embedder.embed(texts, "document")).vectors.astype(np.float32)
    finally:
        await embedder.aclose()
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


@pytest.mark.long
async def test_neighbours_of_the_demos_patterns_stay_together() -> None:
    """Measured 0.947; the two principal axes 0.713, openTSNE 0.961, UMAP 0.957 (docs/adr/0055)."""
    entries = [entry_of(rule) for rule in read_rules()]
    vectors = await _embed([situation_gist(entry) for entry in entries])
    places = lay_out(vectors)
    assert trustworthiness(vectors, places, 10) >= 0.92
    assert np.array_equal(lay_out(vectors), places)

    groups = group_places(places)
    names = name_groups([entry.failure_description or "" for entry in entries], groups)
    together = {word for terms in names for word in terms}
    assert all(1 <= len(terms) <= 3 for terms in names)
    assert together & {"pytest", "fixture", "async", "await", "datetime", "subprocess"}, names


@pytest.mark.long
def test_ten_thousand_patterns_have_places_within_the_time_of_a_checkpoints_end() -> None:
    """Measured 4.3 s of processor time; 10 s are allowed."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(60, 384))
    vectors = (centres[rng.integers(0, 60, 10_000)] + rng.normal(size=(10_000, 384))).astype(np.float32)
    patterns: dict[PatternId, Vector] = {PatternId(UUID(int=place)): each for place, each in enumerate(vectors)}
    began = time.process_time()
    placed, terms = place_patterns(patterns, dict.fromkeys(patterns, "a lock that another transaction holds"))
    taken = time.process_time() - began
    assert (len(placed), len(terms)) == (10_000, 20)
    assert taken < 10


def test_few_patterns_have_places_too() -> None:
    vectors = np.eye(8, dtype=np.float32)
    for count in range(9):
        places = lay_out(vectors[:count])
        assert places.shape == (count, 2)
        assert np.isfinite(places).all()
        assert group_places(places).shape == (count,) if count else True
    alike = lay_out(np.repeat(vectors[:1], 40, axis=0))
    assert np.isfinite(alike).all()
    assert len(np.unique(alike, axis=0)) > 30, "what is alike does not lie on one spot"
    assert place_patterns({}, {}) == ([], ())


def test_the_nearest_neighbours_are_those_of_the_highest_cosine() -> None:
    angles = np.radians([0, 10, 30, 90]).astype(np.float32)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    nearest, distances = find_neighbours(vectors, 2)
    assert nearest.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert distances[0, 0] == pytest.approx(1 - np.cos(np.radians(10)), abs=1e-5)


def test_groups_are_named_by_the_words_that_set_them_apart() -> None:
    texts = [f"The lock of a transaction in part {n}" for n in range(8)]
    texts += [f"The pixel of a picture in part {n}" for n in range(8)]
    groups = np.repeat(np.arange(2), 8)
    first, second = name_groups(texts, groups)
    assert set(first) == {"lock", "transaction"}
    assert set(second) == {"pixel", "picture"}
    assert name_groups(["<script>alert(1)</script>"], np.zeros(1, np.int64)) == [("alert", "script")]
