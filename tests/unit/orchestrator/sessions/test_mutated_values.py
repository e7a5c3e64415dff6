"""Values of transcripts replaced by values of each JSON type: no reader raises, and what is unknown is counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from orchestrator.importers.sessions import claude_code, codex, copilot, gemini, opencode, qwen
from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.lessons.entries import make_entry
from orchestrator.importers.sessions.pairing import pair
from orchestrator.importers.sessions.steps import Session
from tests.unit.orchestrator.sessions.generated_runs import Call, Run, to_claude_code, to_codex
from tests.unit.orchestrator.sessions.test_damaged_transcripts import COPILOT, GEMINI, OPENCODE, QWEN

CALLS = Run(
    [
        Call(id="call_000000", command="pytest", exit_code=1, text="TypeError: no total\n1 failed in 0.1s"),
        Call(id="call_000001", file="cart.py", old="return total", new="return total or 0"),
        Call(id="call_000002", command="grep x y", exit_code=1, is_search=True),
        Call(id="call_000003", command="rm -rf build", refused="rule", text="no"),
        Call(id="call_000004", command="pytest", text="1 passed in 0.1s"),
    ]
)
CLAUDE = [line for lines in to_claude_code(CALLS, "one").values() for line in lines]
HANDED = {"type": "hook_additional_context", "content": ["x"]}
CLAUDE += [
    json.dumps({"type": "attachment", "sessionId": "one", "attachment": HANDED}),
    json.dumps({"type": "system", "sessionId": "one", "content": "x"}),
]
CODEX = [line for lines in to_codex(CALLS, "one").values() for line in lines]
READERS: dict[str, tuple[Any, list[str]]] = {
    "claude-code": (claude_code, CLAUDE),
    "codex": (codex, CODEX),
    "gemini-cli": (gemini, GEMINI),
    "qwen-code": (qwen, QWEN),
    "copilot-cli": (copilot, COPILOT),
    "opencode": (opencode, OPENCODE),
}
VALUES: tuple[Any, ...] = (None, [], ["x"], [{}], {}, {"x": 1}, 7, 7.5, True, "", "x")


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside of one."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inside:
        yield (*path, name)
        yield from paths_of(each, (*path, name))


def mutants(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the transcript once for each value in it and each replacement of that value."""
    for number, line in enumerate(lines):
        whole = json.loads(line)
        for path in paths_of(whole):
            for value in VALUES:
                changed = deepcopy(whole)
                place = changed
                for name in path[:-1]:
                    place = place[name]
                place[path[-1]] = value
                told = f"line {number}, {'.'.join(map(str, path))} = {value!r}"
                yield told, [*lines[:number], json.dumps(changed), *lines[number + 1 :]]


@pytest.mark.long
@pytest.mark.parametrize("tool", READERS)
def test_any_value_of_any_type_is_read_or_passed_over(tool: str) -> None:
    module, lines = READERS[tool]
    read: Callable[[Iterable[str]], Session] = module.read
    seen, raised = 0, []
    for told, mutant in mutants(lines):
        seen += 1
        try:
            module.matches([json.loads(line) for line in mutant])
            session = read(mutant)
            for lesson in pair(session).lessons:
                make_entry(lesson, session, project="p")
        except Exception as error:  # noqa: BLE001 - all of them are told together
            raised.append(f"{told}: {type(error).__name__}: {error}")
    assert seen > 500
    assert not raised, f"{len(raised)} of {seen}\n" + "\n".join(raised[:20])


@pytest.mark.parametrize("tool", READERS)
def test_a_first_line_with_any_value_is_told_apart_or_passed_over(tool: str, tmp_path: Path) -> None:
    _, lines = READERS[tool]
    path = tmp_path / "a.jsonl"
    for number, (_, mutant) in enumerate(mutants(lines[:2])):
        if number % 7:
            continue
        path.write_text("".join(f"{line}\n" for line in [*mutant, *lines[2:]]))
        unread: list[str] = []
        read_sessions(find_transcripts([path]).transcripts, unread)


@pytest.mark.parametrize("tool", READERS)
def test_lines_of_unknown_types_are_counted(tool: str) -> None:
    module, lines = READERS[tool]
    before = module.read(lines)
    after = module.read([*lines, '{"type": "of_the_next_version", "payload": {"type": "x"}}', "[1]", '{"half'])
    assert after.passed_over.total() == before.passed_over.total() + 3
    assert len(after.steps) == len(before.steps)
