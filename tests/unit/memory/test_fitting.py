"""How well a pattern's fields fit what is asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.memory.rules.facets import MISSING_FACTOR, OTHER_FACTOR, fit, fits
from knowledge.memory.rules.ranking import Match, strength
from knowledge.memory.rules.success import success_rate
from knowledge.models import PointFilter
from tests.support.cases import over
from tests.support.entries import NOON, evidence, failure, rejection

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
    st.sampled_from([1.0, MISSING_FACTOR, OTHER_FACTOR, OTHER_FACTOR**3]),
)
def test_fields_never_turn_over_what_evidence_says(one: float, another: float) -> None:
    """D33: 9 of 10 before 1 of 1, and that before one that failed when it was tried, whatever their fields."""

    def counted(successes: int, attempts: int, by: float) -> float:
        proof = evidence("a", success_count=successes, attempt_count=attempts)
        return strength(Match(evidence=proof, relevance=0.8, score=0.5, fit=by))

    assert counted(9, 10, one) > counted(1, 1, another) > counted(1, 2, 1.0)
    assert success_rate(9, 10) * 0.84**3 > success_rate(1, 1) > success_rate(9, 10) * 0.83**3, "as its docstring says"
