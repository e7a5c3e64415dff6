"""Regular expressions of captured conditions: looked for in time that nothing blows up."""

from __future__ import annotations

import time

import pytest

from knowledge.memory.rules.conditions import MAX_CHARS, MAX_TEXT_CHARS, expression
from tests.support.cases import each_case, over


@each_case
def test_expressions_as_people_write_them(source: str, text: str) -> None:
    assert expression(source).matches(text)
    assert not expression(source).matches("something else entirely")


@over("source", ["(a+)+=", "(a|aa)+=", "(a|a?)+=", ".*.*.*.*.*=x", "(.*a){20}=", r"(\w+\s?)*$x", "((a*)*)*b"])
def test_no_expression_blows_up(source: str) -> None:
    began = time.perf_counter()
    assert not expression(source).matches("a" * 100_000 + "!")
    assert time.perf_counter() - began < 3, "a moment, on a busy machine; with Python's own engine it never ends"


def test_of_a_long_text_the_beginning_and_the_end_are_looked_at() -> None:
    padding = "x" * MAX_TEXT_CHARS
    assert expression("^first").matches(f"first{padding}")
    assert expression("last$").matches(f"{padding}last")
    assert not expression("middle").matches(f"{padding}middle{padding}")


@over(
    "source, why",
    [
        ("(", "missing"),
        ("a**", "bad repetition"),
        ("[[a", "missing"),
        ("x" * (MAX_CHARS + 1), f"{MAX_CHARS + 1} characters"),
        (r"(a)\1", "invalid escape"),
        ("(?=a)", "invalid perl operator"),
        ("a{9999}", "invalid repetition"),
        ("((a{30}){30}){30}", "invalid repetition"),
        ("a)(?:b", "unexpected"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_is_not_allowed_is_said(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        expression(source)


def test_letters_beyond_ascii_are_letters() -> None:
    assert expression("^größe .ß$").matches("größe üß")
    assert not expression("^größe .$").matches("größe üß")
