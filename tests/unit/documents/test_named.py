"""What a question names, and by which words a text tells of it."""

from __future__ import annotations

import pytest

from knowledge.documents.extraction.entities import names_asked, tells_of
from knowledge.documents.extraction.inflection import forms_of


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How long did it stand still in the US region?", [("US",)]),
        ("When did the mill in Bad Iburg stop? Was Ann there?", [("Bad", "Iburg"), ("Ann",)]),
        ("Who is Bob's lead?", [("Bob",)]),
        ("Kafka is slow. Why?", []),
        ("When is it due in May or on Monday at 9 AM?", []),
        ("What Is the Limit Of Plan A?", []),
        ("what is the limit in kassel?", []),
        ('What does "Out of Memory" mean?', []),
        ("Wie lange stand die Mühle in Kassel?", []),
        ("May I enter?", []),
    ],
)
def test_names_are_what_has_a_capital_within_a_question(question: str, names: list[tuple[str, ...]]) -> None:
    assert list(names_asked(question)) == names


@pytest.mark.parametrize(
    ("name", "tells", "not_tells"),
    [
        (("US",), ("the US", "the United States", "the U.S. navy", "US-east"), ("tell us", "the EU", "status")),
        (("United", "States"), ("the US", "the States"), ("the EU",)),
        (("Postgres",), ("PostgreSQL", "postgres-orders"), ("Post offices",)),
        (("America",), ("American mills",), ("Amber",)),
        (("CPU",), ("cpu: 4", "cpuLimit", "two CPUs"), ("occupied",)),
        (("APIs",), ("the API",), ("rapid",)),
        (("CI/CD",), ("CI/CD",), ("a deciding vote",)),
    ],
)
def test_a_text_tells_of_a_name_in_whatever_form(
    name: tuple[str, ...], tells: tuple[str, ...], not_tells: tuple[str, ...]
) -> None:
    assert [text for text in tells if not tells_of(text, name)] == []
    assert [text for text in not_tells if tells_of(text, name)] == []


def test_a_verb_that_joins_a_thing_to_what_is_asked_of_it_need_not_be_told() -> None:
    assert forms_of("Which port does the pump run on?") == forms_of("Which port, pump?")
    assert forms_of("In which language is the pump written?") == forms_of("language, pump")
    assert forms_of("What does the pump run on?") != forms_of("What, pump?")
