"""A run that read text from outside of the machine: whoever decides on trust sees it at each entry that came after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowledge.access.principals import OWNER
from knowledge.wiring.open import Knowledge
from tests.acceptance.sessions.test_dead_ends import learn
from tests.acceptance.sessions.test_learn_sessions import EDIT, FAIL, PASS, write
from tests.support.entries import failure
from tests.support.processes import Commands

PAGE = [
    {"type": "tool_use", "id": "toolu_page", "name": "WebFetch", "input": {"url": "https://example.org"}},
    {"type": "tool_result", "tool_use_id": "toolu_page", "content": "a page"},
]
READ = [
    json.dumps({"type": kind, "sessionId": "one", "message": {"role": kind, "content": [block]}})
    for kind, block in zip(("assistant", "user"), PAGE, strict=True)
]


@pytest.mark.long
async def test_a_failure_of_before_a_page_is_marked_once_its_solution_came_after(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", [FAIL])
    (opened,) = await learn(knowledge, tmp_path, path)
    assert not (await knowledge.capture.get(opened)).outside_text
    lines = write(path, [FAIL, EDIT, PASS]).read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if EDIT.id in line)
    path.write_text("".join(f"{line}\n" for line in [*lines[:at], *READ, *lines[at:]]))
    assert await learn(knowledge, tmp_path, path) == [opened]
    assert (await knowledge.capture.get(opened)).outside_text
    await knowledge.checkpoints.process_all()
    (pattern,) = await knowledge.lists.patterns()
    (entry,) = (await knowledge.grouping.show(pattern.pattern_id)).entries
    assert entry.outside_text


async def test_a_failure_that_is_told_again_without_it_keeps_the_mark(knowledge: Knowledge) -> None:
    telling = knowledge.for_principal(OWNER.acting_for_agent("sessions.codex.one"))
    told = await telling.capture.capture(failure(outside_text=True))
    assert await telling.capture.capture(failure()) == told
    assert (await knowledge.capture.get(told)).outside_text


@pytest.mark.long
def test_the_mark_stands_in_the_dry_run_in_the_review_and_with_the_pattern(beside: Commands, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [FAIL, EDIT, PASS], more=READ)
    (lesson,) = beside.here("learn", "sessions", path, "--workspace", "outside", "--dry-run")["lessons"]
    assert lesson["outside_text"] is True
    table = beside.run("learn", "sessions", path, "--workspace", "outside", "--dry-run").stdout
    assert "after text from outside" in table
    (answer,) = beside.here("learn", "sessions", path, "--workspace", "outside")["entries"]
    shown = beside.here("review", "show", answer["entry_id"], "--workspace", "outside")
    assert shown["outside_text"] is True
    assert "read text from outside" in beside.run("review", "show", answer["entry_id"], "--workspace", "outside").stdout
    beside.here("checkpoint", "--all", "--workspace", "outside")
    asked = ("query", "failure", "`pytest` fails", "--error", FAIL.text, "--workspace", "outside")
    (pattern,) = beside.here(*asked)["patterns"]
    details = beside.run("patterns", "show", pattern["pattern_id"], "--workspace", "outside").stdout
    assert "after text from outside was read" in details
