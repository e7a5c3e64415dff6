"""The route for hooks of coding agents: their own JSON in, the context for a failure or a prompt out, once."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from knowledge.wiring.open import Knowledge
from orchestrator.agent_hooks.hook_tools import TOOLS
from orchestrator.agent_hooks.shim import shim_path, write_shim
from orchestrator.http.routes import hook_contexts
from tests.support.processes import Commands, entry, lines

ERROR = "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"
FAILURE = f"ERROR: test_total (test_cart.CartTest)\nTraceback (most recent call last):\n{ERROR}\nFAILED (errors=1)"
COMMAND = {"command": "python3 -m unittest test_cart"}
LESSON = entry(
    failure_description="`python3 -m unittest test_cart` failed with exit code 1",
    error_message=FAILURE,
    solution_steps="treat a missing price as zero",
    verified_by="python3 -m unittest test_cart",
)
PAYLOADS: dict[tuple[str, str], dict[str, object]] = {
    ("claude-code", "PostToolUseFailure"): {"tool_name": "Bash", "error": f"Exit code 1\n{FAILURE}"},
    ("qwen-code", "PostToolUseFailure"): {"tool_name": "run_shell_command", "error": f"{FAILURE}\nExit Code: 1"},
    ("codex", "PostToolUse"): {"tool_name": "Bash", "tool_response": FAILURE},
    ("gemini-cli", "AfterTool"): {
        "tool_name": "run_shell_command",
        "tool_response": {"llmContent": f"<untrusted_context>\nOutput: {FAILURE}\nExit Code: 1\n</untrusted_context>"},
    },
    ("copilot", "postToolUse"): {
        "toolName": "bash",
        "toolArgs": COMMAND,
        "toolResult": {"resultType": "success", "textResultForLlm": f"{FAILURE}\n<exited with exit code 1>"},
    },
    ("opencode", "tool.execute.after"): {"exit_code": 1, "tool_response": FAILURE},
}


@pytest.fixture
async def taught(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> Knowledge:
    monkeypatch.setattr(hook_contexts, "DEADLINE", timedelta(minutes=1))  # the machine may be busy
    await knowledge.capture.capture_failure_solution(
        project_id="web-shop",
        agent_type="developer",
        failure_description=str(LESSON["failure_description"]),
        error_message=FAILURE,
        solution_steps="treat a missing price as zero",
        success_verified=True,
        verified_by="python3 -m unittest test_cart",
    )
    await knowledge.checkpoints.process_all()
    return knowledge


@pytest.mark.long
async def test_each_tool_has_the_solution_right_after_a_failure_and_once(
    taught: Knowledge, http: httpx.AsyncClient
) -> None:
    for (tool, event), told in PAYLOADS.items():
        payload = {"session_id": "s1", "cwd": "/nowhere/web-shop", "tool_input": COMMAND, **told}
        first = await http.post(f"/v1/hooks/{tool}/{event}", json=payload)
        assert first.status_code == 200, (tool, first.text)
        answer = first.json()
        context = answer["hookSpecificOutput"]["additionalContext"] if "hookSpecificOutput" in answer else answer
        assert "treat a missing price as zero" in json.dumps(context)
        assert {"decision", "permissionDecision", "continue"}.isdisjoint(answer)
        again = await http.post(f"/v1/hooks/{tool}/{event}", json=payload)
        assert (again.status_code, again.text) == (204, "")
        other = await http.post(f"/v1/hooks/{tool}/{event}", json={**payload, "session_id": "s2"})
        assert other.status_code == 200


@pytest.mark.long
async def test_a_sub_agent_gets_what_its_session_got(taught: Knowledge, http: httpx.AsyncClient) -> None:
    start = {"session_id": "s1", "agent_id": "a1", "agent_type": "default"}
    assert (await http.post("/v1/hooks/claude-code/SubagentStart", json=start)).status_code == 204
    told = PAYLOADS["claude-code", "PostToolUseFailure"]
    await http.post(
        "/v1/hooks/claude-code/PostToolUseFailure", json={"session_id": "s1", "tool_input": COMMAND, **told}
    )
    given = await http.post("/v1/hooks/claude-code/SubagentStart", json=start)
    assert "treat a missing price" in given.text
    assert (await http.post("/v1/hooks/claude-code/SubagentStart", json=start)).status_code == 204


@pytest.mark.long
async def test_nothing_is_said_to_what_asks_nothing(taught: Knowledge, http: httpx.AsyncClient) -> None:
    for tool, event, payload in (
        ("qwen-code", "UserPromptSubmit", {"prompt": ""}),
        ("claude-code", "UserPromptSubmit", {"prompt": "<task-notification> the sub-agent has ended"}),
        ("codex", "PostToolUse", {"tool_name": "Bash", "tool_input": COMMAND, "tool_response": "OK"}),
        ("codex", "PostToolUse", {"tool_name": "apply_patch", "tool_response": FAILURE}),
        (
            "claude-code",
            "PostToolUseFailure",
            {"tool_name": "Bash", "tool_input": {"command": "grep x"}, "error": "Exit code 1"},
        ),
        ("no-such-tool", "Stop", {}),
        ("claude-code", "PostToolUseFailure", {"tool_name": 7, "tool_input": [], "error": {}}),
    ):
        answer = await http.post(f"/v1/hooks/{tool}/{event}", json=payload)
        assert (answer.status_code, answer.text) == (204, ""), (tool, event)


@pytest.mark.long
def test_the_installed_line_says_the_solution_and_nothing_with_the_owner_hanging(
    commands: Commands, home: Path
) -> None:
    commands.run("capture", "-", told=lines([LESSON]))
    commands.run("checkpoint")
    write_shim(home)
    tool = TOOLS["claude-code"]
    event = next(each for each in tool.events if each.name == "PostToolUseFailure")
    line = tool.entry(event, shim_path(home))["hooks"][0]["command"]

    def fire(session: str) -> subprocess.CompletedProcess[str]:
        told = PAYLOADS["claude-code", "PostToolUseFailure"]
        payload = json.dumps({"session_id": session, "tool_input": COMMAND, **told})
        return subprocess.run(
            ["sh", "-c", line], input=payload, capture_output=True, text=True, timeout=60, check=False
        )

    done = [fire(f"s{number}") for number in range(5)]  # a busy machine may be late for one
    assert [each.returncode for each in done] == [0] * 5
    assert any("treat a missing price as zero" in each.stdout for each in done)
    owner = json.loads((home / "owner.lock").read_text())["pid"]
    subprocess.run(["kill", "-STOP", str(owner)], check=True)
    try:
        hanging = fire("s9")
    finally:
        subprocess.run(["kill", "-CONT", str(owner)], check=True)
    assert (hanging.returncode, hanging.stdout, hanging.stderr) == (0, "", "")
