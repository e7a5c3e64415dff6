"""What a text says, taken apart."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.memory import likeness
from knowledge.models import TermStatistics
from knowledge.search.lexical import term_counts, term_id
from knowledge.search.traces import Frame, read_trace
from knowledge.search.wording import Rarity, profile

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
    likeness.features(found, found, likeness.overlap(found, found, 1.0))
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


@pytest.mark.parametrize(
    ("text", "innermost"),
    [
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
