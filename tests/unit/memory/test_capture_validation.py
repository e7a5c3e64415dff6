"""Which entries can be stored: every rule of every field, and the name of the field that breaks it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardwon.errors import InvalidInput
from hardwon.validation import MAX_TEXT_BYTES, check_text
from knowledge.memory.rules.validation import content_hash, first_status, validate
from knowledge.models import AppliesWhen, EntryStatus, EntryType, NewEntry
from tests.support.cases import over
from tests.support.entries import approval, failure, rejection

ENTRIES = [failure(), rejection(), approval()]
REQUIRED = {
    EntryType.FAILURE_SOLUTION: {"project_id", "agent_type", "failure_description"},
    EntryType.GATE_REJECTION: {"project_id", "gate_type", "human_feedback"},
    EntryType.GATE_APPROVAL: {"project_id", "gate_type", "approved_approach"},
}
EVERYWHERE = {
    "project_id", "workspace", "agent_type", "task_type", "technology", "task_description", "verified_by",
    "when_to_try", "task_id", "run_id", "idempotency_key",
}  # fmt: skip
OWN = {
    EntryType.FAILURE_SOLUTION: {"failure_description", "error_message", "solution_steps"},
    EntryType.GATE_REJECTION: {"gate_type", "proposal", "human_feedback", "revision_approach"},
    EntryType.GATE_APPROVAL: {"gate_type", "proposal", "approved_approach"},
}
LIMITS = {
    "project_id": 200, "workspace": 200, "agent_type": 100, "task_type": 100, "technology": 100, "gate_type": 50,
    "verified_by": 500, "task_id": 200, "run_id": 200, "idempotency_key": 200,
}  # fmt: skip
TEXTS = {field.name for field in fields(NewEntry)} - {
    "entry_type",
    "success_verified",
    "applies_when",
    "dead_ends",
    "outside_text",
}
TAKEN = [(entry, name) for entry in ENTRIES for name in sorted(EVERYWHERE | OWN[entry.entry_type])]
ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60)


def refused(entry: NewEntry) -> str:
    """Return the field that is named when the entry is refused."""
    with pytest.raises(InvalidInput) as told:
        validate(entry)
    assert str(told.value).startswith(f"{told.value.field}: ")
    return told.value.field


def changed(entry: NewEntry, name: str, value: object) -> NewEntry:
    told: dict[str, Any] = {name: value}
    return replace(entry, **told)


def named(case: object) -> str | None:
    return case.entry_type.value if isinstance(case, NewEntry) else None


def test_every_field_has_its_rules_here() -> None:
    assert {name for _, name in TAKEN} == TEXTS


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
def test_an_entry_with_what_its_type_needs_is_taken(entry: NewEntry) -> None:
    needed = {name: getattr(entry, name) for name in REQUIRED[entry.entry_type]}
    validate(entry)
    validate(NewEntry(entry_type=entry.entry_type, **needed))


@pytest.mark.parametrize(
    ("entry", "name"), [(e, n) for e in ENTRIES for n in sorted(REQUIRED[e.entry_type])], ids=named
)
def test_a_required_field_that_is_missing_is_named(entry: NewEntry, name: str) -> None:
    """D12, D20."""
    assert refused(changed(entry, name, None)) == name


@pytest.mark.parametrize(
    ("entry", "name"),
    [(entry, name) for entry in ENTRIES for name in sorted(TEXTS - EVERYWHERE - OWN[entry.entry_type])],
    ids=named,
)
def test_a_field_of_another_type_is_refused_and_not_dropped(entry: NewEntry, name: str) -> None:
    assert refused(changed(entry, name, "told")) == name


NO_TEXTS = ["", " ", "\n\t\r", "\u00a0\u2003\u3000", "a\0b", "\0", "half \ud83d", "\udc00", 5, ["a"], b"a"]


@pytest.mark.parametrize(("entry", "name"), TAKEN, ids=named)
def test_what_is_no_text_to_store_is_refused_in_every_field(entry: NewEntry, name: str) -> None:
    """D20, D46."""
    assert {refused(changed(entry, name, bad)) for bad in NO_TEXTS} == {name}


@pytest.mark.parametrize(("entry", "name"), TAKEN, ids=named)
def test_each_field_takes_as_much_as_it_holds_and_no_more(entry: NewEntry, name: str) -> None:
    if name in LIMITS:
        fits, too_long = "ü" * LIMITS[name], "ü" * (LIMITS[name] + 1)
    else:
        fits, too_long = "ü" * (MAX_TEXT_BYTES // 2), "ü" * (MAX_TEXT_BYTES // 2) + "x"
    validate(changed(entry, name, fits))
    assert refused(changed(entry, name, too_long)) == name


def test_dead_ends_are_texts_of_a_failure_few_and_short_and_no_part_of_what_makes_it_another_event() -> None:
    validate(failure(dead_ends=("x" * 4096,) * 5))
    for bad in (("x" * 4097,), ("x",) * 6, ("",), ("a\0b",), (5,), "text", {"x"}):
        assert refused(failure(dead_ends=bad)) == "dead_ends"
    assert refused(replace(rejection(), dead_ends=("x",))) == "dead_ends"
    assert content_hash(failure(dead_ends=("x",))) == content_hash(failure())


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
@pytest.mark.parametrize(
    ("conditions", "field"),
    [
        (AppliesWhen(), "applies_when"),
        ({"tool": "pytest"}, "applies_when"),
        (AppliesWhen(version=">=3.10"), "applies_when.version"),
        (AppliesWhen(technology="python", version="3.10 or so"), "applies_when.version"),
        (AppliesWhen(technology=" "), "applies_when.technology"),
        (AppliesWhen(tool="x" * 201), "applies_when.tool"),
        (AppliesWhen(tool="a\0b"), "applies_when.tool"),
        (AppliesWhen(error="("), "applies_when.error"),
        (AppliesWhen(error=r"(a)\1"), "applies_when.error"),
        (AppliesWhen(error="x" * 201), "applies_when.error"),
    ],
)
def test_conditions_that_cannot_be_evaluated_are_refused_by_name(
    entry: NewEntry, conditions: object, field: str
) -> None:
    validate(changed(entry, "applies_when", AppliesWhen(technology="python", version=">=3.10,<4", error="(a+)+$")))
    assert refused(changed(entry, "applies_when", conditions)) == field


def test_an_entry_with_other_conditions_is_another_one_and_one_without_is_what_it_was() -> None:
    plain, one, two = (failure(applies_when=each) for each in (None, AppliesWhen(tool="a"), AppliesWhen(tool="b")))
    assert len({content_hash(each) for each in (plain, one, two)}) == 3
    assert content_hash(plain) == ("d21b1272f9f3dfa0628a1815f8fc332fc2b7bc158f3370fd4459aa2b362bb9bf")


@over("letter", ["x", "ü", "漢", "\U0001f600"])
def test_a_text_may_have_64_kib_of_utf_8_and_no_byte_more(letter: str) -> None:
    fits = letter * (MAX_TEXT_BYTES // len(letter.encode()))
    fits += "x" * (MAX_TEXT_BYTES - len(fits.encode()))
    check_text("solution_steps", fits)
    with pytest.raises(InvalidInput, match="65,537 bytes"):
        check_text("solution_steps", f"{fits}x")


@given(ANY_TEXT, st.sampled_from(sorted(TEXTS)))
@example("\u200b", "solution_steps")
def test_any_text_is_either_stored_as_utf_8_or_refused_by_name(text: str, name: str) -> None:
    """D46."""
    surrogate = any("\ud800" <= letter <= "\udfff" for letter in text)
    if text.strip() and "\0" not in text and not surrogate:
        check_text(name, text)
        assert text.encode().decode() == text
    else:
        with pytest.raises(InvalidInput) as told:
            check_text(name, text)
        assert told.value.field == name


@over("entry_type", ["", "failure", "FAILURE_SOLUTION", None, 3])
def test_an_unknown_type_is_refused_and_the_known_ones_are_named(entry_type: Any) -> None:
    with pytest.raises(InvalidInput, match="failure_solution, gate_rejection, gate_approval") as told:
        validate(replace(failure(), entry_type=entry_type))
    assert told.value.field == "entry_type"


@over("verified", ["true", 1, None])
def test_verified_is_true_or_false(verified: Any) -> None:
    """D22."""
    assert refused(replace(failure(), success_verified=verified)) == "success_verified"


@over(
    "entry, status",
    [
        (failure(), EntryStatus.STAGED),
        (failure(solution_steps=None), EntryStatus.OPEN),
        (failure(success_verified=False), EntryStatus.OPEN),
        (failure(success_verified=False, solution_steps=None), EntryStatus.OPEN),
        (rejection(), EntryStatus.STAGED),
        (rejection(revision_approach=None), EntryStatus.OPEN),
        (approval(), EntryStatus.STAGED),
    ],
)
def test_an_entry_is_staged_when_its_resolution_is_there_and_verified(entry: NewEntry, status: EntryStatus) -> None:
    """D20, D21, D22."""
    assert first_status(entry) is status


def test_the_content_hash_is_of_what_was_told_and_not_of_who_told_it() -> None:
    told = content_hash(failure())
    who = {"workspace": "w", "project_id": "p", "task_id": "t", "run_id": "r", "idempotency_key": "k"}
    assert content_hash(failure(**who)) == told
    for name in sorted(TEXTS - set(who)):
        assert content_hash(changed(failure(), name, "told otherwise")) != told, name
    assert content_hash(failure(success_verified=False)) != told


@given(st.lists(st.text(max_size=5), min_size=3, max_size=3))
def test_texts_that_move_between_fields_are_another_content(words: list[str]) -> None:
    names = ("failure_description", "error_message", "solution_steps")
    one = failure(**dict(zip(names, words, strict=True)))
    other = failure(**dict(zip(names, words[1:] + words[:1], strict=True)))
    assert (content_hash(one) == content_hash(other)) == (one == other)
