"""Texts that are made to cost time or memory: reading them takes as long as reading any other of their length."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import time
import tracemalloc
from datetime import UTC, datetime
from itertools import product

import pytest

from hardwon.models.documents import DocumentType
from knowledge import documents, formats, retrieval, text
from knowledge.documents.parsing.chunking import split_document
from knowledge.documents.parsing.decode import MAX_NAME_CHARS, MAX_TAGS, read
from knowledge.documents.parsing.log_lines import read_lines
from knowledge.documents.ports import ParsedDocument
from knowledge.documents.verification.injection import without_orders
from tests.support.cases import each_case, over

MOST_SECONDS = 1.0
"""Of a processor; more than a hundred times what a text of 20,000 characters takes."""

LENGTH = 20_000
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
REPEATED = (
    *" \t\n[]#*|`\"'()aA0-_.,:=/<>!\\@",
    *("a ", "a.", "a-", "0.", "0-", "1-", "a,", "a\n", "a\n ", "\n ", "- ", "| ", "-|", ".)", "[a", "[a]", "[]("),
    *("```", "-----BEGIN ", "export ", "ignore the ", "when ask, ", "line 1 ", "respond only ", "system\n"),
)
BEFORE = ("", "a", "# a", "[a", '"', "- ", "def ", "|", "`", ".", "system", "line ", "---\n", "since ", "\n")
AFTER = ("", "!", "b\n")
AT_ONE_PLACE = {
    *("chunking._SECTION", "headings._NO_PARAGRAPH", "units._CLOSING", "csv_tables.DELIMITER", "blocks.DELIMITER"),
    *("markdown._DIRECTIVE", "markdown._OPTION", "markdown.ITEM", "markdown._TAGS_OR_IMAGES", "markdown._UNDERLINE"),
    *("markup._DIRECTIVE", "markup.OPTION", "markup._BORDER", "markup._ROW", "markup._CELL"),
    *("markup._ORG_CODE", "markup._ORG_TITLE", "blocks.HEADING", "segments.HEADING", "units.ITEM", "units.HEADING"),
    *("layout._NUMBERED", "layout._UNDERLINE", "man_pages.MAN_NAME", "decode.MAN_NAME", "candidates._CAPTION"),
    *("question._VERSION", "question._COUNTED", "markup._ADOC_TITLE", "markup._ORG_KEYWORD", "markup._ORG_PLANNING"),
    *("markup._ORG_TERM", "procedures._HEADING"),
    *("segments._PROMPT", "procedures.ITEM", "procedures._NUMBERED", "procedures._FENCE", "procedures._HEADING"),
}
"""What is looked for where a line begins or a block ends, and nowhere else."""


@functools.cache
def patterns() -> dict[str, re.Pattern[str]]:
    """Return the regular expressions of documents and of what is searched by their names."""
    found = {}
    for package in (documents, formats, retrieval, text):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                    found[f"{module.name.removeprefix(package.__name__ + '.')}.{name}"] = value
    return found


def hostile(told: tuple[str, str, str], length: int) -> str:
    before, repeated, after = told
    return before + repeated * (length // len(repeated)) + after


@functools.cache
def short_texts() -> dict[tuple[str, str, str], str]:
    return {told: hostile(told, 200) for told in product(BEFORE, REPEATED, AFTER)}


@pytest.mark.long
@over("name", patterns())
def test_no_text_makes_a_regular_expression_take_long(name: str) -> None:
    """What is slow for a short text is tried on a long one."""
    pattern = patterns()[name]
    at_one_place = ".".join(name.split(".")[-2:]) in AT_ONE_PLACE
    look = pattern.match if at_one_place else pattern.search

    def seconds(text: str) -> float:
        begun = time.thread_time()
        look(text)
        return time.thread_time() - begun

    short = short_texts()
    slowest = sorted(short, key=lambda told: seconds(short[told]))[-8:]
    for told in slowest:
        assert seconds(hostile(told, LENGTH // 10)) < MOST_SECONDS, told
        assert seconds(hostile(told, LENGTH)) < MOST_SECONDS, told


TEXTS = {
    "a heading": ("x.md", "# a" + " " * LENGTH + "b\n"),
    "a lower heading": ("x.md", "## a" + " " * LENGTH + "b\n"),
    "a tag": ("x.md", "---\ntags: a" + " " * 4 * LENGTH + "b\n---\n# t\n"),
    "a list of tags": ("x.md", "---\ntags:\n" + "- a\n" * 5 * LENGTH + "---\n# t\n"),
    "brackets": ("x.ini", "[" * LENGTH),
    "a table": ("x.md", "|-|\n" * (LENGTH // 4)),
    "a link that does not end": ("x.rst", "a ` " + " " * 100 * LENGTH + "b\n"),
    "directives in directives": ("x.rst", "\n".join(" " * depth + ".. note::" for depth in range(1500)) + " a"),
}


@pytest.mark.long
@over("name", TEXTS)
def test_no_text_takes_long_to_be_read_and_cut(name: str) -> None:
    uri, text = TEXTS[name]
    begun = time.thread_time()
    split_document(read(uri, text.encode(), redacting=False))
    assert time.thread_time() - begun < MOST_SECONDS


@over("blank", ["\n ", " \n", "\n\n", " "])
def test_no_text_takes_long_to_be_searched_for_orders(blank: str) -> None:
    begun = time.thread_time()
    without_orders("The pool has 40." + blank * (LENGTH // 2) + "b")
    assert time.thread_time() - begun < MOST_SECONDS


@each_case
def test_a_heading_is_its_words(line: str, title: str) -> None:
    parsed = read("x.md", f"{line}\n\ntext\n".encode(), redacting=False)
    assert (parsed.title or "x.md") == title
    assert [chunk.section or "x.md" for chunk in split_document(parsed)] == [title]


LONG = "n" * 50_000
NAMES = {
    "a heading": ("x.md", f"# {LONG}\n" + "## a\nb\n" * 2_000),
    "headings": ("x.md", "".join(f"{'#' * depth} {'n' * 290}\n" for depth in range(1, 6)) + "###### a\nb\n" * 2_000),
    "a class": ("x.py", f"class {LONG}:\n" + "    def a(self):\n        return 1\n" * 2_000),
    "a function": ("x.py", "".join(f"def {'n' * 1_000}():\n    return 1\n" for _ in range(100))),
    "a section": ("x.ini", f"[{LONG}]\n" + "a = b\n" * 20_000),
    "a category": ("x.md", f"---\ncategory: {LONG}\n---\n# t\n"),
    "tags": ("x.md", "---\ntags: [" + ", ".join([LONG, *map(str, range(1_000))]) + "]\n---\n# t\n"),
}


@over("name", NAMES)
def test_no_name_in_a_text_is_kept_at_any_length(name: str) -> None:
    """It goes along with every passage, so a file of 100 KB could take 300 MB."""
    uri, text = NAMES[name]
    parsed = read(uri, text.encode(), redacting=False)
    told = [parsed.title, parsed.category, *parsed.tags]
    told += [name for chunk in split_document(parsed) for name in (chunk.section, chunk.function)]
    assert max(len(each) for each in told if each) <= MAX_NAME_CHARS
    assert len(parsed.tags) <= MAX_TAGS


def test_of_headings_that_are_too_long_together_the_innermost_are_kept() -> None:
    parsed = read("x.md", f"# {'o' * 200}\n## {'m' * 100}\n### inner\ntext\n".encode(), redacting=False)
    assert split_document(parsed)[-1].section == f"{'m' * 100} > inner"


@pytest.mark.long
@over("kind", DocumentType)
def test_empty_lines_take_no_memory(kind: DocumentType) -> None:
    """Lines of a log are read one by one, as many as are kept."""
    text = "a" + "\n" * LENGTH + "b"
    tracemalloc.start()
    try:
        lines = read_lines(text, now=NOW, most=1_000)
        split_document(ParsedDocument(text=text, document_type=kind), lines if kind is DocumentType.LOG else ())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 40 * LENGTH
