"""`hardwon evaluate merging`: are two tellings of one thing told from two things?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import Commands, lines

NAMES = ("round_half_even", "sum_of_prices", "vat_of_country", "open_basket", "ship_order", "refund_order")
OTHERS = ("The login page hangs", "Dates are off by one in the weekly report", "The nightly backup ran out of space")


def in_two_wordings(name: str) -> tuple[str, str]:
    return f'Module "shop._pricing" has no attribute "{name}"', f"No attribute `{name}` in module `shop._pricing`"


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Six defects told by two tools, and six pairs of two defects that only a name tells apart."""
    same = [in_two_wordings(name) for name in NAMES]
    different = [(one, other[1]) for (one, _), other in zip(same, [*same[1:], same[0]], strict=True)]
    rows = [{"a": a, "b": b, "same": True} for a, b in same] + [{"a": a, "b": b, "same": False} for a, b in different]
    rows += [{"a": other, "b": f"{other} again and again", "same": False} for other in OTHERS]
    folder = tmp_path / "labelled"
    folder.mkdir()
    (folder / "pairs.jsonl").write_text(lines(rows))
    return folder


@pytest.mark.harness
@pytest.mark.long
def test_merging_is_measured_in_a_throwaway_data_directory(labelled: Path, home: Path) -> None:
    """Names, not likeness, decide: the different pairs differ in one word."""
    commands = Commands(home)
    told = commands.json("evaluate", "merging", labelled)
    assert told.keys() == {
        "pairs", "precision", "recall", "false_merge_rate", "suggestion_precision", "suggestion_recall",
    }  # fmt: skip
    assert (told["pairs"], told["precision"], told["recall"], told["false_merge_rate"]) == (15, 1.0, 1.0, 0.0)
    assert told["suggestion_recall"] == 1.0
    assert 0.5 <= told["suggestion_precision"] <= 1.0


def test_a_pair_that_is_none_is_named_by_its_number(labelled: Path, home: Path) -> None:
    (labelled / "pairs.jsonl").write_text(lines([{"a": "one", "b": "other", "same": True}, {"a": "one", "same": 1}]))
    refused = Commands(home).refused("evaluate", "merging", labelled)
    assert "pair 2" in refused
    assert "`same`, true or false" in refused
