"""What a block must hold to answer, and which block is chosen."""

from __future__ import annotations

import pytest

from knowledge.documents.reading.question import Held, Question, without_preface
from knowledge.models import TermStatistics
from knowledge.text.bm25 import term_counts
from tests.support.cases import over

USUAL = frozenset(
    [
        "how",
        "do",
        "i",
        "restart",
        "the",
        "pumps",
        "in",
        "lab",
        "default",
        "size",
        "of",
        "what",
        "is",
        "does",
        "run",
        "on",
        "long",
        "may",
        "a",
        "client",
        "wait",
    ]
)


def lacking(question: str, text: str, *, title: str = "Pumps", known: str = "") -> list[str]:
    """Return the words that a text lacks to answer, where the words of `known` are in most passages."""
    common = dict.fromkeys(term_counts(known), 50)
    statistics = TermStatistics(documents=100, frequencies=common)
    asked = Question(question, statistics, own=question, is_word=lambda word: word in USUAL or word in known.split())
    return [each.written for each in asked.missing(Held(text, title), text, title)]


@over(
    "question, text, missing",
    [
        ("How do I restart the pumps in the lab?", "Restart all pumps of production.", ["lab"]),
        ("Which port does Kafka use?", "Redis uses port 6380.", ["Kafka"]),
        ("Which port does dropbear use?", "The server sshd uses port 22.", ["dropbear"]),
        ("What does exit code 23 mean?", "It runs at 23:59 every day.", ["23"]),
        ("What does --dry-run do?", "A dry run moves nothing.", ["--dry-run"]),
        ("What does --dry-run do?", "With --dry-run it moves nothing.", []),
        ("What changed in 3.9.0?", "In version 3.8 the pump got louder.", ["3.9.0"]),
        ("What changed in 3.9.0?", "In version 3.9 the pump got louder.", []),
        ("What was the fee in 2024?", "In 2023 it was 12 euros.", ["2024"]),
        ("What was the fee in 2024?", "Since 2024-06-01 it is 12 euros.", []),
        ("Who sees TV?", "Television is seen by all.", ["TV"]),
        ("What are the two ways?", "There are 2 ways.", []),
        ("Since when is the mode session?", "The mode is session.", ["since"]),
        ("What is the url of the pumps?", "Pumps are at https://pumps.example/.", []),
        ("What is the url of the pumps?", "Pumps are at the wall.", ["url"]),
        ("How long may 3 clients wait?", "Clients may wait for an hour.", []),
    ],
)
def test_each_word_that_says_which_one_is_meant_has_to_stand_there(
    question: str, text: str, missing: list[str]
) -> None:
    usual = "port server use uses code exit mean changed version fee ways mode session clients sees seen television"
    assert lacking(question, text, known=usual) == missing


def test_a_number_behind_the_name_of_the_document_is_its_version() -> None:
    assert lacking("What is the mode in pumpd 2?", "There are 2 modes.", title="pumpd", known="mode") == ["2"]
    assert lacking("What is the mode in pumpd 2?", "The mode of pumpd 2 is calm.", title="pumpd", known="mode") == []


@pytest.mark.parametrize(
    ("question", "text", "repeats"),
    [
        ("Who reads the gauge?", "Who reads the gauge", True),
        ("Who reads the gauge?", "Only Ann reads the gauge.", False),
        ("Is the gauge read?", "The gauge is read.", False),
    ],
)
def test_a_text_of_the_question_alone_is_no_answer(question: str, text: str, *, repeats: bool) -> None:
    asked = Question(question, TermStatistics(documents=1, frequencies={}), own=question)
    assert asked.repeats(Held(text)) is repeats


def test_a_command_that_asks_the_question_is_no_answer() -> None:
    asked = Question("Who reads the gauge?", TermStatistics(documents=1, frequencies={}), own="Who reads the gauge?")
    assert asked.is_shown_by('pump ask "Who reads the gauge?"')
    assert not asked.is_shown_by("pump read gauge")


@over(
    "text, turned",
    [
        ("Dump only the data, not the schema.", True),
        ("Dump only the schema, not the data.", False),
        ("Dump the schema and the data.", False),
    ],
)
def test_a_text_that_denies_what_is_asked_for_is_no_answer(text: str, *, turned: bool) -> None:
    asked = "Which option dumps the schema and no data?"
    question = Question(asked, TermStatistics(documents=1, frequencies={}), own=asked)
    assert question.is_turned_by(text) is turned


@over("head, named", [("path.join([...paths])", 1.0), ("join(path)", 0.5), ("pool", 0.0)])
def test_a_heading_names_a_function_without_its_arguments(head: str, named: float) -> None:
    asked = "What does path.join do?"
    known = TermStatistics(documents=1, frequencies={})
    assert Question(asked, known, own=asked, is_word=lambda word: word in USUAL).names(head) == named


@over(
    "message, asked",
    [
        ("We moved to Hetzner. Which port does Redis use?", "Which port does Redis use?"),
        ("We run Redis. Which port does it use?", "We run Redis. Which port does it use?"),
        ("We run Redis. Which port?", "We run Redis. Which port?"),
        ("The port of Redis", "The port of Redis"),
    ],
)
def test_what_is_told_before_a_question_is_read_where_the_question_points_back_to_it(message: str, asked: str) -> None:
    assert without_preface(message) == asked
