"""Lists: told with what leads to them, whole below a heading, in whole items where they are long."""

from __future__ import annotations

from knowledge.documents.segmentation.segments import Unit
from knowledge.documents.segmentation.units import units
from tests.support.cases import over


def read(text: str) -> list[Unit]:
    return list(units(text))


def test_what_leads_to_a_list_is_told_with_it_and_compared_alone() -> None:
    text = "The pump has three modes:\n\n* slow\n* fast, for\n  emptying\n* off\n\nIt stops at night.\n"
    lead, *items, last = read(text)
    assert lead.told == "The pump has three modes:\n\n* slow\n* fast, for\n  emptying\n* off"
    assert lead.read == "The pump has three modes:"
    assert text[slice(*lead.span)] == lead.told
    assert [each.told for each in items] == ["* slow", "* fast, for\n  emptying", "* off"]
    assert last.told == "It stops at night."


def test_of_a_long_list_whole_items_are_told_and_that_there_are_more() -> None:
    items = [f"- item {number} {'of many ' * 12}".rstrip() for number in range(12)]
    lead = read("What it takes:\n" + "\n".join(items) + "\n")[0]
    shown = lead.told.split("\n")
    assert shown[1:-1] == items[: len(shown) - 2]
    assert 2 < len(shown) < len(items)
    assert shown[-1] == "\u2026"


STEPS = "# Restart\n\n## Steps\n\n1. Drain the pump.\n2. Close the inlet,\n   by hand.\n\n3. Wait.\n\nThen go home.\n"


def test_a_list_that_only_a_heading_leads_to_is_a_unit_beside_its_items() -> None:
    """Asked for the steps, two or three of them were quoted."""
    whole, *items, last = read(STEPS)
    assert whole.told == whole.read == STEPS[slice(*whole.span)]
    assert whole.told == "1. Drain the pump.\n2. Close the inlet,\n   by hand.\n\n3. Wait."
    assert [each.told for each in items] == ["1. Drain the pump.", "2. Close the inlet,\n   by hand.", "3. Wait."]
    assert last.told == "Then go home."


@over("text", ["# Steps\n\n- Only one.", "# Steps\n\nAs follows.\n\n- a b\n- c d", "# Steps", "- a b\n- c d"])
def test_one_item_or_a_list_below_a_sentence_or_nothing_is_no_such_list(text: str) -> None:
    assert all("\n" not in each.told for each in read(text))
