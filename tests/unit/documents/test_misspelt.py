"""Which words of a question are misspelt, and as which of the words that were found they are read."""

from __future__ import annotations

import pytest

from knowledge.adapters.embedding.local import is_english
from knowledge.documents.retrieval.spelling import correct_spelling, correctable_words


def read(question: str, *texts: str) -> str | None:
    found = correct_spelling(question, correctable_words(question), texts, is_english)
    return found and found.question


@pytest.mark.parametrize(
    ("question", "text", "meant"),
    [
        ("How long is the retension?", "The retention is a week.", "How long is the retention?"),
        ("Who answers a databse timeout?", "A database answers late.", "Who answers a database timeout?"),
        ("Who owns paymnets?", "The ledger owns payments.", "Who owns payments?"),
        ("Where does Postgers listen?", "PostgreSQL, or postgres, listens.", "Where does postgres listen?"),
        ("When is the snapshoot taken?", "Snapshots: a snapshot is taken.", "When is the snapshot taken?"),
        ("Who has acess?", "Access is for all.", "Who has access?"),
        ("Who has acess to paymnets?", "Access to payments is for all.", "Who has access to payments?"),
    ],
)
def test_a_misspelt_word_is_read_as_the_one_that_was_found(question: str, text: str, meant: str) -> None:
    assert read(question, text) == meant


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who signs the contract?", "The contact signs."),
        ("How does sharding work?", "Sharing works by mail."),
        ("How is linting done?", "Listing is done at night."),
        ("Who owns vitess?", "The tests of vitest are owned by all."),
        ("Who runs Merlyn?", "Merlin runs."),
        ("Who runs importer-b?", "The exporter-b, an imported one."),
        ("Who runs `retension`?", "Retention runs."),
        ("Who runs 'retension'?", "Retention runs."),
        ("What is in retension.yaml?", "The retention is a week."),
        ("What is the ratio of dogs?", "The radio of dogs."),
        ("When are the backups?", "Backup: at night."),
    ],
)
def test_another_word_or_name_is_no_misspelling(question: str, text: str) -> None:
    assert read(question, text) is None


def test_a_word_that_can_be_two_is_left_as_it_is() -> None:
    assert read("Who holds the postion?", "The position holds.") == "Who holds the position?"
    assert read("Who holds the postion?", "The position of the potion.") is None


def test_what_is_inflected_is_a_word_of_the_language() -> None:
    assert all(map(is_english, ["database", "dashboards", "sharding", "shard", "deployed", "payments"]))
    assert not any(map(is_english, ["databse", "dashbords", "conections", "retension"]))
