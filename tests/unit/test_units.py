"""What of a passage can answer: sentences, rows with the names of their columns, code with what leads to it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.documents.chunking import cut
from knowledge.documents.models import DocumentType
from knowledge.documents.ports import Parsed
from knowledge.documents.units import MOST_OF_A_BLOCK, Unit, UnitKind, units

TABLE = """\
| valve | opens at | |
| --- | :---: | --- |
| *inlet* | 4 bar | by hand |
| outlet | | never |
"""
SIGNS = st.sampled_from(
    [
        "| a | b |",
        "| --- | --- |",
        "- An item. It goes on.",
        "  on, further in.",
        "```",
        "```sh",
        "$ run it",
        "A word.",
        "Why?",
        "Like this:",
        "# H",
        "",
    ]
)


def read(text: str) -> list[Unit]:
    return list(units(text))


def test_a_row_is_told_with_the_names_of_its_columns_and_quoted_as_it_stands() -> None:
    found = read(f"Valves of the plant.\n\n{TABLE}\nAll of them are checked daily.\n")
    assert [(each.kind, each.told) for each in found] == [
        (UnitKind.SENTENCE, "Valves of the plant."),
        (UnitKind.ROW, "valve: *inlet*; opens at: 4 bar; by hand"),
        (UnitKind.ROW, "valve: outlet; never"),
        (UnitKind.SENTENCE, "All of them are checked daily."),
    ]
    text = f"Valves of the plant.\n\n{TABLE}\nAll of them are checked daily.\n"
    assert text[slice(*found[1].span)] == "| *inlet* | 4 bar | by hand |"
    assert found[1].key == "*inlet*"


def test_a_table_without_outer_bars_and_one_whose_names_were_cut_off_are_tables() -> None:
    bare = read("valve | opens at\n--- | ---\ninlet | 4 bar\n\nThen | now.")
    assert [each.told for each in bare] == ["valve: inlet; opens at: 4 bar", "Then | now."]
    headless = read("bar | by hand |\n| outlet | 9 bar | never |\n| drain | 1 b")
    assert [(each.kind, each.told) for each in headless] == [(UnitKind.ROW, "outlet; 9 bar; never")]


def test_bars_in_prose_are_no_table() -> None:
    assert [each.kind for each in read("The norm |x| is small.\n")] == [UnitKind.SENTENCE]
    assert [each.kind for each in read("| lonely |\n")] == [UnitKind.FRAGMENT]


def test_commands_are_units_and_other_code_is_one_with_the_sentence_that_leads_to_it() -> None:
    config = "# Setup\n\nPut this into `pump.toml`:\n\n```toml\n[pump]\nrate = 4\n```\n\n"
    commands = "Then run it.\n\n```console\n$ pump up\nup\n$ pump down\n```\n"
    found = read(config + commands)
    assert [(each.kind, each.told) for each in found] == [
        (UnitKind.SENTENCE, "Put this into `pump.toml`:\n\n```toml\n[pump]\nrate = 4\n```"),
        (UnitKind.SENTENCE, "Then run it."),
        (UnitKind.CODE, "$ pump up\nup"),
        (UnitKind.CODE, "$ pump down"),
    ]


def test_a_passage_that_begins_within_code_is_read_as_prose_after_it() -> None:
    found = read("rate = 4\n```\n\nThe pump stops at night.\n")
    assert [(each.kind, each.told) for each in found] == [
        (UnitKind.CODE, "rate = 4"),
        (UnitKind.SENTENCE, "The pump stops at night."),
    ]


def test_a_question_is_shown_with_its_answer_and_never_alone() -> None:
    found = read("Who opens the valve? The night shift opens it. Who closes it?")
    assert [(each.kind, each.read, each.told) for each in found] == [
        (UnitKind.SENTENCE, "Who opens the valve?", "Who opens the valve? The night shift opens it."),
        (UnitKind.SENTENCE, "The night shift opens it.", "The night shift opens it."),
        (UnitKind.QUESTION, "Who closes it?", "Who closes it?"),
    ]


@pytest.mark.parametrize(("text", "kind"), [("Valves and pumps", "fragment"), ("Valves leak.", "sentence")])
def test_prose_that_ends_as_no_sentence_does_is_a_fragment(text: str, kind: str) -> None:
    assert [each.kind for each in read(text)] == [UnitKind(kind)]


@given(st.lists(st.one_of(SIGNS, st.text(max_size=60)), max_size=30).map("\n".join))
def test_units_stand_where_they_say_in_order(text: str) -> None:
    found = read(text)
    assert all(text[slice(*each.span)].strip() for each in found)
    assert all(one.span.start <= other.span.start for one, other in pairwise(found))
    assert all(each.kind is UnitKind.ROW or each.told == text[slice(*each.span)] for each in found)
    assert all(len(each.told) <= MOST_OF_A_BLOCK + len("\n```") for each in found)


@pytest.mark.parametrize("tokens", [64, 256])
def test_a_table_is_cut_between_its_rows(tokens: int) -> None:
    """A0-72."""
    rows = [f"| valve {n} | It opens at {n} bar. It closes again by hand, and slowly. |" for n in range(60)]
    text = "# Valves\n\n| valve | how |\n| --- | --- |\n" + "\n".join(rows)
    chunks = cut(Parsed(text=text, document_type=DocumentType.MARKDOWN), tokens=tokens)
    assert len(chunks) > 3
    assert all(line in text.split("\n") for chunk in chunks for line in chunk.text.split("\n"))
    assert all(len(chunk.text) <= tokens * 4 for chunk in chunks)


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


def test_what_leads_to_a_sentence_is_told_with_it() -> None:
    assert told("The following are read:\n") == ["The following are read:"]
    assert told("Mind the valve:\n\nIt opens by itself.\n")[0] == "Mind the valve:\n\nIt opens by itself."


def test_commands_are_told_all_with_what_leads_to_them() -> None:
    text = "Set it up:\n\n```console\n$ pump init\n$ pump up\nup\n```\n\nDone.\n"
    lead = read(text)[0]
    assert lead.told == "Set it up:\n\n```console\n$ pump init\n$ pump up\nup\n```"
    assert lead.read == "Set it up:\n\n```console\n$ pump init"


def test_code_that_only_stands_further_in_goes_with_what_leads_to_it() -> None:
    assert told("Run it::\n\n  pump up\n\n  pump down\n\nThen wait.\n") == [
        "Run it::\n\n  pump up\n\n  pump down",
        "Then wait.",
    ]
    assert told("Tests are run with:\n\n    pump test\n\nThen wait.\n")[0] == "Tests are run with:\n\n    pump test"
    directive = (
        "A small pump:\n\n.. code-block:: python\n   :linenos:\n\n   pump = Pump()\n   pump.up()\n\nThen wait.\n"
    )
    assert told(directive)[0].endswith("pump = Pump()\n   pump.up()")


def test_what_no_reader_of_the_page_sees_is_no_unit() -> None:
    text = (
        '<div align="center">\n<img src="a.png">\n</div>\n\n[![build](a.svg)](b)\n\nThe pump runs.\n\n'
        "<!-- begin -->\n\n<!-- a note\nof two lines -->\n\n.. image:: pump.png\n   :alt: the pump\n\n"
        ".. _pump: https://pump.example\n\nIt stops.\n"
    )
    assert [each.told for each in read(text)] == ["The pump runs.", "It stops."]


def test_between_what_leads_to_code_and_the_code_marks_do_not_count() -> None:
    text = 'Start it:\n\n<div class="terminal">\n\n```console\n$ pump up\n```\n\n</div>\n'
    assert told(text) == ['Start it:\n\n<div class="terminal">\n\n```console\n$ pump up\n```']


def test_a_heading_with_a_line_below_it_is_no_unit() -> None:
    text = "Reporting bugs\n--------------\n\nWrite to us.\n\n=======\nLicence\n=======\n\nIt is free.\n"
    assert [each.told for each in read(text)] == ["Write to us.", "It is free."]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_what_comes_below_a_heading_is_a_unit_with_or_without_an_empty_line_between(end: str) -> None:
    text = end.join(["# Notes", "## Garage", "The code is 1212. It is new.", "## Keys", "- In the hall."])
    found = read(text)
    assert [each.told for each in found] == ["The code is 1212.", "It is new.", "- In the hall."]
    assert all(text[slice(*each.span)] == each.told for each in found)


@pytest.mark.parametrize(
    "whole",
    [
        "It is free under the terms of\nhttps://licence.example/free for all.",
        "In private write to\n[redacted:email] or call us.",
        "The tap is\n**not** a valve.",
        "Look at the [long\nlist](https://list.example/a?b=c) first.",
    ],
)
def test_a_sentence_goes_on_over_the_end_of_a_line(whole: str) -> None:
    assert [each.told for each in read(whole)] == [whole]


def test_an_item_keeps_its_number() -> None:
    text = "1. Open the tap.\n2. **Wait** a while.\n"
    assert [each.told for each in read(text)] == [
        text.strip(),
        "1. Open the tap.",
        "2. **Wait** a while.",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Write:\n\n```html\n<!-- begin\n```\n\nThe port is 8080.\n", "The port is 8080."),
        ("<!-- never ended\n\nThe port is 8080.\n", "The port is 8080."),
        ("<!-- a note --> The port is 8080.\n", "<!-- a note --> The port is 8080."),
        (".. note:: The port is 8080.\n", ".. note:: The port is 8080."),
        (".. warning:: The port is 8080,\n   and stays it.\n", ".. warning:: The port is 8080,\n   and stays it."),
    ],
)
def test_what_a_reader_of_the_page_sees_is_told_beside_what_he_does_not(text: str, told: str) -> None:
    assert read(text)[-1].told == told


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


def test_a_question_is_told_with_all_of_the_paragraph_that_answers_it() -> None:
    """What follows may take back what was said first."""
    text = (
        "Q: How often?\nA: Every 180 days. Robots are exempt.\n\nQ: Where?\nA: Here. Not there.\nQ: When?\n\nLater on."
    )
    told = [each.told for each in read(text) if each.told.startswith("Q")]
    assert told == [
        "Q: How often?\nA: Every 180 days. Robots are exempt.",
        "Q: Where?\nA: Here. Not there.",
        "Q: When?\n\nLater on.",
    ]
    long = "Why? " + "It is as it is. " * 90
    assert len(read(long)[0].told) <= MOST_OF_A_BLOCK


def test_a_term_of_a_manual_is_told_with_what_it_means_in_whole_sentences() -> None:
    """A first sentence such as "Takes a boolean argument." says nothing of what it does."""
    page = (
        "OPTIONS\n       Persistent=\n\t   Takes a boolean. If true, the time is\n"
        "\t   stored on disk. Defaults to no.\n"
        "\n\t   More of it.\n\n       Wake=\n\t   Wakes it.\n\nPlain prose goes\non here. And there.\n"
    )
    told = [each.told for each in read(page)]
    assert "Persistent=\n\t   Takes a boolean. If true, the time is\n\t   stored on disk. Defaults to no." in told
    assert "Wake=\n\t   Wakes it." in told
    assert "Plain prose goes\non here." in told
    long = "  term\n" + "    It is as it is.\n" * 90
    assert MOST_OF_A_BLOCK / 2 < len(read(long)[0].told) <= MOST_OF_A_BLOCK


def test_the_rest_of_an_item_goes_on_to_the_end_of_its_sentence() -> None:
    """The first lines of a page that was printed are no item of a list, and "it lasts 6" was told of months."""
    text = "1. Duration\nIt lasts 36 months. For seals it lasts 6\nmonths. More\nis not told.\n"
    assert read(text)[0].told == "1. Duration\nIt lasts 36 months. For seals it lasts 6\nmonths. More\nis not told."
    assert read("- An item. It goes on.\nNot of it.\n")[0].told == "- An item. It goes on."
