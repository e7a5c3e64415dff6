"""Which pieces of a text can answer by themselves: sentences, rows with the names of their columns, blocks of code."""

from __future__ import annotations

from knowledge.documents.segmentation.segments import Unit, UnitKind, pieces
from tests.support.cases import each_case, over

TABLE = """\
| valve | opens at | |
| --- | :---: | --- |
| *inlet* | 4 bar | by hand |
| outlet | | never |
"""


def read(text: str) -> list[Unit]:
    return list(pieces(text))


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


def test_a_passage_that_begins_within_code_is_read_as_prose_after_it() -> None:
    found = read("rate = 4\n```\n\nThe pump stops at night.\n")
    assert [(each.kind, each.told) for each in found] == [
        (UnitKind.CODE, "rate = 4"),
        (UnitKind.SENTENCE, "The pump stops at night."),
    ]


def test_what_no_reader_of_the_page_sees_is_no_unit() -> None:
    text = (
        '<div align="center">\n<img src="a.png">\n</div>\n\n[![build](a.svg)](b)\n\nThe pump runs.\n\n'
        "<!-- begin -->\n\n<!-- a note\nof two lines -->\n\n.. image:: pump.png\n   :alt: the pump\n\n"
        ".. _pump: https://pump.example\n\nIt stops.\n"
    )
    assert [each.told for each in read(text)] == ["The pump runs.", "It stops."]


@over("end", ["\n", "\r\n", "\n\n"])
def test_what_comes_below_a_heading_is_a_unit_with_or_without_an_empty_line_between(end: str) -> None:
    text = end.join(["# Notes", "## Garage", "The code is 1212. It is new.", "## Keys", "- In the hall."])
    found = read(text)
    assert [each.told for each in found] == ["The code is 1212.", "It is new.", "- In the hall."]
    assert all(text[slice(*each.span)] == each.told for each in found)


@each_case
def test_a_sentence_goes_on_over_the_end_of_a_line(whole: str) -> None:
    assert [each.told for each in read(whole)] == [whole]


@each_case
def test_what_a_reader_of_the_page_sees_is_told_beside_what_he_does_not(text: str, told: str) -> None:
    assert read(text)[-1].told == told
