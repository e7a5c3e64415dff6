"""How well a pattern's fields fit what is asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.memory.rules.arms import Counts, order_score
from knowledge.memory.rules.facets import MISSING_FACTOR, OTHER_FACTOR, fit, fits
from knowledge.memory.rules.ranking import UNVERIFIED_FACTOR, Match, strength
from knowledge.models import PointFilter
from tests.support.cases import over
from tests.support.entries import HERE, NOON, evidence, failure, rejection

ANYWHERE = PointFilter(workspace="default", live_at=NOON)
ASKED = PointFilter(workspace="default", live_at=NOON, agent_type="backend", task_type="bugfix", technology="python")


def test_as_asked_counts_whole_untold_less_and_another_value_least() -> None:
    technologies = ("python", None, "go")
    factors = [fit(evidence("a", words=failure(technology=each)), ASKED) for each in technologies]
    assert factors == [1.0, MISSING_FACTOR, OTHER_FACTOR]
    assert all(more > less for more, less in pairwise(factors))


@over("told", ["Python", "PYTHON", " python"])
def test_a_value_in_another_case_is_as_asked(told: str) -> None:
    """As of conditions: two agents that spell a technology in two ways are not two technologies."""
    spelt = evidence("a", words=failure(technology=told))
    assert fit(spelt, ASKED) == 1.0
    assert fits(spelt, ASKED)


def test_each_field_counts_and_what_is_not_asked_does_not() -> None:
    other = evidence("a", words=failure(agent_type="frontend", task_type="feature", technology="go"))
    assert fit(other, ASKED) == pytest.approx(OTHER_FACTOR**3)
    assert fit(other, ANYWHERE) == 1.0


def test_a_gate_decision_has_no_agent_and_fits_all_the_same() -> None:
    gate = evidence("a", words=rejection())
    assert fits(gate, ASKED)
    assert fit(gate, ASKED) == pytest.approx(MISSING_FACTOR**3)
    assert not fits(evidence("b", words=failure(technology="go")), ASKED)


@given(
    st.sampled_from([1.0, MISSING_FACTOR, OTHER_FACTOR, MISSING_FACTOR**3, OTHER_FACTOR**3]),
    st.sampled_from([None, "pytest"]),
)
def test_fields_turn_over_one_failure_and_not_two(factor: float, verified_by: str | None) -> None:
    """D33: 9 of 10 and 1 of 1 before 1 of 3, whatever their fields and whoever vouches for them."""

    def counted(successes: int, attempts: int, by: float, verified_by: str | None) -> float:
        counts = Counts(successes=successes, failures=attempts - successes)
        match = Match(
            evidence=evidence("a", words=failure(verified_by=verified_by)),
            relevance=0.8,
            score=0.5,
            point_id=HERE,
            likeness=0.0,
            counts=counts,
            fit=by,
            order=order_score(0.0, 0.0, counts),
        )
        return strength(match)

    for worked, tried in ((9, 10), (1, 1)):
        assert counted(worked, tried, factor, verified_by) > counted(1, 3, 1.0, "pytest")
    bounds = [Counts(successes=1.0, failures=failed).upper_bound for failed in (0.0, 1.0, 2.0)]
    worst = bounds[0] * UNVERIFIED_FACTOR
    assert bounds[1] > worst * OTHER_FACTOR**3 > bounds[2] > worst * 0.88**3, "as its docstring says"
