"""What of a passage can answer: each piece of it with what it says nothing without."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from knowledge.documents.segmentation.segments import MAX_BLOCK_CHARS, Unit, UnitKind
from knowledge.documents.segmentation.units import units

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


def test_a_question_is_shown_with_its_answer_and_never_alone() -> None:
    found = read("Who opens the valve? The night shift opens it. Who closes it?")
    assert [(each.kind, each.read, each.told) for each in found] == [
        (UnitKind.SENTENCE, "Who opens the valve?", "Who opens the valve? The night shift opens it."),
        (UnitKind.SENTENCE, "The night shift opens it.", "The night shift opens it."),
        (UnitKind.QUESTION, "Who closes it?", "Who closes it?"),
    ]


@given(st.lists(st.one_of(SIGNS, st.text(max_size=60)), max_size=30).map("\n".join))
def test_units_stand_where_they_say_in_order(text: str) -> None:
    found = read(text)
    assert all(text[slice(*each.span)].strip() for each in found)
    assert all(one.span.start <= other.span.start for one, other in pairwise(found))
    assert all(each.kind is UnitKind.ROW or each.told == text[slice(*each.span)] for each in found)
    assert all(len(each.told) <= MAX_BLOCK_CHARS + len("\n```") for each in found)


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
    assert len(read(long)[0].told) <= MAX_BLOCK_CHARS


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
    assert MAX_BLOCK_CHARS / 2 < len(read(long)[0].told) <= MAX_BLOCK_CHARS
