"""What a question names, and by which words a text tells of it."""

from __future__ import annotations

import pytest

from knowledge.documents.extraction.entities import names_asked, tells_of


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How long did it stand still in the US region?", [("US",)]),
        ("When did the mill in Bad Iburg stop? Was Ann there?", [("Bad", "Iburg"), ("Ann",)]),
        ("Kafka is slow. Why?", []),
        ("what is the limit in kassel?", []),
    ],
)
def test_names_are_what_has_a_capital_within_a_question(question: str, names: list[tuple[str, ...]]) -> None:
    assert list(names_asked(question)) == names


@pytest.mark.parametrize(
    ("name", "tells", "not_tells"),
    [
        (("US",), ("the US", "the United States", "the U.S. navy", "US-east"), ("tell us", "the EU", "status")),
        (("Postgres",), ("PostgreSQL", "postgres-orders"), ("Post offices",)),
        (("CPU",), ("cpu: 4", "cpuLimit", "two CPUs"), ("occupied",)),
    ],
)
def test_a_text_tells_of_a_name_in_whatever_form(
    name: tuple[str, ...], tells: tuple[str, ...], not_tells: tuple[str, ...]
) -> None:
    assert [text for text in tells if not tells_of(text, name)] == []
    assert [text for text in not_tells if tells_of(text, name)] == []
