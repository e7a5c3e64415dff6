"""Hooks of coding agents: what is written into their settings and taken out again, what they note, what they ask."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.context.context_blocks import find_block
from hardwon.errors import InvalidInput
from orchestrator.agent_hooks import jsonc
from orchestrator.agent_hooks.hook_tools import TOOLS, Scope
from orchestrator.agent_hooks.installation import Place, apply_change, installed_events, plan_install, plan_removal
from orchestrator.agent_hooks.questions import make_answer, read_failure, read_prompt
from orchestrator.agent_hooks.shim import SPOOL_BYTES, shim_path, write_shim
from orchestrator.agent_hooks.spool import clear_sessions, last_fired, pending_sessions

CASES = Path(__file__).parents[4] / "shared" / "cases" / "agents"
THEIRS = """{
  // my own settings
  "model": "opus", /* the good one */
  "hooks": {
    "Stop": [
      { "hooks": [{ "type": "command", "command": "notify-send done" }] }
    ],
    "PostToolUseFailure": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "log-it" }] }, // theirs
    ],
  },
  "permissions": {"allow": ["Bash(ls:*)"]}
}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("me", "project"):
        (tmp_path / name).mkdir()
    return Place(data=tmp_path / "data", home=tmp_path / "me", project=tmp_path / "project", environment={})


def settings_of(place: Place, tool: str = "claude-code") -> Path:
    return place.settings_path(TOOLS[tool], Scope.USER)


def write_settings(place: Place, text: str, tool: str = "claude-code") -> Path:
    path = settings_of(place, tool)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("scope", Scope)
def test_what_is_installed_is_there_once_and_goes_without_a_trace(place: Place, tool: str, scope: Scope) -> None:
    chosen = TOOLS[tool]
    apply_change(plan_install(chosen, scope, place), place)
    assert installed_events(chosen, scope, place) == {event.name for event in chosen.events}
    assert plan_install(chosen, scope, place).is_nothing
    assert shim_path(place.data).exists()
    apply_change(plan_removal(chosen, scope, place), place)
    assert not place.settings_path(chosen, scope).exists()


@pytest.mark.parametrize("tool", ["claude-code", "gemini-cli", "qwen-code", "codex"])
@pytest.mark.parametrize(
    "theirs",
    [
        THEIRS,
        "{}",
        "{}\n",
        '{"a": 1}',
        '{"hooks": {}, "b": [1, 2]}',
        '{\n\t"a": {\n\t\t"b": 1\n\t}\n}\n',
        '{\n  "hooks": {"Stop": []}\n}',
        '{\n  "a": 1, // one\n}\n',
        "{\n  // nothing yet\n}\n",
    ],
)
def test_removal_gives_back_their_file_byte_for_byte(place: Place, tool: str, theirs: str) -> None:
    path = write_settings(place, theirs, tool)
    backup = apply_change(plan_install(TOOLS[tool], Scope.USER, place), place)
    assert backup is not None
    assert backup.read_text() == theirs
    installed = path.read_text()
    assert jsonc.parse(installed).value["hooks"]
    assert [line for line in theirs.splitlines() if "//" in line and line not in installed] == []
    apply_change(plan_removal(TOOLS[tool], Scope.USER, place), place)
    if '"hooks": {' in theirs and theirs != THEIRS:  # what we leave empty goes, whoever made it
        left = jsonc.parse(path.read_text()).value
        assert left.get("hooks", {"Stop": []}) == {"Stop": []}
        assert left.get("b") == jsonc.parse(theirs).value.get("b")
    else:
        assert path.read_text() == theirs


def test_hooks_of_others_stay_and_a_link_and_its_mode_too(place: Place, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text(THEIRS)
    real.chmod(0o640)
    settings_of(place).parent.mkdir(parents=True)
    settings_of(place).symlink_to(real)
    apply_change(plan_install(TOOLS["claude-code"], Scope.USER, place), place)
    assert settings_of(place).is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    hooks = jsonc.parse(real.read_text()).value["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == "notify-send done"
    assert len(hooks["Stop"]) == len(hooks["PostToolUseFailure"]) == 2


@pytest.mark.parametrize("text", ['{"a": }', "[1]", '{"hooks": []}', "nonsense", '{"a": 1} x', "{" * 200])
def test_a_malformed_file_is_said_in_a_sentence_and_stays(place: Place, text: str) -> None:
    path = write_settings(place, text)
    with pytest.raises(InvalidInput, match=r"settings\.json is not what Claude Code reads"):
        plan_install(TOOLS["claude-code"], Scope.USER, place)
    assert path.read_text() == text
    assert not place.data.exists()


def test_another_data_directory_takes_the_place_of_the_first(place: Place, tmp_path: Path) -> None:
    other = Place(data=tmp_path / "other", home=place.home, project=place.project, environment={})
    tool = TOOLS["claude-code"]
    apply_change(plan_install(tool, Scope.USER, place), place)
    apply_change(plan_install(tool, Scope.USER, other), other)
    text = settings_of(place).read_text()
    assert str(place.data) not in text
    assert text.count(str(other.data)) == len(tool.events)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(
    value=st.dictionaries(st.text(max_size=5).filter(lambda name: name != "hooks"), JSON, max_size=4),
    indent=st.sampled_from([None, 2, 4, "\t"]),
)
def test_an_item_that_is_added_and_removed_leaves_any_document_as_it_was(
    value: object, indent: int | str | None
) -> None:
    text = json.dumps(value, indent=indent)
    added = jsonc.append(jsonc.append(text, ("hooks", "Stop"), {"x": 1}), ("hooks", "Stop"), {"y": [2]})
    parsed = json.loads(added)
    assert parsed.pop("hooks") == {"Stop": [{"x": 1}, {"y": [2]}]}
    assert parsed == value
    assert json.loads(jsonc.remove(jsonc.remove(added, ("hooks", "Stop"), 0), ("hooks", "Stop"), 0)) == value


def fire(place: Place, payload: object, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a hook as a tool does."""
    entry = TOOLS["claude-code"].entry(TOOLS["claude-code"].events[0], shim_path(place.data))
    line = entry["hooks"][0]["command"]
    if arguments:
        line = line.replace("claude-code UserPromptSubmit inject", " ".join(arguments))
    environment = {**os.environ, **({} if path is None else {"PATH": path})}
    given_text = payload if isinstance(payload, str) else json.dumps(payload)
    return subprocess.run(
        ["sh", "-c", line], input=given_text, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def test_a_hook_notes_the_session_and_says_nothing_without_an_owner(place: Place, tmp_path: Path) -> None:
    write_shim(place.data)
    transcript = tmp_path / "it's a session.jsonl"
    transcript.write_text("{}\n")
    payload = {"session_id": "s1", "transcript_path": str(transcript), "cwd": "/p", "prompt": 'Mend the "cart" now'}
    for arguments in (("claude-code", "Stop", "capture"), ("claude-code", "UserPromptSubmit", "inject")):
        done = fire(place, payload, *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert set(last_fired(place.data)) == {("claude-code", "Stop"), ("claude-code", "UserPromptSubmit")}
    assert pending_sessions(place.data) == [transcript]
    fire(place, {"session_id": "s2", "transcript_path": "/gone.jsonl"}, "codex", "Stop", "capture")
    assert pending_sessions(place.data) == [transcript]
    clear_sessions(place.data)
    assert pending_sessions(place.data) == []
    assert set(last_fired(place.data)) >= {("codex", "Stop"), ("claude-code", "Stop")}
    assert [path.name for path in place.data.rglob("*") if path.is_file() and path.stat().st_mode & 0o077] == []


def test_a_transcript_that_no_hook_tells_is_looked_for_where_its_tool_keeps_it(place: Place, tmp_path: Path) -> None:
    write_shim(place.data)
    events = tmp_path / ".copilot/session-state/0a-1b/events.jsonl"
    database = tmp_path / ".local/share/opencode/opencode.db"
    moved = tmp_path / "moved/session-state/0a-1b/events.jsonl"
    for path in (events, database, moved):
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
    fire(place, {"sessionId": "0a-1b", "cwd": "/p"}, "copilot", "sessionEnd", "capture")
    fire(place, {"sessionId": "../../../etc", "cwd": "/p"}, "copilot", "sessionEnd", "capture")
    fire(place, {"session_id": "ses_1", "cwd": "/p"}, "opencode", "session.idle", "capture")
    fire(place, {"session_id": "x", "cwd": "/p"}, "codex", "Stop", "capture")
    assert pending_sessions(place.data, environment={}, user_home=tmp_path) == [events, database]
    there = {"COPILOT_HOME": str(tmp_path / "moved"), "XDG_DATA_HOME": "/nowhere"}
    assert pending_sessions(place.data, environment=there, user_home=tmp_path) == [moved]
    clear_sessions(place.data)
    assert pending_sessions(place.data, environment={}, user_home=tmp_path) == []


@pytest.mark.parametrize(
    "payload", ["", "nonsense", "{}", '{"session_id": 1}', '{"session_id": "a\\"b"}', "x" * 300_000]
)
def test_whatever_a_tool_says_the_hook_ends_with_0_and_a_whole_line(place: Place, payload: str) -> None:
    write_shim(place.data)
    assert fire(place, payload).returncode == 0
    (line,) = (place.data / "hooks" / "spool.jsonl").read_text().splitlines()
    assert json.loads(line)["event"] == "UserPromptSubmit"


def test_without_its_folder_a_hook_still_ends_with_0(place: Place) -> None:
    assert fire(place, {}).returncode == 0


def test_the_spool_is_bounded(place: Place) -> None:
    write_shim(place.data)
    spool = place.data / "hooks" / "spool.jsonl"
    spool.write_text("x" * (SPOOL_BYTES + 1))
    fire(place, {"session_id": "s"}, "codex", "Stop", "capture")
    assert spool.stat().st_size < 1000
    assert spool.with_name("spool.jsonl.1").stat().st_size == SPOOL_BYTES + 1


def payloads(tool: str) -> list[dict[str, object]]:
    path = CASES / tool / "hook-payloads.jsonl"
    if not path.exists():
        pytest.skip("the cases of agents do not lie beside the checkout")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("tool", "event", "failed"),
    [
        ("claude-code", "PostToolUseFailure", {"test_cart", "test_missing"}),
        ("codex", "PostToolUse", {"test_cart", "test_missing", "test_nothing"}),
        ("gemini-cli", "AfterTool", {"test_cart"}),
    ],
)
def test_of_what_agents_ran_only_failed_checks_ask(tool: str, event: str, failed: set[str]) -> None:
    asked = [read_failure(tool, each) for each in payloads(tool) if each["hook_event_name"] == event]
    texts = [question.text for question in asked if question is not None]
    assert any("unittest test_cart" in text for text in texts)
    assert [text for text in texts if "grep" in text or "touch" in text or "rm cart" in text] == []
    assert all(any(name in text for name in failed | {"exit", "sleep", "test_nothing"}) for text in texts), texts


def test_a_prompt_that_says_too_little_or_is_no_persons_asks_nothing() -> None:
    for prompt in ("", "go", "/review all of it now", "<task-notification> the agent has ended its work", "fix it now"):
        assert read_prompt({"prompt": prompt, "session_id": "s"}) is None, prompt
    question = read_prompt({"prompt": "<hook_context>ours</hook_context>\n\nMake the test of the cart pass"})
    assert question is not None
    assert question.text == "Make the test of the cart pass"
    block = "[ORCHESTRATOR CONTEXT: Historical Knowledge]\nPattern 1\n[END CONTEXT]"
    assert read_prompt({"prompt": block}) is None
    assert find_block(f"Task: x\n\n{block}\n") == block


def test_an_answer_holds_a_context_and_no_decision() -> None:
    assert make_answer("codex", "PostToolUse", "b") == {
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "b"}
    }
    assert make_answer("copilot", "postToolUse", "b") == {"additionalContext": "b"}


@pytest.mark.long
def test_a_hook_that_only_notes_is_quick(place: Place) -> None:
    """Against `sh -c true`, in turn: the machine may be busy."""
    write_shim(place.data)
    times: dict[str, list[float]] = {"hook": [], "nothing": []}
    for _ in range(15):
        began = time.perf_counter()
        fire(place, {"session_id": "s"}, "codex", "Stop", "capture")
        between = time.perf_counter()
        subprocess.run(["sh", "-c", "true"], check=True)
        times["hook"].append(between - began)
        times["nothing"].append(time.perf_counter() - between)
    assert sorted(times["hook"])[7] < 25 * sorted(times["nothing"])[7]
