"""Of a text that is too long, both ends."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha512

from hardwon.text.truncation import truncate_middle
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.text.fitting import fit_ends
from tests.support.cases import over


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert truncate_middle("one\ntwo", 7) == "one\ntwo"


def test_whole_lines_of_both_ends_are_kept_with_what_says_that_more_was_there() -> None:
    log = "\n".join(f"line {number}" for number in range(10))
    assert truncate_middle(log, 30, "\n[...]\n") == "line 0\n[...]\nline 9"


@over("most", [0, 1, 2, 9, 10, 11, 49, 50, 51, 99])
def test_neither_the_limit_nor_a_character_is_broken(most: int) -> None:
    kept = truncate_middle("\u00fc" * 50, most, "\n")
    assert len(kept.encode()) <= max(1, most)
    assert set(kept) <= {"\u00fc", "\n"}
    assert kept.count("\u00fc") >= (most - 1) // 2 - 2


@over("kept", [0, 5, 20])
def test_no_part_of_a_key_that_a_cut_goes_through_is_kept(kept: int) -> None:
    """What is left of a key without its first line is not known for one, so it is looked for before."""
    lines = [b64encode(sha512(bytes([number])).digest()).decode()[:64] for number in range(25)]
    key = "\n".join(["-----BEGIN RSA PRIVATE " + "KEY-----", *lines, "-----END RSA PRIVATE " + "KEY-----"])
    after = "INFO tried again\n" * 4000
    after = after[: 30_720 - 65 * kept]
    cut = fit_ends("INFO began\n" * 9000 + key + "\n" + after, "cut")
    assert len(cut.encode()) <= MAX_TEXT_BYTES
    assert not any(line in cut for line in lines)
