"""Separated values as tables, and the names of columns in each passage of a long table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hardwon.models.documents import DocumentType
from knowledge.documents.blocks.cut import cut_document
from knowledge.documents.blocks.model import BlockKind
from knowledge.documents.parsing.chunking import split_document
from knowledge.documents.parsing.decode import read
from knowledge.documents.ports import ParsedDocument
from knowledge.formats.csv_tables import as_rows
from tests.support.cases import over

VALVES = 'valve,opens at,by\ninlet,"4 bar, or\nmore",hand\n\noutlet,9 | 10 bar,\n'


def rows_of(parsed: ParsedDocument) -> list[str]:
    blocks = cut_document(parsed.text, parsed.document_type)
    return [each.told for each in blocks if each.kind is BlockKind.ROW]


def test_separated_values_are_rows_told_with_their_columns_each_on_its_line() -> None:
    parsed = read("valves.csv", VALVES.encode(), redacting=True)
    assert parsed.document_type is DocumentType.MARKDOWN
    assert rows_of(parsed) == [
        "valve: inlet; opens at: 4 bar, or more; by: hand",
        "valve: outlet; opens at: 9 | 10 bar",
    ]
    assert parsed.text.split("\n") == [
        "| valve | opens at | by |",
        "| inlet | 4 bar, or more | hand |",
        "|",
        "|",
        "| outlet | 9 \\| 10 bar |  |",
        "",
    ]


@over("separator", [",", ";", "\t", "|"])
def test_the_separator_is_the_one_that_makes_a_table(separator: str) -> None:
    text = VALVES.replace(",", separator).replace(f"bar{separator} or", "bar, or")
    if separator != "|":
        assert as_rows(".csv", text) == as_rows(".csv", VALVES)
    else:
        assert as_rows(".csv", "a|b\n1|2\n") == "| a | b |\n| 1 | 2 |\n"


@over("text", ["One line, of prose.", "A text.\nOf two lines.\n", "a,b\n1\n2\n3\n", 'a,b\n"1,2\n'])
def test_what_is_no_table_stays_text(text: str) -> None:
    assert as_rows(".csv", text) is None
    assert read("notes.csv", text.encode(), redacting=False).text == text


def test_a_log_in_columns_is_counted_as_a_log() -> None:
    text = "".join(f"2025-10-19T14:32:{at:02}Z,ERROR,pump {at} failed\n" for at in range(40))
    assert read("log.csv", text.encode(), redacting=False).document_type is DocumentType.LOG


@given(st.text(alphabet='ab,;"|\n ', max_size=80))
def test_each_line_of_separated_values_stays_where_it_was(text: str) -> None:
    rows = as_rows(".csv", text)
    assert rows is None or rows.count("\n") == text.count("\n")


@over("separated", [True, False])
def test_every_row_of_a_long_table_is_told_with_the_names_of_its_columns(separated: bool) -> None:  # noqa: FBT001
    """From the second passage of a table on its figures were of nothing."""
    rows = [[f"valve {at}", f"{at} bar", "by hand, and slowly"] for at in range(80)]
    if separated:
        text = "\n".join(";".join(row) for row in [["valve", "opens at", "how"], *rows])
        parsed = read("valves.csv", text.encode(), redacting=False)
    else:
        lines = [
            "# Valves",
            "",
            "| valve | opens at | how |",
            "| --- | --- | --- |",
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
        parsed = read("valves.md", "\n".join([*lines, "", "All are checked."]).encode(), redacting=False)
    assert len(split_document(parsed, tokens=128)) > 3
    assert set(rows_of(parsed)) == {f"valve: {one}; opens at: {two}; how: {three}" for one, two, three in rows}
