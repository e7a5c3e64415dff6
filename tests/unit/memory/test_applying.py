"""Conditions against facts: a pattern is left out only where it is known not to apply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.errors import InvalidInput
from knowledge.memory.rules.conditions import Facts, holds, may_apply, read_facts
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


@pytest.mark.parametrize(
    ("told", "below_two", "from_2_5"),
    [
        ("v2", False, None), ("2.7", False, True), ("2.0a1", False, False), ("Python 2.7.18", False, True),
        ("3.11.7 (main, Nov  1) [GCC 9]", False, True), ("pydantic==2.7", False, None), ("pydantic 1.10", True, False),
        ("2.x", False, None), ("2.*", False, None), ("2.4.x", False, False), ("1.x", None, False),
        (">=2", False, None), (">=1", None, None), (">1,<=2", None, False), (">=1,<2", None, False),
        ("~=2.1", False, None), ("==2.4", False, False), ("^2.1", False, None), ("^0.3", None, False),
        ("^0", None, False), ("~2.1", False, False), ("~1", None, False), ("!=2", None, None), ("===2", None, None),
        ("2 or 3", None, None), ("latest", None, None), ("^", None, None), ("1..2", None, None), ("main", None, None),
    ],
)  # fmt: skip
def test_a_version_may_be_told_as_programs_and_files_tell_it(
    told: str,
    below_two: bool | None,  # noqa: FBT001
    from_2_5: bool | None,  # noqa: FBT001
) -> None:
    """Of a range it is known only that no version of it lies in the other one; else nothing is."""
    facts = Facts(technology="pydantic", version=told)
    assert holds(AppliesWhen(technology="pydantic", version="<2"), facts) is below_two
    assert holds(AppliesWhen(technology="pydantic", version=">=2.5"), facts) is from_2_5


@pytest.mark.parametrize(
    "sentence",
    [
        "pydantic<2", "Only with pydantic < 2.", "pydantic 1.x", "when you use Pydantic v1 only", "pydantic 1.10",
        "pydantic>=1.8, <2", "if pydantic==1.*", "pydantic ~= 1.10",
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("go1.22.3", "1.22.3"), ("go version go1.22.3 linux/amd64", "1.22.3"), ("22.1.0-alpine", "22.1.0"),
        ("node:22.1.0-alpine", "22.1.0"),
        ("3.12.4-slim-bookworm", "3.12.4"), ("1.29.3-gke.1282000", "1.29.3"), ("v1.29.3+k3s1", "1.29.3"),
        ("v1.29.4-eks-036c24b", "1.29.4"), ("Docker version 26.1.0, build 9714adc", "26.1.0"),
        ("PostgreSQL 16.2.0 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 12.2.0, 64-bit", "16.2.0"),
        ("psql (PostgreSQL) 16.2.1 (Debian 16.2-1.pgdg120+2)", "16.2.1"),
        ("3.11.8 | packaged by conda-forge | (main, Feb 16 2024)", "3.11.8"),
        ('openjdk version "21.0.2" 2024-01-16 LTS', "21.0.2"), ("gcc (Ubuntu 13.2.0-4ubuntu3) 13.2.0", "13.2.0"),
        ("pip 24.0.1 from /usr/lib/python3/dist-packages/pip (python 3.12)", "24.0.1"),
        ("nginx version: nginx/1.25.4", "1.25.4"), ("Redis server v=7.2.4 sha=00000000:0 malloc=jemalloc", "7.2.4"),
        ("git version 2.39.3 (Apple Git-146)", "2.39.3"), ("git version 2.43.0.windows.1", "2.43.0"),
        ("OpenSSL 3.0.13 30 Jan 2024", "3.0.13"), ("mysql  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64", "8.0.36"),
        ("Terraform v1.7.5\non linux_amd64", "1.7.5"), ("5.15.0-101-generic", "5.15.0"), ("jdk-21.0.2+13", "21.0.2"),
        ("node/20.11.1 linux-x64", "20.11.1"), ("Version 5.4.3", "5.4.3"), ("Client Version: v1.29.3", "1.29.3"),
        ("rustc 1.77.0 (aedd173a2 2024-03-17)", "1.77.0"), ("Apache Maven 3.9.6 (bc0240f3)", "3.9.6"),
    ],
)  # fmt: skip
def test_a_version_may_be_told_as_its_program_prints_it(told: str, version: str) -> None:
    """None of these was known, so that what they rule out was handed out."""
    assert holds(AppliesWhen(technology="it", version=f"=={version}"), Facts(technology="it", version=told)) is True
    assert holds(AppliesWhen(technology="it", version=f"<{version}"), Facts(technology="it", version=told)) is False
    assert holds(AppliesWhen(technology="it", version=f">{version}"), Facts(technology="it", version=told)) is False


@pytest.mark.parametrize(
    "told",
    [
        "older than 3.10.2", "up to 3.10.2", "not 3.10.2", "at least 3.10.2", "before go1.22.3", "3.10.2 or 3.11.4",
        "Ubuntu 22.04.1 with Python 3.10.2", "1.22.3-rc1-alpine", "21-ea+3", "4.0.0-M1.x", "3.10.2 and later",
        "between 3.10.1 and 3.11", "python3", "r2024b", "build 9714adc", "since version 3.10.2", "18 || 20",
        "16 || 18 || 20", "18-20", "7.4-8.1", "v18 (LTS) and v20", "18 (also 20)", "2.7+", "18.x+", "18 | 20",
        "5.5.5-10.11.6-MariaDB",
        'java version "1.8.0_392"', "1.8.0_402", "Python 2.7 on 3.11 host",
    ],
)  # fmt: skip
def test_what_may_be_another_version_than_the_first_that_is_told_is_none(told: str) -> None:
    for wanted in ("<1", ">100"):
        told_of = Facts(technology="it", version=told)
        assert holds(AppliesWhen(technology="it", version=wanted), told_of) is None


@pytest.mark.parametrize(
    ("told", "wanted", "expected"),
    [
        ("OpenSSL 1.1.1w  11 Sep 2023", "<1.1.1", False), ("1.1.1w", "<=1.1.1", None), ("1.1.1w", "<1.2", True),
        ("Sudo version 1.9.13p3", "<1.9.5", False), ("ruby 2.7.8p225 (2023-03-30)", "<2.7.5", False),
        ("9.6p1", "<9.2", False), ("go1.22.9rc1", "<1.22.5", None), ("Python 3.13.0rc2", ">=3.13", None),
        ("Python 3.13.0rc2", "<3.13", False), ("Python 3.13.0rc2", ">=3.12", True), ("5.4.0-beta", ">=5.4", None),
        ("3.0.0.RC1", "<2", False), ("Python 3.11.8+ (heads/3.11:abc)", "<3.11.5", None),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    "sentence",
    [
        "Not with pydantic<2", "When moving from pydantic<2 to pydantic 2", "pydantic<2 or after the upgrade",
        "When a bugfix task in pydantic fails with E42.", "pydantic", "", "<2", "pydantic<2 " + "x" * 200,
        "pydantic 1.10.12",
    ],
)  # fmt: skip
def test_a_sentence_that_says_more_or_something_else_leaves_a_pattern_in(sentence: str) -> None:
    assert may_apply((), Facts(technology="pydantic", version="2.7"), [sentence])


@pytest.mark.parametrize(
    ("told", "wanted", "expected"),
    [
        ("3", ">=3.9", None), ("Python 3", ">=3.9", None), ("3.10", ">=3.10.5", None), ("3.10", "==3.10.12", None),
        ("3", "<3.12", True), ("3.10", "==3.10.*", True), ("3.10", ">=3.11", False), ("3.10", "<3.10", False),
        ("3.10.0", ">=3.10.5", False), ("3.10", "!=3.10", False), ("3.10", "!=3.10.*", False), ("3a1", ">=3.9", False),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("told", [(2, 7), [2, 7]])
def test_a_version_may_be_told_in_numbers(told: Any) -> None:
    assert read_facts({"technology": "python", "version": told}) == Facts(technology="python", version="2.7")


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"verison": "3"}, "facts"),
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
