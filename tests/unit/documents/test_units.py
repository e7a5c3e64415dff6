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
