"""Lists: told with what leads to them, whole below a heading, in whole items where they are long."""

from __future__ import annotations

import pytest

from knowledge.documents.segmentation.segments import Unit, UnitKind
from knowledge.documents.segmentation.units import units


def read(text: str) -> list[Unit]:
    return list(units(text))


def told(text: str) -> list[str]:
    return [each.told for each in read(text) if each.kind is UnitKind.SENTENCE]


def test_what_leads_to_a_list_is_told_with_it_and_compared_alone() -> None:
    text = "The pump has three modes:\n\n* slow\n* fast, for\n  emptying\n* off\n\nIt stops at night.\n"
    lead, *items, last = read(text)
    assert lead.told == "The pump has three modes:\n\n* slow\n* fast, for\n  emptying\n* off"
    assert lead.read == "The pump has three modes:"
    assert text[slice(*lead.span)] == lead.told
    assert [each.told for each in items] == ["* slow", "* fast, for\n  emptying", "* off"]
    assert last.told == "It stops at night."


def test_a_list_within_a_list_ends_where_the_outer_one_goes_on() -> None:
    text = "- Inlets, such as:\n  - north\n  - south\n- Outlets\n"
    assert told(text) == ["- Inlets, such as:\n  - north\n  - south"]


def test_of_a_long_list_whole_items_are_told_and_that_there_are_more() -> None:
    items = [f"- item {number} {'of many ' * 12}".rstrip() for number in range(12)]
    lead = read("What it takes:\n" + "\n".join(items) + "\n")[0]
    shown = lead.told.split("\n")
    assert shown[1:-1] == items[: len(shown) - 2]
    assert 2 < len(shown) < len(items)
    assert shown[-1] == "\u2026"


def test_an_item_keeps_its_number() -> None:
    text = "1. Open the tap.\n2. **Wait** a while.\n"
    assert [each.told for each in read(text)] == [
        text.strip(),
        "1. Open the tap.",
        "2. **Wait** a while.",
    ]


STEPS = "# Restart\n\n## Steps\n\n1. Drain the pump.\n2. Close the inlet,\n   by hand.\n\n3. Wait.\n\nThen go home.\n"


def test_a_list_that_only_a_heading_leads_to_is_a_unit_beside_its_items() -> None:
    """Asked for the steps, two or three of them were quoted."""
    whole, *items, last = read(STEPS)
    assert whole.told == whole.read == STEPS[slice(*whole.span)]
    assert whole.told == "1. Drain the pump.\n2. Close the inlet,\n   by hand.\n\n3. Wait."
    assert [each.told for each in items] == ["1. Drain the pump.", "2. Close the inlet,\n   by hand.", "3. Wait."]
    assert last.told == "Then go home."


def test_of_a_long_list_below_a_heading_whole_items_are_told_and_that_there_are_more() -> None:
    items = [f"- item {number} {'of many ' * 12}".rstrip() for number in range(12)]
    whole = read("# Items\n" + "\n".join(items))[0]
    told = whole.told.split("\n")
    assert told == [*items[: len(told) - 1], "\u2026"]
    assert 2 < len(told) < len(items)


@pytest.mark.parametrize(
    "text", ["# Steps\n\n- Only one.", "# Steps\n\nAs follows.\n\n- a b\n- c d", "# Steps", "- a b\n- c d"]
)
def test_one_item_or_a_list_below_a_sentence_or_nothing_is_no_such_list(text: str) -> None:
    assert all("\n" not in each.told for each in read(text))


def test_the_first_sentence_of_an_item_is_told_with_the_rest_of_it_and_compared_alone() -> None:
    slow = "- Slow. It is for the night.\n  Nobody hears it."
    text = f"Modes.\n\n{slow}\n- Fast. For a flood:\n  - at once\n- Off.\nAll of them."
    found = {each.read: each.told for each in read(text)}
    assert found["- Slow."] == slow
    assert found["It is for the night."] == "It is for the night."
    assert found["- Fast."] == "- Fast."
    assert found["- Off."] == "- Off."


def test_the_rest_of_an_item_goes_on_to_the_end_of_its_sentence() -> None:
    """The first lines of a page that was printed are no item of a list, and "it lasts 6" was told of months."""
    text = "1. Duration\nIt lasts 36 months. For seals it lasts 6\nmonths. More\nis not told.\n"
    assert read(text)[0].told == "1. Duration\nIt lasts 36 months. For seals it lasts 6\nmonths. More\nis not told."
    assert read("- An item. It goes on.\nNot of it.\n")[0].told == "- An item. It goes on."
