"""What a text says, taken apart."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.memory.rules import similarity
from knowledge.models import TermStatistics
from knowledge.text.bm25 import term_counts, term_id
from knowledge.text.profile import Rarity, profile
from knowledge.text.stack_traces import Frame, read_trace
from tests.support.cases import each_case, over, read_sample

SEEN = ("the cart total is wrong", "the cart is empty", "`round_half_even` is missing in the cart")
STATISTICS = TermStatistics(
    documents=len(SEEN), frequencies=Counter(term for text in SEEN for term in term_counts(text))
)
RARITY = Rarity(STATISTICS)


def test_names_numbers_versions_codes_and_exceptions_are_told_apart() -> None:
    found = profile("ValueError E501 in `pay` of shop/cart.py: 3.7.2 holds 42 of -8.0, HADOOP-18613, Redis", RARITY)
    assert found.exceptions == {"valueerror"}
    assert found.codes == {"e501", "hadoop-18613"}
    assert found.versions == {"3.7.2"}
    assert found.numbers == {"42", "-8.0"}
    assert {"pay", "shop", "cart", "py", "redis", "valueerror"} <= found.names.keys()
    assert not {"in", "of", "holds"} & found.names.keys()


def test_rarity_goes_from_seen_everywhere_to_never_seen() -> None:
    assert RARITY.of_word("cart") < RARITY.of_word("total") < RARITY.of_word("basket") == 1.0
    assert RARITY.of_word("round_half_even") == RARITY.of(term_id("round_half_even")) < 1, "known as a whole"
    assert RARITY.of_word("cart_total") == pytest.approx(RARITY.of_word("cart") + RARITY.of_word("total"))


def test_the_opening_is_the_first_sentence_of_a_few_words() -> None:
    found = profile("Bug\n\nThe cart total is wrong. Nobody pays.", RARITY)
    assert found.opening.keys() == profile("The cart total is wrong.", RARITY).terms.keys()


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_text_can_be_taken_apart_and_asks_for_no_term_it_did_not_announce(text: str) -> None:
    class Asked(dict[int, int]):
        seen: set[int]

        def get(self, key: int, default: int | None = None) -> int | None:  # type: ignore[override]
            self.seen.add(key)
            return default

    asked = Asked()
    asked.seen = set()
    found = profile(text, Rarity(TermStatistics(documents=3, frequencies=asked)))
    similarity.features(found, found, similarity.overlap(found, found, 1.0))
    assert asked.seen <= found.reading.term_ids


PYTEST = """tests/test_cart.py:15: in test_total
    assert total(*items) == expected
           ^^^^^^^^^^^^^
src/cart.py:8: in total
    return sum(items)
           ^^^^^^^^^^
E   TypeError: unsupported operand"""
PYTHON = """Traceback (most recent call last):
  File "/app/run.py", line 3, in <module>
    main()
  File "/app/cart.py", line 8, in total
    return sum(items)
TypeError: unsupported operand"""
JAVA = """java.lang.IllegalStateException: closed
    at org.shop.Cart.total(Cart.java:81)
    at org.shop.Main.main(Main.java:12)"""
JAVASCRIPT = """TypeError: x is undefined
    at total (/app/cart.js:8:11)
    at main (/app/run.js:3:1)"""

CSHARP = """System.InvalidOperationException: Sequence contains no elements
   at System.Linq.Enumerable.First[TSource](IEnumerable`1 source) in /src/linq/First.cs:line 21
   at Shop.Cart.Total(Func`1 pay, Order (of) order) in C:\\shop src\\Cart.cs:line 42"""
GO = """panic: runtime error: index out of range [12] with length 12

goroutine 7 [running]:
panic({0x49d1c0, 0xc00001})
\t/usr/local/go/src/runtime/panic.go:884 +0x212
shop/cart.(*Cart).Total(0xc000010000)
\t/src/cart.go:33 +0x1f
created by main.main in goroutine 1
\t/src/main.go:10 +0x2a"""
RUST = read_sample("wording_rust.txt")
BARE = """TypeError: x is undefined
    at async load (/app/cart.js:8:11)
    at file:///app/run.mjs:3:1
    at node:internal/main/run_main_module:28:49"""
TRACES = (PYTEST, PYTHON, JAVA, JAVASCRIPT, CSHARP, GO, RUST, BARE)


@over(
    "text, innermost",
    [
        (CSHARP, Frame("System.Linq.Enumerable.First[TSource]", "/src/linq/First.cs")),
        (GO, Frame("shop/cart.(*Cart).Total", "/src/cart.go")),
        (RUST, Frame("shop::cart::total", "./src/cart.rs")),
        (BARE, Frame("load", "/app/cart.js")),
        (PYTEST, Frame("total", "return sum(items)")),
        (PYTHON, Frame("total", "return sum(items)")),
        (JAVA, Frame("org.shop.Cart.total", "Cart.java")),
        (JAVASCRIPT, Frame("total", "/app/cart.js")),
    ],
)
def test_the_innermost_frame_of_a_stack_trace_is_read(text: str, innermost: Frame) -> None:
    trace = read_trace(text)
    assert trace is not None
    assert trace.innermost == innermost
    assert "test_total" not in trace.rest
    assert read_trace("no trace: at noon in Rome") is None


def test_a_deeper_recursion_ends_at_the_same_place_with_the_same_rest() -> None:
    frame = "src/cart.py:8: in total\n    return sum(items)\n"
    deeper = read_trace(PYTEST.replace("src/cart.py:8: in total\n", frame * 3 + "src/cart.py:8: in total\n"))
    assert deeper == read_trace(PYTEST)


PUT = "Treat a missing price as zero"


@each_case
def test_code_in_another_case_order_quotes_or_brackets_is_put_otherwise(one: str, other: str) -> None:
    first, second = profile(one, RARITY).reading, profile(other, RARITY).reading
    assert first.is_reworded(second)
    assert second.is_reworded(first)


@over(
    "one, other",
    [
        *((PUT, told) for told in (f"{PUT}.", PUT.lower(), PUT.upper(), f"- {PUT}", f"1. {PUT}!", f"`{PUT}`.")),
        *((PUT, told) for told in (f'"{PUT}"', f"\u201c{PUT}.\u201d", f"**{PUT}**", f"In cart.py: {PUT}", "", '"')),
        ("Set `a_b` to 3; then, restart", "set a_b to 3, then restart."),
        ("Don\u2019t retry it, do NOT", "don't retry it. Do not"),
        ("Re-run the job\nthen  wait", "re-run the job; then wait"),
        ("Use \u2018a\u2019 of f(a, b): x = 1", "Use 'a' of f(a,b): x=1"),
        ("1. Stop it\n2. Start it", "* Stop it.\n* Start it."),
        ("Empty the cache", "empty the Cache of -d and -D"),
        ("Rerun it by hand", "Re-run it at once by hand"),
        ("Add -d: it detaches, :q.", "Add -d: It detaches, :q"),
        ("Run `make test`. Did it pass?", "run `make test`; did it pass"),
    ],
)
def test_how_prose_is_set_puts_nothing_otherwise(one: str, other: str) -> None:
    first, second = profile(one, RARITY).reading, profile(other, RARITY).reading
    assert not first.is_reworded(second)
    assert not second.is_reworded(first)


@over("text", TRACES)
def test_where_code_stands_in_its_file_is_no_part_of_what_a_trace_tells(text: str) -> None:
    """A line that is added above moves all below it; goroutines and addresses are others in each run."""
    moved = re.sub(r"(?<=[a-z]:)\d+|(?<=line )\d+|(?<=goroutine )\d+|(?<=0xc0000)\d+", "977", text)
    assert moved != text
    assert read_trace(moved) == read_trace(text)
    assert profile(moved, RARITY).reading.same_words(profile(text, RARITY).reading)


@over("line", ["at 12:30:45", "main.go:33", "see main.go:33", "at noon", "at " + "(" * 9, "at f(" + ":1" * 20_000])
def test_a_line_that_only_looks_like_a_frame_is_none(line: str) -> None:
    assert read_trace(f"It broke\n{line}\nagain") is None
