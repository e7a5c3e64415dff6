"""Arms: resolutions that share a key, and what their records say at a question."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.models.access import REPORTER_PREFIX
from knowledge.memory.rules.arms import (
    HALF_LIFE,
    LIKENESS_WEIGHT,
    LOW_TRUST_WEIGHT,
    OTHER_WEIGHT,
    TEMPERATURE,
    Counts,
    arm_counts,
    arm_key,
    count,
    kernel,
    order_score,
    record_weight,
    situation_key,
)
from knowledge.models import PointId, TrialRecord
from tests.support.entries import HERE, NOON, trial
from tests.support.stores import numbered

NEAR, FAR = PointId(numbered(11)), PointId(numbered(12))
ALL_HERE = {HERE: 1.0}


# keys


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Run `git branch -d`", "It took a `git branch -d`, nothing else", True),
        ("Run `git  branch\t-d`", "`git branch -d`", True),
        ("Run `git branch -d`", "Run `git branch -D`", False),
        ("Run `git branch -d`", "Run `git branch -d --force`", False),
        ("Run `git fetch` and `git rebase`", "First `git fetch`, then `git rebase`", True),
        ("Run `git fetch` and `git rebase`", "Run `git rebase` and `git fetch`", False),
        ("Pin `numpy==1.26`", "Pin `numpy==2.0`", False),
        ("Treat a missing price as zero", "treat a  MISSING price as zero", True),
        ("Treat a missing price as zero", "Treat a missing price as one", False),
    ],
)
def test_resolutions_with_the_same_method_share_a_key(one: str, other: str, *, same: bool) -> None:
    assert (arm_key(one, "It fell") == arm_key(other, "It fell")) is same


def test_names_of_the_case_itself_are_left_open() -> None:
    keys = {
        arm_key(f"Delete it by `git branch -D {name}`", f"error: the branch '{name}' is not fully merged.")
        for name in ("feature/login", "fix_cart", "release-1.2", "v2")
    }
    assert len(keys) == 1
    prose = [arm_key(f"Add {name} to the path", f"No module in {name}") for name in ("src/shop", "lib/cart")]
    assert prose[0] == prose[1]


def test_a_name_that_the_case_does_not_have_belongs_to_the_method() -> None:
    """A word without a digit, a dot, a slash or an underscore is no name, though the situation has it."""
    assert arm_key("`pip install numpy==1.26`", "numpy") != arm_key("`pip install numpy==2.0`", "numpy")
    assert arm_key("`systemctl restart redis`", "redis died") != arm_key("`systemctl restart nginx`", "nginx died")


@pytest.mark.parametrize("text", ["a" * 20_000, "a-" * 10_000, "`" * 20_000, "`a" * 10_000, "a/" * 10_000])
def test_no_text_makes_a_key_take_long(text: str) -> None:
    """Each match of each question has its key computed: a quarter of a second for one stopped all others."""
    begun = time.thread_time()
    for _ in range(10):
        arm_key(text, text)
    assert time.thread_time() - begun < 0.5


def test_a_situation_has_one_key_in_any_case_and_spacing() -> None:
    assert situation_key("TypeError in  the cart") == situation_key("typeerror in the cart\n")
    assert situation_key("TypeError in the cart") != situation_key("TypeError in the card")


# weights


def test_weights_fall_with_likeness_from_the_best_one() -> None:
    weights = kernel({HERE: 3.0, NEAR: 3.0 - TEMPERATURE, FAR: -60.0}, ())
    assert weights[HERE] == 1.0
    assert weights[NEAR] == pytest.approx(math.exp(-1))
    assert weights[FAR] < 1e-6
    assert kernel({}, ()) == {}


def test_the_text_of_the_question_itself_counts_whole_and_all_others_by_half_at_most() -> None:
    weights = kernel({HERE: 2.0, NEAR: 3.0, FAR: -60.0}, {HERE})
    assert weights[HERE] == 1.0
    assert weights[NEAR] == OTHER_WEIGHT
    assert weights[FAR] < 1e-6


def test_a_record_of_the_very_situation_counts_whole_wherever_its_point_is() -> None:
    key = situation_key("It fell")
    assert record_weight(trial(point_id=FAR, is_exact=False, situation=key), {}, key) == 1.0
    assert record_weight(trial(point_id=NEAR), {NEAR: 0.4}, key) == 0.4
    assert record_weight(trial(point_id=NEAR, is_exact=False), {NEAR: 0.4}, key) == 0.4 * OTHER_WEIGHT
    assert record_weight(trial(point_id=FAR), {NEAR: 0.4}, key) == 0.0


# counts


def counted(*records: TrialRecord, weights: dict[PointId, float] | None = None) -> tuple[float, float]:
    counts = count(records, weights or ALL_HERE, "")
    return counts.successes, counts.failures


def test_a_record_counts_half_once_as_many_came_after_it_as_the_half_life() -> None:
    first = trial(0, worked=False)
    for later in range(30):
        successes, failures = counted(first, *(trial(number) for number in range(1, later + 1)))
        assert failures == pytest.approx(2 ** (-later / HALF_LIFE))
        assert successes == pytest.approx(sum(2 ** (-age / HALF_LIFE) for age in range(later)))


def test_records_of_unlike_situations_age_none() -> None:
    near = [trial(number, point_id=NEAR) for number in range(1, 40)]
    assert counted(trial(0, worked=False), *near, weights={HERE: 1.0, NEAR: 0.0}) == (0.0, 1.0)
    weighed = counted(trial(0, worked=False), *near, weights={HERE: 1.0, NEAR: 0.1})
    assert weighed[1] == pytest.approx(2 ** (-3.9 / HALF_LIFE)), "by as much as they are alike"


def test_records_of_another_arm_age_none_and_do_not_count() -> None:
    """What was shown beside another and not tried keeps its record."""
    mine, others = [trial(0), trial(1)], [trial(number, arm="b", worked=False) for number in range(2, 60)]
    alone = arm_counts("a", mine, ALL_HERE, "")
    assert arm_counts("a", [*mine, *others], ALL_HERE, "") == alone


def test_a_run_of_a_task_counts_once_by_its_latest_record() -> None:
    event = ("web-shop", "T-1", "2")
    assert counted(trial(0, event=event), trial(1, event=event, worked=False)) == (0.0, 1.0)
    assert counted(trial(1, event=event), trial(0, event=event, worked=False)) == (1.0, 0.0)
    assert counted(trial(0, event=event), trial(1, event=("web-shop", "T-1", "3"), worked=False))[0] > 0, "another run"
    untold = counted(trial(0, event=None), trial(1, event=None))
    assert untold[0] == pytest.approx(1 + 2 ** (-1 / HALF_LIFE)), "tasks that have no id are two"


def test_of_a_run_a_trusted_record_stands_whatever_a_key_reports_later() -> None:
    event = ("web-shop", "T-1", "")
    later = trial(1, event=event, worked=False, low_trust=True, reporter="k")
    assert counted(trial(0, event=event), later) == (1.0, 0.0)


def test_two_runs_of_coding_agents_that_agree_count_in_full() -> None:
    runs = [trial(number, low_trust=True, reporter=f"{REPORTER_PREFIX}sessions.codex.{number}") for number in range(2)]
    assert counted(runs[0])[0] == LOW_TRUST_WEIGHT
    assert counted(*runs)[0] == pytest.approx(1 + 2 ** (-1 / HALF_LIFE))
    same = [trial(number, low_trust=True, reporter=f"{REPORTER_PREFIX}sessions.codex.1") for number in range(5)]
    assert counted(*same)[0] == LOW_TRUST_WEIGHT, "a run by itself agrees with nobody"
    keys = [trial(number, low_trust=True, reporter=f"k{number}") for number in range(2)]
    assert counted(*keys)[0] < 1, "agents' keys vouch for nobody"
    assert counted(runs[0], replace(runs[1], worked=False))[0] < 1


def test_an_agents_key_counts_once_and_by_half_until_something_trusted_worked_nearby() -> None:
    told = [trial(number, worked=False, low_trust=True, reporter="k") for number in range(20)]
    assert counted(*told) == (0.0, LOW_TRUST_WEIGHT)
    assert counted(*told, trial(30, low_trust=True, reporter="other"))[0] == LOW_TRUST_WEIGHT
    assert counted(*told, trial(30, worked=False))[1] == pytest.approx(1 + LOW_TRUST_WEIGHT * 2 ** (-1 / HALF_LIFE)), (
        "a trusted failure vouches for none"
    )
    vouched = counted(told[0], trial(30))
    assert vouched == pytest.approx((1.0, 2 ** (-1 / HALF_LIFE)))
    assert counted(told[0], trial(30, point_id=FAR)) == (0.0, LOW_TRUST_WEIGHT), "nor one far away"


@st.composite
def records(draw: st.DrawFn) -> list[TrialRecord]:
    """Draw records of few values, so that records of the same moment, run or key are common."""
    return [
        trial(
            worked=draw(st.booleans()),
            point_id=draw(st.sampled_from([HERE, NEAR, FAR])),
            is_exact=draw(st.booleans()),
            situation=draw(st.sampled_from([None, "key", "other"])),
            low_trust=draw(st.booleans()),
            reporter=draw(st.sampled_from([None, "k", "l"])),
            event=draw(st.sampled_from([None, ("p", "T-1", ""), ("p", "T-2", "1")])),
            recorded_at=NOON + timedelta(seconds=draw(st.integers(0, 2))),
        )
        for _ in range(draw(st.integers(0, 9)))
    ]


WEIGHTS = {HERE: 1.0, NEAR: 0.3, FAR: 0.01}


@given(records(), st.randoms())
def test_the_same_records_in_any_order_give_the_same_bits(found: list[TrialRecord], chance: random.Random) -> None:
    """Those of one moment too: the first of a key, and the age of each, followed from the order they were read in."""
    assert count(chance.sample(found, len(found)), WEIGHTS, "key") == count(found, WEIGHTS, "key")


@given(records(), st.integers(0, 3))
def test_one_more_success_raises_the_bound_and_one_more_failure_lowers_it(
    found: list[TrialRecord], seconds: int
) -> None:
    more = trial(9, recorded_at=NOON + timedelta(seconds=3 + seconds))
    before = count(found, WEIGHTS, "key")
    assert before.upper_bound <= count([*found, more], WEIGHTS, "key").upper_bound or before.upper_bound > 0.98
    vouched = [each for each in found if not each.low_trust]
    lowered = count([*vouched, replace(more, worked=False)], WEIGHTS, "key").upper_bound
    assert lowered < count(vouched, WEIGHTS, "key").upper_bound


# places


@pytest.mark.parametrize(
    ("successes", "failures", "mean", "bound"),
    [(0, 0, 0.5, 0.789), (1, 0, 0.667, 0.902), (1, 1, 0.5, 0.724), (9, 1, 0.833, 0.937), (0, 6, 0.125, 0.235)],
)
def test_the_bound_is_the_mean_and_one_standard_deviation(
    successes: float, failures: float, mean: float, bound: float
) -> None:
    counts = Counts(successes=successes, failures=failures)
    assert counts.mean == pytest.approx(mean, abs=5e-4)
    assert counts.upper_bound == pytest.approx(bound, abs=5e-4)


@given(st.floats(0, 12), st.floats(0, 12), st.floats(0.01, 2))
def test_the_bound_rises_with_successes_and_falls_with_failures(worked: float, failed: float, more: float) -> None:
    bound = Counts(successes=worked, failures=failed).upper_bound
    assert 0 < bound <= 1
    assert Counts(successes=worked + more, failures=failed).upper_bound >= bound
    assert Counts(successes=worked, failures=failed + more).upper_bound < bound


def test_the_situation_decides_first_and_evidence_between_like_ones() -> None:
    proven, broken = Counts(successes=12.0), Counts(failures=12.0)
    assert order_score(0.0, 0.0, proven) > order_score(0.0, 0.0, Counts()) > order_score(0.0, 0.0, broken)
    exact, alike = order_score(8.0, 8.0, Counts(successes=1.0)), order_score(3.0, 8.0, proven)
    assert exact > alike, "the same text, once, before another that worked every time"
    assert order_score(-1.0, 0.0, proven) - order_score(0.0, 0.0, proven) == pytest.approx(-LIKENESS_WEIGHT)
