"""What is remembered of callers is small, however long their texts are."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from orchestrator.agent_hooks.questions import HookQuestion
from orchestrator.http.routes.hook_contexts import _as_task, _Handed
from orchestrator.importers.sessions.lessons.entries import project_of
from orchestrator.importers.sessions.steps import Session

LONG = 100_000


def test_a_moment_is_remembered_by_its_hash_and_can_be_forgotten() -> None:
    handed, moment = _Handed(), ("shop", "codex", "s", f"prompt {'x' * LONG}")
    assert [handed.is_first(*moment) for _ in range(2)] == [True, False]
    assert handed.is_first(*moment[:3], "prompt y")
    assert handed.is_first("shop", "codex", "s prompt", "y")
    assert max(map(sys.getsizeof, handed.moments)) < 100
    handed.forget(*moment)
    assert handed.is_first(*moment)


def test_folders_as_long_as_a_body_fill_no_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(200):
            project_of(Session(tool="langgraph", session_id="s", folder=f"/{'y' * LONG}/{number}"), None)
        assert tracemalloc.get_traced_memory()[0] < 200 * LONG / 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("folder", [f"/{'y' * 300}", "/a\0b", f"/{'z/' * LONG}", "/\ud800", "not absolute"])
async def test_a_hook_may_tell_any_folder(folder: str) -> None:
    question = HookQuestion(text="It fails", error=None, session="s", folder=folder, once="o")
    for opens_folder in (True, False):
        assert (await _as_task(question, (), opens_folder=opens_folder)).description == "It fails"
