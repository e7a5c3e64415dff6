"""What a model is asked to write of a pattern, and what of its answer is kept."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.errors import InvalidInput
from knowledge.memory.checkpoint.summary_prompt import (
    MAX_CHARS,
    MAX_ENTRIES,
    distinct,
    instructions,
    read_answer,
    records,
    select_material,
)
from knowledge.models import Entry
from knowledge.text.names import find_invented
from tests.support.cases import each_case, over
from tests.support.entries import approval, failure, rejection, stored

TOLD = (
    "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType' in src/cart.py, line 42, Python 3.12.1, after"
    " 10 ms; use utf-8 with --no-cache, `json.loads(text)`, HTTP 404, error E0382, and read or write the URL in"
    ' ~/.config/app.toml when it says "no such price" at 99.5%'
)
ANSWER: dict[str, Any] = {
    "title": "A missing price breaks the cart total",
    "problem": "A total is made of prices, and one of them is None, so that a TypeError ends it.",
    "when_to_try": "When a sum meets a value that is missing.",
    "when_not_to_try": "",
}
CART = [stored(failure(error_message="TypeError: int and NoneType", task_id=f"T-{n}")) for n in range(3)]


def read(**changes: Any) -> Any:
    return read_answer(json.dumps(ANSWER | changes), select_material(CART))


# what a model may say


@each_case
def test_what_the_entries_say_may_be_said_again(written: str) -> None:
    assert list(find_invented(written, TOLD)) == []


@each_case
def test_a_name_or_number_that_no_entry_holds_is_found(written: str, name: str) -> None:
    assert list(find_invented(written, TOLD)) == [name]


@given(st.integers(0, 10**6), st.sampled_from(["line {}", "v{}", "{}ms", "`{}`", "E{}", "port:{}", "/p/{}", "x_{}"]))
def test_no_number_passes_that_is_not_told(number: int, form: str) -> None:
    told = " ".join(str(other) for other in range(number + 1, number + 20)) + f" 1{number} {number}0 {number}.5"
    assert list(find_invented(form.format(number), told))
    assert not list(find_invented(form.format(number), told + " line " + form.format(number)))


# what is read


def test_a_whole_answer_is_read_whatever_stands_around_it() -> None:
    text = json.dumps(ANSWER | {"reasoning": "because 42"})
    for around in (text, f"```json\n{text}\n```", f"Here it is:\n{text}\nDone."):
        answer = read_answer(around, select_material(CART))
        assert (answer.title, answer.when_not_to_try) == (ANSWER["title"], "")


def test_line_breaks_become_blanks() -> None:
    assert read(title=" A missing price\n\nbreaks  the total ").title == "A missing price breaks the total"


@over(
    "text, said",
    [
        ("", "answer: is not a JSON object"),
        ("I cannot do that.", "answer: is not a JSON object"),
        ("[1, 2]", "answer: is not a JSON object"),
        (json.dumps(ANSWER)[:-5], "answer: is not a JSON object"),
        (json.dumps({"title": "A thing"}), "problem: is missing"),
        (json.dumps(ANSWER | {"title": ""}), "title: String should have at least 1 character"),
        (json.dumps(ANSWER | {"title": "a" * 121}), "title: String should have at most 120 characters"),
        (json.dumps(ANSWER | {"problem": "word " * 200}), "problem: String should have at most 800 characters"),
        (json.dumps(ANSWER | {"when_to_try": ["a", "b"]}), "when_to_try: Input should be a valid string"),
        (json.dumps(ANSWER | {"title": "a\0b"}), "title: holds a NUL character"),
        (
            json.dumps(ANSWER | {"problem": "On line 7 it fails"}),
            "problem: names '7', which does not occur in the entries",
        ),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_answer(text, select_material(CART))
    assert str(refused.value).startswith(said)


@given(st.text(max_size=300))
def test_no_text_makes_the_reader_fail_in_another_way(text: str) -> None:
    for written in (text, "{" + text + "}"):
        with pytest.raises(InvalidInput):
            read_answer(written, select_material(CART))


# what is asked


def test_records_stand_between_their_fences_and_say_neither_who_nor_where() -> None:
    entry = stored(failure(project_id="secret-project", task_id="T-17", run_id="R-1", verified_by="alice"))
    asked = records(select_material([entry, stored(rejection())]), "0123")
    lines = asked.split("\n")
    assert lines.count("0123 record") == lines.count("0123 end") == 2
    assert "solution_steps: Treat a missing price as zero" in lines
    assert "revision_approach: Expand, migrate, contract" in lines
    assert not any(word in asked for word in ("secret-project", "T-17", "R-1", "alice"))
    assert instructions("0123").count("0123") == 2


def test_every_entry_type_shows_its_situation_and_its_resolution() -> None:
    for entry, words in (
        (failure(), ("TypeError in the cart", "Treat a missing")),
        (rejection(), ("no migration plan", "Expand")),
        (approval(), ("product list", "ETag")),
    ):
        assert all(word in records(select_material([stored(entry)]), "f") for word in words)


def test_long_texts_are_cut_alike_and_short_ones_kept() -> None:
    long = [stored(failure(failure_description="a" * 60_000, solution_steps="b" * 60_000)) for _ in range(8)]
    asked = records(select_material(long), "f")
    assert len(asked) < MAX_CHARS + 3_000
    assert asked.count(" ... (cut)") == 16
    assert asked.count("technology: python") == 8
    one = records(select_material(long[:1]), "f")
    assert one.count("a") > 10_000


def test_entries_that_tell_the_same_are_shown_once() -> None:
    def entry(number: int, text: str) -> Entry:
        return stored(failure(failure_description=text, task_id=f"T-{number}"), UUID(int=number))

    same = [entry(1, "It broke"), entry(2, " it  BROKE"), entry(3, "It broke otherwise")]
    assert [each.entry_id.int for each in distinct(same)] == [1, 3]
    many = [entry(number, f"It broke {number}") for number in range(20)]
    assert distinct(many) == many[:MAX_ENTRIES]
