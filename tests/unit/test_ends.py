"""Of a text that is too long, both ends."""

from __future__ import annotations

import pytest

from knowledge.ends import both_ends


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert both_ends("one\ntwo", 7) == "one\ntwo"


def test_whole_lines_of_both_ends_are_kept_with_what_says_that_more_was_there() -> None:
    log = "\n".join(f"line {number}" for number in range(10))
    assert both_ends(log, 30, "\n[...]\n") == "line 0\n[...]\nline 9"


@pytest.mark.parametrize("most", [0, 1, 2, 9, 10, 11, 49, 50, 51, 99])
def test_neither_the_limit_nor_a_character_is_broken(most: int) -> None:
    kept = both_ends("\u00fc" * 50, most, "\n")
    assert len(kept.encode()) <= max(1, most)
    assert set(kept) <= {"\u00fc", "\n"}
    assert kept.count("\u00fc") >= (most - 1) // 2 - 2
