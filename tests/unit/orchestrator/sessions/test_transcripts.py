"""Transcripts as they lie on a disk: where they are, what they are known by, and those that cannot be read."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from knowledge.memory.rules.validation import validate
from orchestrator.importers.sessions import claude_code, codex, formats
from orchestrator.importers.sessions.formats import (
    default_places,
    find_transcripts,
    parse_since,
    read_lines,
    read_sessions,
)
from orchestrator.importers.sessions.lessons.entries import make_entry
from orchestrator.importers.sessions.pairing import pair
from orchestrator.importers.sessions.steps import MAIN, Decider, Step, StepOutcome, parse_objects
from tests.unit.orchestrator.sessions.generated_runs import Call, Run, make_run, to_claude_code, to_codex

RUN = Run(
    [
        Call(id="call_000000", command="pytest", exit_code=1, text="1 failed in 0.1s"),
        Call(id="call_000001", file="cart.py", old="a", new="b"),
        Call(id="call_000002", command="pytest", text="1 passed in 0.1s"),
    ]
)
NOW = datetime(2026, 11, 27, tzinfo=UTC)


def write(path: Path, lines: list[str], end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + end)
    return path


def claude_line(**fields: object) -> str:
    common = {"sessionId": "s", "cwd": "/home/dev/shop", "version": "2", "uuid": "u", "entrypoint": "cli"}
    return json.dumps({**common, **fields})


def claude_call(call_id: str, name: str = "Bash", **values: object) -> str:
    content = [{"type": "tool_use", "id": call_id, "name": name, "input": values}]
    return claude_line(type="assistant", message={"role": "assistant", "content": content})


def claude_result(call_id: str, text: str, *, is_error: bool = False, **more: object) -> str:
    content = [{"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}]
    return claude_line(type="user", promptId="p", message={"role": "user", "content": content}, **more)


def one_step(*lines: str) -> Step:
    (step,) = claude_code.read(lines).steps
    return step


def test_transcripts_are_known_by_their_content(tmp_path: Path) -> None:
    write(tmp_path / "a" / "notes.jsonl", to_claude_code(RUN, "one")[MAIN])
    write(tmp_path / "b" / "claude.jsonl", to_codex(RUN, "two")[MAIN])
    write(tmp_path / "other.jsonl", ['{"a": 1}', "no JSON"])
    write(tmp_path / "readme.txt", ["hello"])
    found = find_transcripts([tmp_path])
    assert [(each.format.tool, each.session_id) for each in found.transcripts] == [
        ("claude-code", "one"),
        ("codex", "two"),
    ]
    assert found.unread == []
    assert find_transcripts([tmp_path / "other.jsonl"]).unread == [
        f"{tmp_path}/other.jsonl: no transcript of a known tool"
    ]


def test_the_places_of_the_tools_follow_their_variables(tmp_path: Path) -> None:
    for place in (".claude/projects", ".qwen/projects", "moved/projects", "codex/sessions", ".gemini/tmp"):
        (tmp_path / place).mkdir(parents=True)
    assert default_places({}, tmp_path) == [
        tmp_path / each for each in (".claude/projects", ".gemini/tmp", ".qwen/projects")
    ]
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / "moved"), "CODEX_HOME": str(tmp_path / "codex")}
    assert default_places(moved, tmp_path)[:2] == [tmp_path / "moved/projects", tmp_path / "codex/sessions"]


def test_since_takes_days_hours_weeks_and_dates(tmp_path: Path) -> None:
    assert parse_since("7d", NOW) == NOW - timedelta(days=7)
    assert parse_since("12h", NOW) == NOW - timedelta(hours=12)
    assert parse_since("2w", NOW) == NOW - timedelta(weeks=2)
    assert parse_since("2026-01-31", NOW) == datetime(2026, 1, 31, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="neither a time"):
        parse_since("soon", NOW)
    path = write(tmp_path / "a.jsonl", to_claude_code(RUN, "one")[MAIN])
    sub_agent = write(tmp_path / "b.jsonl", to_claude_code(RUN, "one")[MAIN])
    os.utime(sub_agent, (1, 1))
    assert len(find_transcripts([tmp_path], since=NOW - timedelta(days=365 * 50)).transcripts) == 2
    os.utime(path, (1, 1))
    found = find_transcripts([tmp_path], since=NOW)
    assert (found.transcripts, found.left_out) == ([], Counter({"older than --since": 1}))


def test_half_a_line_and_unknown_types_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [*to_claude_code(RUN, "one")[MAIN], '{"type": "hologram", "sessionId": "one"}', "garbage", "[1]"]
    path = write(tmp_path / "a.jsonl", [*lines, '{"type": "user", "mess'], end="")
    (session,) = read_sessions(find_transcripts([path]).transcripts, [])
    assert [step.outcome for step in session.steps] == [StepOutcome.FAILED, StepOutcome.OK, StepOutcome.OK]
    assert session.passed_over == Counter(
        {"unknown type hologram": 1, "no JSON": 1, "no JSON object": 1, "half a line, still being written": 1}
    )
    write(path, lines, end="")
    assert (
        read_sessions(find_transcripts([path]).transcripts, [])[0].passed_over["half a line, still being written"] == 0
    )


def test_a_line_over_the_limit_is_passed_over_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_LINE_BYTES", 1024)
    path = write(tmp_path / "a.jsonl", ['{"a": 1}', '{"b": "' + "x" * 5000 + '"}', '{"c": 1}'])
    passed_over: Counter[str] = Counter()
    assert [json.loads(line) for line in read_lines(path, passed_over)] == [{"a": 1}, {"c": 1}]
    assert passed_over.total() == 1


def test_what_cannot_be_read_is_said_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "good" / "a.jsonl", to_claude_code(RUN, "one")[MAIN])
    write(tmp_path / "gone" / "b.jsonl", to_claude_code(RUN, "two")[MAIN])
    found = find_transcripts([tmp_path])
    (tmp_path / "gone" / "b.jsonl").unlink()
    unread: list[str] = []
    assert [each.session_id for each in read_sessions(found.transcripts, unread)] == ["one"]
    assert unread == [f"{tmp_path}/gone/b.jsonl: No such file or directory"]
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    assert "Too many levels" in find_transcripts([tmp_path]).unread[0]
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    found = find_transcripts([tmp_path / "good"])
    assert found.transcripts == []
    assert found.left_out == Counter({"a session of another user": 1})
    assert "belongs to another user" in found.unread[0]


def test_nothing_of_an_agent_s_folder_is_touched(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", to_claude_code(RUN, "one")[MAIN])
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    read_sessions(find_transcripts([tmp_path]).transcripts, [])
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir())) == before


def test_claude_code_tells_a_person_s_refusal_from_the_mode_s() -> None:
    said = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse mv"
    denied = {"permissionDecision": {"decision": "reject", "source": "user_reject"}}
    by_person = one_step(claude_call("1", command="rm a"), claude_result("1", said, is_error=True, **denied))
    assert (by_person.outcome, by_person.decided_by, by_person.reason) == (StepOutcome.DENIED, Decider.PERSON, "use mv")
    old = one_step(claude_call("1", command="rm a"), claude_result("1", said, is_error=True))
    assert (old.decided_by, old.reason) == (Decider.PERSON, "use mv")
    headless = one_step(
        claude_call("1", command="rm a"), claude_result("1", said, is_error=True, entrypoint="sdk-cli", **denied)
    )
    assert headless.decided_by is Decider.NOBODY
    rule = {"decision": "reject", "source": "config", "reasonType": "rule", "ruleSource": "projectSettings"}
    by_rule = one_step(
        claude_call("1", command="rm a"),
        claude_result("1", "Permission to use Bash with rm a has been denied.", is_error=True, permissionDecision=rule),
    )
    assert by_rule.decided_by is Decider.RULE


def test_claude_code_s_new_files_sub_agents_and_pages_are_steps_too() -> None:
    created = {"type": "create", "filePath": "/home/dev/shop/a.py", "structuredPatch": []}
    step = one_step(
        claude_call("1", "Write", file_path="/home/dev/shop/a.py", content="x = 1\n"),
        claude_result("1", "ok", toolUseResult=created),
    )
    assert (step.edits[0].path, step.edits[0].diff) == ("/home/dev/shop/a.py", "@@\n+x = 1")
    page = one_step(claude_call("1", "WebFetch", url="https://example.org"), claude_result("1", "text"))
    assert page.is_outside
    running = one_step(
        claude_call("1", command="npm test"),
        claude_result("1", "Command running in background with ID: b1", toolUseResult={"backgroundTaskId": "b1"}),
    )
    assert (running.outcome, running.exit_code) == (StepOutcome.UNKNOWN, None)
    assert one_step(claude_call("1", command="npm test")).outcome is StepOutcome.UNKNOWN
    assert claude_code.read([claude_result("1", "ok")]).passed_over == Counter({"a result without its call": 1})


def test_codex_s_older_rollouts_are_read_by_their_function_calls() -> None:
    def item(**payload: object) -> str:
        return json.dumps({"type": "response_item", "timestamp": "2026-01-01T00:00:00Z", "payload": payload})

    meta = {"type": "session_meta", "payload": {"id": "t", "cwd": "/home/dev/shop", "originator": "codex_cli_rs"}}
    patch = "*** Begin Patch\n*** Update File: cart.py\n@@\n-a\n+b\n*** End Patch"
    shell = json.dumps({"command": ["bash", "-lc", "pytest -q"], "workdir": "/home/dev/shop"})
    output = json.dumps({"output": "1 failed in 0.1s", "metadata": {"exit_code": 1, "duration_seconds": 0.1}})
    session = codex.read(
        [
            json.dumps(meta),
            item(type="function_call", name="shell", call_id="1", arguments=shell),
            item(type="function_call_output", call_id="1", output=output),
            item(type="custom_tool_call", name="apply_patch", call_id="2", input=patch),
            item(
                type="custom_tool_call_output",
                call_id="2",
                output='{"output": "Success", "metadata": {"exit_code": 0}}',
            ),
            item(type="function_call", name="shell_command", call_id="3", arguments='{"command": "pytest -q"}'),
            item(
                type="function_call_output", call_id="3", output="Exit code: 0\nWall time: 1 seconds\nOutput:\n1 passed"
            ),
            item(type="function_call", name="shell", call_id="4", arguments='{"command": ["rm", "a"]}'),
            item(type="function_call_output", call_id="4", output="exec command rejected by user"),
            item(type="function_call", name="shell", call_id="5", arguments="{"),
        ]
    )
    told = [(step.command, step.outcome, step.exit_code, step.text) for step in session.steps]
    assert told == [
        ("pytest -q", StepOutcome.FAILED, 1, "1 failed in 0.1s"),
        (None, StepOutcome.OK, None, "Success"),
        ("pytest -q", StepOutcome.OK, 0, "1 passed"),
        ("rm a", StepOutcome.DENIED, None, ""),
        (None, StepOutcome.UNKNOWN, None, ""),
    ]
    assert session.steps[1].edits[0].path == "cart.py"
    assert session.steps[3].decided_by is Decider.PERSON


def test_lines_that_are_no_objects_are_counted() -> None:
    passed_over: Counter[str] = Counter()
    deep = "[" * 100_000
    assert list(parse_objects(['{"a": 1}', "", "3", "{", deep], passed_over)) == [{"a": 1}]
    assert passed_over == Counter({"no JSON object": 1, "no JSON": 2})


VALUES: list[Any] = [None, 1, True, "x", "", [], {}, [1], {"a": 1}, ["x", None], -5, 1e9, "\x00", "a\nb"]


def spoil(value: Any, chance: random.Random, share: float) -> Any:
    """Return a JSON value in which some parts are missing or of another type."""
    if chance.random() < share:
        return chance.choice(VALUES)
    if isinstance(value, dict):
        return {name: spoil(each, chance, share) for name, each in value.items() if chance.random() > share / 2}
    return [spoil(each, chance, share) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("tool", ["claude-code", "codex"])
def test_values_of_other_types_break_no_reader_and_make_no_invalid_entry(tool: str) -> None:
    write_run, read = (to_claude_code, claude_code.read) if tool == "claude-code" else (to_codex, codex.read)
    for seed in range(60):
        chance = random.Random(seed)
        rows = [json.loads(line) for lines in write_run(make_run(seed), "one").values() for line in lines]
        session = read(json.dumps(spoil(row, chance, 0.02)) for row in rows)
        for lesson in pair(session).lessons:
            validate(make_entry(lesson, session, project="shop").entry)
