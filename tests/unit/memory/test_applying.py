"""Conditions against facts: a pattern is left out only where it is known not to apply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.errors import InvalidInput
from knowledge.memory.rules.conditions import Facts, holds, may_apply, read_facts
from knowledge.models import AppliesWhen
from tests.support.cases import each_case, over

PYTHON = AppliesWhen(technology="python", version=">=3.10,<3.13")
HERE = Facts(technology="python", version="3.12.1", tool="pytest", error="E   TypeError: price is None")


@over(
    "version, expected",
    [
        ("3.12.1", True),
        ("3.10", True),
        ("3.12.0rc1", True),
        ("3.13", False),
        ("3.9.18", False),
        ("2.7", False),
        (None, None),
        ("latest", None),
        ("3.12" * 100, None),
        ("", None),
    ],
)
def test_a_version_lies_in_the_range_or_not_or_is_no_version(version: str | None, expected: bool | None) -> None:  # noqa: FBT001
    assert holds(PYTHON, Facts(technology="Python ", version=version)) is expected


@each_case
def test_a_version_may_be_told_as_programs_and_files_tell_it(
    told: str,
    below_two: bool | None,  # noqa: FBT001
    from_2_5: bool | None,  # noqa: FBT001
) -> None:
    """Of a range it is known only that no version of it lies in the other one; else nothing is."""
    facts = Facts(technology="pydantic", version=told)
    assert holds(AppliesWhen(technology="pydantic", version="<2"), facts) is below_two
    assert holds(AppliesWhen(technology="pydantic", version=">=2.5"), facts) is from_2_5


@each_case
def test_a_sentence_of_versions_alone_is_a_condition(sentence: str) -> None:
    """A fix for pydantic 1 was handed out for pydantic 2, where its author had said so in words."""
    for version, may in (("2.7", False), ("1.10.13", True), ("latest", True), (None, True)):
        assert may_apply((), Facts(technology="pydantic", version=version), [sentence]) is may
    assert may_apply((), Facts(technology="python", version="3.12"), [sentence]), "a version of something else"
    two = Facts(technology="pydantic", version="2.7")
    assert not may_apply((AppliesWhen(tool="pytest"),), two, [sentence])
    assert may_apply((AppliesWhen(technology="pydantic", version=">=2"),), two, [sentence]), "it is known to apply"
    for another in ("pydantic>=2", "When models are slow to load"):
        assert may_apply((), two, [sentence, another]), "another entry tells otherwise"
    assert not may_apply((), two, [sentence, "pydantic<1.5"])


@each_case
def test_a_version_may_be_told_as_its_program_prints_it(told: str, version: str) -> None:
    """None of these was known, so that what they rule out was handed out."""
    assert holds(AppliesWhen(technology="it", version=f"=={version}"), Facts(technology="it", version=told)) is True
    assert holds(AppliesWhen(technology="it", version=f"<{version}"), Facts(technology="it", version=told)) is False
    assert holds(AppliesWhen(technology="it", version=f">{version}"), Facts(technology="it", version=told)) is False


@each_case
def test_what_may_be_another_version_than_the_first_that_is_told_is_none(told: str) -> None:
    for wanted in ("<1", ">100"):
        told_of = Facts(technology="it", version=told)
        assert holds(AppliesWhen(technology="it", version=wanted), told_of) is None


@each_case
def test_a_candidate_and_a_patch_level_lie_beside_their_release(
    told: str,
    wanted: str,
    expected: bool | None,  # noqa: FBT001
) -> None:
    """Of `1.1.1w` the last number was cut off, and it lay below 1.1.1."""
    assert holds(AppliesWhen(technology="it", version=wanted), Facts(technology="it", version=told)) is expected


@given(st.text(alphabet='av1. -+(),/":\n', max_size=200))
def test_any_text_may_be_told_as_a_version(told: str) -> None:
    holds(AppliesWhen(technology="it", version=">=2,<3"), Facts(technology="it", version=told))


@over(
    "sentence",
    [
        "Not with pydantic<2",
        "When moving from pydantic<2 to pydantic 2",
        "pydantic<2 or after the upgrade",
        "When a bugfix task in pydantic fails with E42.",
        "pydantic",
        "",
        "<2",
        "pydantic<2 " + "x" * 200,
        "pydantic 1.10.12",
    ],
)
def test_a_sentence_that_says_more_or_something_else_leaves_a_pattern_in(sentence: str) -> None:
    assert may_apply((), Facts(technology="pydantic", version="2.7"), [sentence])


@each_case
def test_a_version_of_few_numbers_may_be_any_that_begins_so(
    told: str,
    wanted: str,
    expected: bool | None,  # noqa: FBT001
) -> None:
    """For `python 3` all that was learned for 3.9 and later was left out."""
    assert holds(AppliesWhen(technology="python", version=wanted), Facts(technology="python", version=told)) is expected


def test_a_task_of_the_technology_that_an_entry_is_of_may_have_the_one_that_it_names_as_well() -> None:
    """A library's condition hid an entry from every task of the language that it was learned in."""
    below_two = AppliesWhen(technology="pydantic", version="<2")

    assert holds(below_two, Facts(technology="Python"), ["python"]) is None
    assert may_apply((below_two,), Facts(technology="python", version="3.11"), (), ["python"]), "Python's version"
    assert holds(below_two, Facts(technology="go"), ["python"]) is False
    assert holds(below_two, Facts(technology="django"), ["python"]) is False, "told as a fact"
    assert holds(below_two, Facts(technology="pydantic", version="2.7"), ["python"]) is False


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


@over(
    "told",
    ["vite@5.2", "vite 5", "Vite v5.2.0", "vite==5", "vite>=5,<6", "vite ^5", "vite/5.2.0 linux-x64", "vite version 5"],
)
def test_a_tool_is_known_by_its_name_whatever_its_version(told: str) -> None:
    assert holds(AppliesWhen(tool="vite"), Facts(tool=told)) is True
    assert holds(AppliesWhen(tool="vitest"), Facts(tool=told)) is False


def test_a_version_that_a_condition_names_is_compared_as_it_stands() -> None:
    assert holds(AppliesWhen(tool="vite 5"), Facts(tool="vite 5")) is True
    assert holds(AppliesWhen(tool="vite 5"), Facts(tool="vite 4")) is False
    assert holds(AppliesWhen(tool="vite 5"), Facts(tool="vite")) is None
    assert holds(AppliesWhen(tool="@angular/cli"), Facts(tool="@angular/cli")) is True


@given(st.text(max_size=300))
def test_any_text_may_be_a_tool(told: str) -> None:
    assert holds(AppliesWhen(tool=told), Facts(tool=told)) is True


def test_facts_are_those_told_else_the_usual_ones() -> None:
    assert read_facts(None, technology="go") == Facts(technology="go")
    told = read_facts({"technology": "python", "version": "3.12"}, technology="go", error="KeyError")
    assert told == Facts(technology="python", version="3.12", error="KeyError")


@over("told", [(2, 7), [2, 7]])
def test_a_version_may_be_told_in_numbers(told: Any) -> None:
    assert read_facts({"technology": "python", "version": told}) == Facts(technology="python", version="2.7")


@over(
    "told, field",
    [
        ({"verison": "3"}, "facts.verison"),
        ({"version": 3.12}, "facts.version"),
        ({"version": ()}, "facts.version"),
        ({"version": (3, "final")}, "facts.version"),
        ({"version": (True, 2)}, "facts.version"),
        (["version"], "facts"),
        ("2.7", "facts"),
    ],
)
def test_a_fact_that_is_none_is_named(told: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_facts(told)
    assert refused.value.field == field
