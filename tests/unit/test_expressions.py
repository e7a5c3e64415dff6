"""Regular expressions of captured conditions: what Python's engine says, in time that nothing blows up."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.memory.expressions import MAX_CHARS, MAX_TEXT_CHARS, expression

ATOMS = st.sampled_from(
    ["a", "b", "A", "_", ".", r"\.", r"\n", "[ab]", "[^a]", "[]a]", r"[\w-]", r"\d", r"\W", r"\s", "ü"]
)
PLACES = st.sampled_from(["^", "$", r"\b"])
REPEATS = st.sampled_from(["", "?", "*", "+", "{2}", "{1,}", "{0,2}", "*?", "+?"])


def larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    rows = st.lists(smaller, min_size=0, max_size=3).map("".join)
    groups = st.tuples(st.sampled_from(["(", "(?:"]), rows, REPEATS).map(lambda each: f"{each[0]}{each[1]}){each[2]}")
    ways = st.lists(rows, min_size=2, max_size=3).map(lambda each: f"({'|'.join(each)})")
    return groups | ways | rows


SOURCES = st.recursive(st.tuples(ATOMS, REPEATS).map("".join) | PLACES, larger, max_leaves=8)
TEXTS = st.text("abAB_.1 \n-]ü", max_size=12)


@settings(max_examples=500)
@given(SOURCES, TEXTS, st.booleans())
def test_it_finds_what_pythons_own_engine_finds(source: str, text: str, ignore_case: bool) -> None:  # noqa: FBT001
    source = f"(?i){source}" if ignore_case else source
    assert expression(source).found_in(text) == (re.search(source, text, re.MULTILINE) is not None)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"TypeError: .* got .*NoneType", "E   TypeError: add() got a NoneType"),
        (r"^E\s+KeyError: '\w+'$", "x\nE   KeyError: 'price'\ny"),
        (r"(?i)connection (refused|reset)", "psycopg: Connection Refused"),
        (r"\bENOSPC\b", "write: ENOSPC, no space"),
        (r"expected \{\d{1,3}\}", "expected {12}"),
        (r"a/b (c)", "a/b c"),
    ],
)
def test_expressions_as_people_write_them(source: str, text: str) -> None:
    assert expression(source).found_in(text)
    assert not expression(source).found_in("something else entirely")


@pytest.mark.parametrize(
    "source", ["(a+)+=", "(a|aa)+=", "(a|a?)+=", ".*.*.*.*.*=x", "(.*a){20}=", r"(\w+\s?)*$x", "((a*)*)*b"]
)
def test_no_expression_blows_up(source: str) -> None:
    began = time.perf_counter()
    assert not expression(source).found_in("a" * 100_000 + "!")
    assert time.perf_counter() - began < 3, "a moment, on a busy machine; with Python's engine it never ends"


def test_the_largest_expression_on_the_strangest_text_takes_a_moment() -> None:
    strange = "".join(chr(0x4E00 + number) for number in range(MAX_TEXT_CHARS))  # each letter a step of its own
    began = time.perf_counter()
    assert not expression(r"(\w?){100}(\w{0,90})=").found_in(strange)
    assert time.perf_counter() - began < 10


def test_of_a_long_text_the_beginning_and_the_end_are_looked_at() -> None:
    padding = "x" * MAX_TEXT_CHARS
    assert expression("^first").found_in(f"first{padding}")
    assert expression("last$").found_in(f"{padding}last")
    assert not expression("middle").found_in(f"{padding}middle{padding}")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("(", "no regular expression"),
        ("a**", "no regular expression"),
        ("[[a]", "no regular expression"),
        ("x" * (MAX_CHARS + 1), f"{MAX_CHARS + 1} characters"),
        (r"(a)\1", r"may not have \\1"),
        (r"\Astart", r"may not have \\A"),
        (r"\Bx", r"may not have \\B"),
        (r"\x41", r"may not have \\x"),
        ("(?=a)", "may have groups"),
        ("(?P<name>a)", "may have groups"),
        ("(?s:a)", "may have groups"),
        ("a++", "possessive"),
        ("a{2}+", "possessive"),
        ("a{b", r"write \\{"),
        ("a{,3}", r"write \\{"),
        ("a{999}", "too large"),
        ("((a{30}){30}){30}", "too large"),
        ("(a|b|c|d){100}", "too large"),
    ],
)
def test_what_is_not_allowed_is_said(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        expression(source)
