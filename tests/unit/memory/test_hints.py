"""Hints: whether a task gets one, by the chance that it is right against the chance that the agent needs none."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.memory.rules.hints import (
    MAX_GAP,
    HintDecision,
    decide,
    features,
    fit_weights,
    is_held_out,
    logit,
    rate_difference,
)
from knowledge.models import MIN_OUTCOMES, PRIOR_WEIGHTS, ContextId, Experience, Reason

NONE = Experience()
SOME = Experience(outcomes=MIN_OUTCOMES, unaided=18, unaided_worked=9)
SURE, UNSURE = features(0.9, 0.9, 1.0), features(0.1, 0.3, 0.0)


def decided(
    values: tuple[float, ...],
    experience: Experience = SOME,
    near: tuple[float, float] = (0.0, 0.0),
    *,
    margin: float = 0,
) -> HintDecision:
    return decide(values, experience, near, margin=margin, level=0.6)


@pytest.mark.parametrize("confidence", [0.0, 0.4, 0.59, 0.61, 0.9, 1.0])
def test_without_outcomes_the_level_of_confidence_decides(confidence: float) -> None:
    found = decided(features(confidence, 0.9, 1.0), NONE)
    assert found.speak is (confidence >= 0.6)
    assert found.reason is (Reason.SPOKE if found.speak else Reason.NOT_SURE)


def test_from_the_first_outcome_on_the_chances_decide_whatever_the_level() -> None:
    values = features(0.5, 0.9, 1.0)
    assert not decided(values, NONE).speak
    assert decided(values, replace(NONE, outcomes=1)).speak


def test_with_outcomes_a_hint_is_given_where_it_is_likelier_right_than_the_agent_alone() -> None:
    assert decided(SURE).speak
    assert decided(SURE).reason is Reason.SPOKE
    assert not decided(UNSURE).speak
    assert decided(UNSURE).reason is Reason.NOT_SURE
    able = decided(SURE, near=(30.0, 30.0))
    assert (able.speak, able.reason) == (False, Reason.AGENT_KNOWS)
    assert able.alone == pytest.approx((30 + 2 * SOME.base_rate) / 32)
    assert decided(features(0.5, 0.5, 0.0), near=(30.0, 0.0)).speak, "where it fails alone, any chance is worth a try"


def test_the_margin_is_how_much_likelier_right_it_must_be() -> None:
    chance = decided(SURE)
    gap = chance.right - chance.alone
    assert decided(SURE, margin=gap - 1e-9).speak
    assert not decided(SURE, margin=gap + 1e-9).speak


def test_tasks_far_from_the_question_count_as_two_beside_those_near() -> None:
    assert decided(SURE).alone == SOME.base_rate == pytest.approx(0.5)
    assert decided(SURE, near=(2.0, 2.0)).alone == pytest.approx(0.75)
    assert Experience().base_rate == 0.5, "nothing known of it"
    known = decide(SURE, SOME, (0.0, 0.0), margin=0.0, level=0.6, base_rate=0.8)
    assert known.alone == pytest.approx(0.8)


@given(st.floats(0, 1), st.floats(0.01, 0.99), st.floats(0, 50))
def test_features_are_finite_and_a_gap_beyond_the_largest_says_no_more(
    confidence: float, mean: float, gap: float
) -> None:
    values = features(confidence, mean, gap)
    assert all(abs(each) < 20 for each in values)
    assert values[-1] == min(gap, MAX_GAP)
    assert 0 <= decided(values).right <= 1


# weights


def told(number: int, chance: float, *, seed: int = 1) -> list[tuple[tuple[float, ...], bool]]:
    source = random.Random(seed)
    return [
        (features(source.random(), source.uniform(0.2, 0.9), source.uniform(0, 2)), source.random() < chance)
        for _ in range(number)
    ]


def test_a_few_outcomes_leave_the_weights_at_the_prior() -> None:
    assert fit_weights(told(MIN_OUTCOMES - 1, 1.0)) == PRIOR_WEIGHTS
    assert fit_weights([]) == PRIOR_WEIGHTS
    assert fit_weights(told(MIN_OUTCOMES, 1.0)) != PRIOR_WEIGHTS


def test_weights_follow_what_came_of_the_hints() -> None:
    """The mean chance that the fitted weights give is near the rate at which hints worked."""
    for rate in (0.1, 0.5, 0.9):
        rows = told(400, rate)
        known = replace(SOME, weights=fit_weights(rows))
        chances = [decided(values, known).right for values, _ in rows]
        assert sum(chances) / len(chances) == pytest.approx(rate, abs=0.05)


def test_a_feature_that_tells_right_from_wrong_gets_the_weight() -> None:
    source = random.Random(3)
    rows = []
    for _ in range(300):
        values = features(source.random(), source.uniform(0.2, 0.9), source.uniform(0, 2))
        rows.append((values, values[2] > 0))
    fitted = fit_weights(rows)
    assert fitted[2] > 2 * PRIOR_WEIGHTS[2]
    assert abs(fitted[1]) < PRIOR_WEIGHTS[1]


def test_the_same_outcomes_give_the_same_weights() -> None:
    assert fit_weights(told(80, 0.6)) == fit_weights(told(80, 0.6))


@pytest.mark.parametrize("worked", [False, True])
def test_outcomes_that_are_all_alike_give_weights_that_are_finite(*, worked: bool) -> None:
    rows = [(features(1.0, 0.99, MAX_GAP), worked)] * 500
    assert all(abs(each) < 5 for each in fit_weights(rows))


# the hold-out


def ids(number: int) -> list[ContextId]:
    source = random.Random(7)
    return [ContextId(UUID(int=source.getrandbits(128))) for _ in range(number)]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5])
def test_the_share_that_is_held_out_is_the_one_set(share: float) -> None:
    every = ids(20_000)
    held = [each for each in every if is_held_out(each, share)]
    assert len(held) == pytest.approx(share * len(every), abs=4 * (len(every) * share) ** 0.5)
    assert held == [each for each in every if is_held_out(each, share)], "by the id alone"
    assert all(is_held_out(each, 0.6) for each in held)


# the lift


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
    ],
)
def test_the_interval_is_that_of_newcombes_paper(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    """Newcombe 1998, table II, method 10."""
    found = rate_difference(*counts)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    assert found.difference == pytest.approx(counts[0] / counts[1] - counts[2] / counts[3])


def test_without_trials_on_both_sides_there_is_no_difference() -> None:
    assert rate_difference(0, 0, 1, 2) is None
    assert rate_difference(1, 2, 0, 0) is None


@given(st.floats(0, 1))
def test_log_odds_are_finite(probability: float) -> None:
    assert abs(logit(probability)) < 14
