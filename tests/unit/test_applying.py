"""Conditions against facts: a pattern is left out only where it is known not to apply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import InvalidInput
from knowledge.memory.applying import Facts, holds, may_apply, read_facts
from knowledge.models import AppliesWhen

PYTHON = AppliesWhen(technology="python", version=">=3.10,<3.13")
HERE = Facts(technology="python", version="3.12.1", tool="pytest", error="E   TypeError: price is None")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.12.1", True), ("3.10", True), ("3.12.0rc1", True), ("3.13", False), ("3.9.18", False), ("2.7", False),
        (None, None), ("latest", None), ("3.12" * 100, None), ("", None),
    ],
)  # fmt: skip
def test_a_version_lies_in_the_range_or_not_or_is_no_version(version: str | None, expected: bool | None) -> None:  # noqa: FBT001
    assert holds(PYTHON, Facts(technology="Python ", version=version)) is expected


def test_a_version_is_one_of_the_technology_that_is_asked_for() -> None:
    assert holds(PYTHON, Facts(technology="go", version="3.12")) is False
    assert holds(PYTHON, Facts(version="3.9")) is None, "of which technology is not known"
    assert holds(AppliesWhen(technology="python"), Facts(technology="python")) is True


def test_tool_and_error_are_conditions_too() -> None:
    assert holds(AppliesWhen(tool="PyTest"), HERE) is True
    assert holds(AppliesWhen(tool="tox"), HERE) is False
    assert holds(AppliesWhen(error=r"TypeError: .* None$"), HERE) is True
    assert holds(AppliesWhen(error=r"KeyError"), HERE) is False
    assert holds(AppliesWhen(error="KeyError"), Facts()) is None


def test_all_conditions_of_an_entry_must_hold_and_one_that_does_not_is_enough() -> None:
    assert holds(AppliesWhen(technology="python", version="<3.13", tool="pytest", error="TypeError"), HERE) is True
    assert holds(AppliesWhen(technology="python", version="<3.12", tool="pytest"), HERE) is False
    unknown = Facts(technology="python")
    assert holds(AppliesWhen(technology="python", tool="pytest"), unknown) is None
    assert holds(AppliesWhen(technology="go", tool="pytest"), unknown) is False


def test_a_pattern_applies_where_the_conditions_of_any_entry_may_hold() -> None:
    old, new = AppliesWhen(tool="tox"), AppliesWhen(tool="pytest")
    assert may_apply((), HERE), "nothing was told"
    assert may_apply((old, new), HERE)
    assert not may_apply((old,), HERE)
    assert may_apply((old,), Facts())


def test_conditions_that_an_import_brought_and_nobody_can_read_leave_a_pattern_in() -> None:
    broken = AppliesWhen(technology="python", version="no range", error="(")
    assert holds(broken, HERE) is None


@given(
    st.builds(
        AppliesWhen, **{name: st.none() | st.text(max_size=5) for name in ("technology", "version", "tool", "error")}
    )
)
def test_where_nothing_is_known_everything_may_apply(conditions: AppliesWhen) -> None:
    assert may_apply((conditions,), Facts())


def test_facts_are_those_told_else_the_usual_ones() -> None:
    assert read_facts(None, technology="go") == Facts(technology="go")
    told = read_facts({"technology": "python", "version": "3.12"}, technology="go", error="KeyError")
    assert told == Facts(technology="python", version="3.12", error="KeyError")


@pytest.mark.parametrize(("told", "field"), [({"verison": "3"}, "facts"), ({"version": 3.12}, "facts.version")])
def test_a_fact_that_is_none_is_named(told: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_facts(told)
    assert refused.value.field == field
