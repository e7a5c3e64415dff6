"""Damaged transcripts: whatever a line holds, a reader counts it and goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.importers.sessions import aider, copilot, gemini, opencode, qwen
from orchestrator.importers.sessions.pairing import pair
from orchestrator.importers.sessions.steps import Session
from tests.unit.orchestrator.sessions import small_transcripts as small
from tests.unit.orchestrator.sessions.small_transcripts import DIFF, FAILED, FOLDER
from tests.unit.orchestrator.sessions.test_aider_chats import HISTORY, TERMINAL

PATH = f"{FOLDER}/cart.py"
SHOWN = {"fileDiff": DIFF, "filePath": PATH}
GEMINI = small.gemini(
    small.gemini_call("1", args={"command": "pytest"}, output=f"Output: {FAILED}\nExit Code: 1\nProcess Group PGID: 7"),
    small.gemini_call("2", "replace", args={"file_path": PATH}, output="done", resultDisplay=SHOWN),
    small.gemini_call("3", args={"command": "rm a"}, status="error", error="Tool execution blocked: no"),
)
QWEN = [
    small.qwen_line("user", message={"parts": [{"text": "Mend it"}]}),
    small.qwen_call("1", command="pytest"),
    small.qwen_result("1", small.shell_result(1, FAILED, "error"), error=f"Command: pytest\nOutput: {FAILED}"),
    small.qwen_call("2", "edit", file_path=PATH, old_string="a", new_string="b"),
    small.qwen_result("2", {"status": "success", "resultDisplay": SHOWN}, output="done"),
    small.qwen_call("3", command="rm a"),
    small.qwen_result("3", {"status": "error", "errorType": "execution_denied"}, error="a rule"),
]
COPILOT = [
    small.copilot_start(),
    small.copilot_line("user.message", content="Mend it", transformedContent="<system_reminder>x</system_reminder>"),
    small.copilot_call("1", command="pytest"),
    small.copilot_result("1", 1, f"{FAILED}\n<shellId: 1 completed with exit code 1>"),
    small.copilot_call("2", "edit", path=PATH, old_str="a", new_str="b"),
    small.copilot_line(
        "tool.execution_complete",
        toolCallId="2",
        success=True,
        result={"content": "x", "detailedContent": DIFF},
        fileEdits=[{"path": PATH}],
    ),
    small.copilot_call("3", command="rm a"),
    small.copilot_line("permission.completed", toolCallId="3", result={"kind": "denied-by-rules"}, decisionSource="x"),
    small.copilot_line("tool.execution_complete", toolCallId="3", success=False, error={"code": "denied"}),
]
OPENCODE = small.opencode_lines(
    small.opencode_part("call_1", input={"command": "pytest"}, output=FAILED, metadata={"exit": 1}),
    small.opencode_part("call_2", tool="edit", input={"filePath": PATH}, title="cart.py", metadata={"diff": DIFF}),
    small.opencode_part(
        "call_3", status="error", input={"command": "rm a"}, error="The user has specified a rule which prevents [1]"
    ),
)
READERS: dict[str, tuple[Callable[[Iterable[str]], Session], list[str]]] = {
    "gemini": (gemini.read, GEMINI),
    "qwen": (qwen.read, QWEN),
    "copilot": (copilot.read, COPILOT),
    "opencode": (opencode.read, OPENCODE),
}
WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    float("inf"),
    10**30,
    "",
    "x",
    "\ud800",
    [],
    [None],
    [[]],
    {},
    {"type": 3},
    "A" * 20_000,
)


def damage(value: Any, chance: random.Random) -> Any:
    """Return a value with some of what is in it replaced, left out or added."""
    if chance.random() < 0.06:
        return chance.choice(WRONG)
    if isinstance(value, dict):
        kept = {name: damage(each, chance) for name, each in value.items() if chance.random() > 0.04}
        return kept | ({"unknown": chance.choice(WRONG)} if chance.random() < 0.1 else {})
    if isinstance(value, list):
        return [damage(each, chance) for each in value for _ in range(chance.choice((1, 1, 1, 1, 0, 2)))]
    return value


def damage_lines(lines: list[str], chance: random.Random) -> list[str]:
    damaged = [json.dumps(damage(json.loads(line), chance)) for line in lines]
    if chance.random() < 0.3:
        chance.shuffle(damaged)
    return [line[: chance.randrange(len(line) + 1)] if chance.random() < 0.05 else line for line in damaged]


@pytest.mark.parametrize("tool", READERS)
def test_random_damage_is_passed_over(tool: str) -> None:
    read, lines = READERS[tool]
    chance = random.Random(f"damage {tool}")
    learned = 0
    for _ in range(1500):
        session = read(damage_lines(lines, chance))
        learned += len(session.steps)
        assert [step.order for step in session.steps] == sorted({step.order for step in session.steps})
        pair(session)
    assert learned > 1500, "most of a damaged transcript is still read"


def test_undamaged_transcripts_have_all_their_steps() -> None:
    told = {tool: [step.outcome.value for step in read(lines).steps] for tool, (read, lines) in READERS.items()}
    assert told == {tool: ["failed", "ok", "denied"] for tool in READERS}


def test_damage_of_an_aider_chat_is_passed_over(tmp_path: Path) -> None:
    chance = random.Random("damage aider")
    path = tmp_path / ".aider.chat.history.md"
    for _ in range(150):
        for file, text in ((path, "\n".join(HISTORY)), (tmp_path / "terminal.txt", TERMINAL)):
            lines = [line for line in text.split("\n") for _ in range(chance.choice((1, 1, 1, 1, 0, 2)))]
            shown = "\n".join(
                line[: chance.randrange(len(line) + 1)] if chance.random() < 0.1 else line for line in lines
            )
            file.write_bytes(shown.encode() + bytes(chance.randrange(256) for _ in range(chance.randrange(20))))
        for session in aider.read_database(path):
            pair(session)


@pytest.mark.parametrize("tool", READERS)
def test_long_texts_are_cut_when_they_are_read(tool: str) -> None:
    read, lines = READERS[tool]
    long = [line.replace("TypeError: no price", "TypeError: no price" + "z" * 500_000) for line in lines]
    assert any(len(line) > 500_000 for line in long)
    assert all(len(step.text) < 20_000 for step in read(long).steps)
