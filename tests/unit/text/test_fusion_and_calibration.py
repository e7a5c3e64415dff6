"""Two scores to one, and one score to relevance."""

from __future__ import annotations

from dataclasses import astuple
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.models import Calibration
from knowledge.retrieval.calibration import (
    BUNDLED,
    CONSERVATIVE,
    TEXT_EMBEDDING_3_SMALL,
    default_calibration,
    recalibrate,
    relevance,
)
from knowledge.retrieval.fusion import coverage, fuse
from tests.support.cases import over

SHIPPED = [BUNDLED, TEXT_EMBEDDING_3_SMALL, CONSERVATIVE]
SCORE = st.floats(-1, 1.5)
BM25 = st.floats(0, 1000)
COSINE = st.floats(-1, 1)


def test_the_halves_weigh_the_same() -> None:
    assert fuse(0.6, 0, 10) == 0.3
    assert fuse(0, 4, 4) == 0.5 * coverage(4, 4)


@over("bm25, weight", [(0, 10), (-1, 10), (5, 0), (0, 0)])
def test_where_no_word_is_shared_or_known_the_lexical_half_is_nothing(bm25: float, weight: float) -> None:
    assert coverage(bm25, weight) == 0


def test_a_little_shared_counts_half_of_what_it_covers() -> None:
    assert coverage(4.0, 4.0) == 0.5
    assert coverage(40.0, 40.0) > 0.9


@given(COSINE, COSINE, BM25, BM25, st.floats(0, 1000))
def test_more_likeness_never_scores_less(one: float, other: float, less: float, more: float, weight: float) -> None:
    (one, other), (less, more) = sorted((one, other)), sorted((less, more))
    assert fuse(one, less, weight) <= fuse(other, more, weight)


@over("calibration", SHIPPED)
def test_the_marks_of_the_scale_are_where_the_design_puts_them(calibration: Calibration) -> None:
    assert relevance(calibration.unrelated, calibration) == 0
    assert relevance(calibration.right_90, calibration) == pytest.approx(0.70)
    assert relevance(calibration.right_85, calibration) == pytest.approx(0.75)
    assert relevance(calibration.same, calibration) == pytest.approx(1)


@pytest.mark.parametrize("calibration", SHIPPED)
@given(one=SCORE, other=SCORE)
def test_relevance_is_between_nothing_and_one_and_never_falls(
    calibration: Calibration, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert 0 <= relevance(low, calibration) <= relevance(high, calibration) <= 1


def test_each_model_has_its_own_scale_and_an_unknown_one_the_strictest() -> None:
    assert default_calibration("all-MiniLM-L6-v2") == BUNDLED
    assert default_calibration("text-embedding-3-small") == TEXT_EMBEDDING_3_SMALL
    assert not TEXT_EMBEDDING_3_SMALL.measured
    assert default_calibration("a model nobody measured") == CONSERVATIVE
    assert not CONSERVATIVE.measured
    assert relevance(0.5, CONSERVATIVE) < relevance(0.5, BUNDLED)


@given(st.sampled_from(SHIPPED), st.lists(SCORE, max_size=30), SCORE)
def test_recalibration_never_goes_below_what_was_shipped(base: Calibration, scores: list[float], score: float) -> None:
    lifted = recalibrate(base, scores)
    assert relevance(score, lifted) <= relevance(score, base) + 1e-9
    marks = astuple(lifted)[:4]
    assert list(marks) == sorted(marks)
    assert lifted.measured == base.measured


@given(st.sampled_from(SHIPPED), st.lists(st.floats(0.4, 0.85), min_size=1, max_size=30))
def test_the_median_of_a_stores_own_unrelated_texts_is_no_relevance(base: Calibration, scores: list[float]) -> None:
    lifted = recalibrate(base, scores)
    assert lifted.unrelated == pytest.approx(median(scores))
    assert relevance(median(scores), lifted) == 0
    assert relevance(base.same, lifted) == pytest.approx(1)


def test_without_scores_and_where_all_texts_are_the_same_a_scale_remains() -> None:
    assert recalibrate(BUNDLED, []) == BUNDLED
    crowded = recalibrate(BUNDLED, [1.0, 1.0, 1.0])
    assert crowded.unrelated == 0.9
    assert 0 < relevance(0.95, crowded) < relevance(0.99, crowded) < 1
