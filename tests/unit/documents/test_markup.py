"""reStructuredText, AsciiDoc and Org are read as Markdown, each line where it was."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.documents.blocks.cut import cut_document
from knowledge.documents.parsing.chunking import split_document
from knowledge.documents.parsing.decode import read
from knowledge.formats.markup import MARKUPS, as_markdown
from tests.support.cases import load_tables


def told(ending: str, *lines: str) -> list[str]:
    """Return lines as Markdown, without what is blank then."""
    written = as_markdown(ending, "\n".join(lines))
    assert written is not None
    assert len(written.split("\n")) == len(lines)
    return [line for line in written.split("\n") if line.strip()]


def rst(*lines: str) -> list[str]:
    return told(".rst", *lines)


def answers(uri: str, *lines: str) -> list[str]:
    """Return what of a file can answer."""
    parsed = read(uri, "\n".join(lines).encode(), redacting=False)
    return [each.told or parsed.text[slice(*each.span)] for each in cut_document(parsed.text, parsed.document_type)]


# headings


def test_how_deep_a_heading_is_is_told_by_the_order_of_its_marks() -> None:
    lines = ["====", "Home", "====", "", "One", "====", "", "Deep", "----", "", "Two", "====", "", "Deeper", "~~~~~~"]
    assert rst(*lines) == ["# Home", "## One", "### Deep", "## Two", "#### Deeper"]


@pytest.mark.parametrize(
    "lines",
    [
        ("First line of two", "and the second", "--------------"),
        ("Above a rule.", "", "--------", "", "Below it."),
        ("No heading at all", "--"),
        ("   Further in", "   ----------"),
    ],
    ids=["a paragraph", "a rule", "too short", "a quotation"],
)
def test_what_only_looks_like_a_heading_is_none(lines: tuple[str, ...]) -> None:
    assert rst(*lines) == [line for line in lines if line]


def test_passages_are_of_their_sections_and_lines_and_the_first_heading_is_the_title() -> None:
    text = "Restoring\n=========\n\nAsk first.\n\nFrom tape\n---------\n\nTapes are in the vault.\n"
    parsed = read("restore.rst", text.encode(), redacting=False)
    assert parsed.title == "Restoring"
    assert [(chunk.section, chunk.line_start) for chunk in split_document(parsed)] == [
        ("Restoring", 1),
        ("Restoring > From tape", 6),
    ]


# tables


GRID = (
    "+---------+------------+",
    "| Setting | Default    |",
    "| name    |            |",
    "+=========+============+",
    "| idle    | 30 s, then |",
    "|         | it ends    |",
    "+---------+------------+",
    "| connect | a | b      |",
    "+---------+------------+",
)
SIMPLE = (
    "=======  =============",
    "Code     Meaning",
    "=======  =============",
    "17       the disk is",
    "         full",
    "",
    "18       the peer left",
    "=======  =============",
)
LISTED = tuple(load_tables("test_markup")["LISTED"])


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        (GRID, ["Setting name: idle; Default: 30 s, then it ends", "Setting name: connect; Default: a | b"]),
        (SIMPLE, ["Code: 17; Meaning: the disk is full", "Code: 18; Meaning: the peer left"]),
        (LISTED, ["Code: 17; Meaning: the disk is full", "Code: 18; Meaning: the peer left"]),
    ],
    ids=["grid", "simple", "list"],
)
def test_a_row_of_a_table_is_told_with_the_names_of_its_columns(lines: tuple[str, ...], rows: list[str]) -> None:
    found = answers("codes.rst", "What it means.", "", *lines, "", "After it.")
    assert [each for each in found if ";" in each and "\n" not in each] == rows
    assert found[0] == "What it means."
    assert found[-1] == "After it."


# what is named, and what warns


def test_what_an_option_does_is_told_with_its_name() -> None:
    lines = [
        "Options",
        "=======",
        "",
        ".. option:: --fresh",
        "",
        "    .. versionadded:: 3.24",
        "",
        "    Configures the tree anew.",
        "",
        ".. py:function:: open(path)",
        "   :noindex:",
        "",
        "   Opens a file::",
        "",
        "      open('x')",
        "",
        "After it.",
    ]
    found = answers("cli.rst", *lines)
    assert found[:3] == [
        "`--fresh` (new in version 3.24):\nConfigures the tree anew.",
        "`open(path)`:\nOpens a file::\n\n   open('x')",
        "After it.",
    ]


def test_a_warning_is_read_with_what_it_is() -> None:
    lines = [
        ".. note:: Ask first.",
        "",
        ".. warning::",
        "",
        "   It is gone",
        "   for good.",
        "",
        ".. deprecated:: 2.0 Use b.",
    ]
    assert rst(*lines) == ["Note: Ask first.", "It is gone", "for good.", "Deprecated since version 2.0: Use b."]


def test_roles_and_links_are_told_by_their_words() -> None:
    line = "See :ref:`the guide <guide>`, :py:meth:`~Client.close` and `the site <https://example.org>`_, ``a `b` _c``."
    assert rst(line) == ["See the guide, `Client.close` and the site, ``a `b` _c``."]


@pytest.mark.parametrize("lead", ["Query::", ".. code-block:: console"], ids=["a paragraph", "a directive"])
def test_code_stays_what_it_is(lead: str) -> None:
    code = ["    ====  =====", "    id    name", "    ====  =====", "    1     bob", "    .. note:: `x`_"]
    assert rst(lead, "", *code, "", "After it.") == [lead, *code, "After it."]


@pytest.mark.parametrize(
    "text",
    [
        ":a" * 25_000 + " `x",
        "fe80:" * 10_000 + "`",
        ".. list-table:: x\n\n   * - a\n" + "       b\n" * 25_000,
        "a::\n\n" + " b\n" * 25_000,
        "`" * 50_000,
        "+--+\n" * 10_000,
        ".. note::\n" * 20_000,
        ".. option::\n" * 20_000,
    ],
    ids=["roles", "addresses", "a cell", "code", "marks", "borders", "warnings", "names"],
)
def test_a_long_text_takes_no_longer_than_others_of_its_length(text: str) -> None:
    began = time.process_time()
    as_markdown(".rst", text)
    assert time.process_time() - began < 1.5


# AsciiDoc and Org


def test_asciidoc_has_headings_and_code() -> None:
    lines = ["= Guide", "", "== Install", "----", "== no heading", "----", "Then start it."]
    assert told(".adoc", *lines) == ["# Guide", "## Install", "```", "== no heading", "```", "Then start it."]


def test_org_has_a_title_headings_and_code() -> None:
    lines = ["#+TITLE: Guide", "* Install", "#+begin_src sh", "* no heading", "#+end_src", "** Start", "Then start it."]
    assert told(".org", *lines) == [
        "# Guide",
        "# Install",
        "```sh",
        "* no heading",
        "```",
        "## Start",
        "Then start it.",
    ]


# any text


def test_other_files_are_not_written_otherwise() -> None:
    assert as_markdown(".md", "Title\n=====") is None


@given(
    st.sampled_from(sorted(MARKUPS)),
    st.lists(
        st.text(alphabet="=-~+|*. :`_<>#ab\t", max_size=24) | st.sampled_from([*GRID, *SIMPLE, *LISTED]), max_size=16
    ),
)
def test_whatever_a_text_holds_every_line_stays_where_it_was(ending: str, lines: list[str]) -> None:
    text = "\n".join(lines)
    written = as_markdown(ending, text)
    assert written is not None
    assert written.count("\n") == text.count("\n")
