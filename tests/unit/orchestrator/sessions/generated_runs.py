"""Generated runs of coding agents with the lessons that are true of them, as Claude Code and Codex write them down.

A run is made of scenes, each with what it should teach; scenes of different agents are woven into each other. Two calls
next to each other may be one message: their results then come in either order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.importers.sessions.steps import MAIN

FOLDER = "/home/dev/shop"
BEGIN = datetime(2026, 11, 27, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a tool: a command with its result, an edit, or one that was refused by `refused`."""

    id: str = ""
    agent: str = MAIN
    command: str | None = None
    exit_code: int = 0
    text: str = ""
    file: str | None = None
    old: str = ""
    new: str = ""
    is_error: bool = False
    refused: str | None = None
    is_search: bool = False


Truth = tuple[str, str, str | None]
"""The kind of a lesson, the call that failed or was refused, and the call that proved or revised it."""


@dataclass(slots=True)
class Run:
    """The calls of a run in order, and its true lessons. `with_next`: calls that are one message with the next one."""

    calls: list[Call] = field(default_factory=list)
    truth: set[Truth] = field(default_factory=set)
    with_next: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Scene:
    """Calls of one agent (or of it and its sub-agents) in order; `truth` names them by their number."""

    calls: list[Call]
    truth: list[tuple[str, int, int | None]] = field(default_factory=list)


class Maker:
    """Makes the scenes of a run."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.number = 0

    def command(self) -> str:
        """Return a check that no other scene has."""
        self.number += 1
        name = f"test_{self.number}"
        return self.chance.choice(
            [
                f"python3 -m unittest {name}",
                f"pytest tests/{name}.py",
                f"npm test -- {name}",
                f"cargo test {name}",
                f"go test ./{name}/...",
                f"mypy src/{name}.py",
                f"cd {FOLDER} && pytest -q tests/{name}.py",
                f"timeout 60 poetry run pytest tests/{name}.py",
            ]
        )

    def fail(self, command: str, error: str = "") -> Call:
        text = f"TypeError: unsupported operand in {error or command}\n\nFAILED (errors=1)"
        return Call(command=command, exit_code=self.chance.choice([1, 1, 2]), text=text)

    def succeed(self, command: str) -> Call:
        return Call(command=command, text=self.chance.choice(["Ran 3 tests in 0.01s\n\nOK", "3 passed in 0.1s", ""]))

    def edit(self, file: str | None = None) -> Call:
        self.number += 1
        file = file or self.chance.choice(["src/cart.py", "src/price.ts", "lib/total.go", "README.md"])
        return Call(file=file, old=f"x = {self.number}", new=f"x = {self.number} or 0")

    def noise(self) -> Call:
        """Return a call that teaches nothing, whatever comes before or after it."""
        self.number += 1
        return self.chance.choice(
            [
                Call(command=f"grep -rn total{self.number} src", exit_code=1, is_search=True),
                Call(command=f"rg total{self.number}", exit_code=1),
                Call(command="ls src", text="cart.py"),
                Call(command=f"exit {self.chance.randrange(1, 9)}", exit_code=self.chance.randrange(1, 9)),
                Call(command="sleep 5", exit_code=143, text="Command timed out after 1s"),
                Call(command=f"pytest tests/slow_{self.number}.py", exit_code=124, text="1 failed in 60.00s"),
                Call(command="diff a b", exit_code=1, text="1c1\n< a\n---\n> b"),
                Call(command="test -f build/x", exit_code=1),
                Call(command=f"touch denied_{self.number}", refused="nobody", text="needs approval"),
                Call(command=f"pytest tests/piped_{self.number}.py | tail -3", text="3 passed in 0.1s"),
                Call(file="src/cart.py", old="no such text", new="x", is_error=True),
                Call(command="cat src/cart.py", text="Traceback (most recent call last): in a comment"),
                Call(command=f"python3 -c 'raise SystemExit({self.number})'", exit_code=3, text="FAILED (errors=1)"),
            ]
        )


def _fix(make: Maker) -> Scene:
    command = make.command()
    return Scene([make.fail(command), make.edit(), make.succeed(command)], [("fix", 0, 2)])


def _fix_at_second_try(make: Maker) -> Scene:
    command = make.command()
    calls = [make.fail(command), make.edit(), make.fail(command), make.edit(), make.succeed(command)]
    return Scene(calls, [("fix", 0, 4)])


def _fix_by_installing(make: Maker) -> Scene:
    command = make.command()
    return Scene([make.fail(command), Call(command="pip install requests"), make.succeed(command)], [("fix", 0, 2)])


def _fix_by_rewriting(make: Maker) -> Scene:
    command = make.command()
    change = Call(command="sed -i 's/None/0/' src/cart.py")
    return Scene([make.fail(command), change, make.succeed(command)], [("fix", 0, 2)])


def _fix_seen_through_a_pipe(make: Maker) -> Scene:
    command = make.command()
    failure = replace(make.fail(f"{command} 2>&1 | tail -4"), exit_code=0)
    return Scene([failure, make.edit(), make.succeed(command)], [("fix", 0, 2)])


def _fix_of_a_sub_agent(make: Maker) -> Scene:
    command, agent = make.command(), f"agent{make.number}"
    calls = [replace(make.fail(command), agent=agent), replace(make.edit(), agent=agent), make.succeed(command)]
    return Scene(calls, [("fix", 0, 2)])


def _fix_by_a_sub_agent(make: Maker) -> Scene:
    command = make.command()
    edit = replace(make.edit(), agent=f"agent{make.number}")
    return Scene([make.fail(command), edit, make.succeed(command)], [("fix", 0, 2)])


def _open(make: Maker) -> Scene:
    return Scene([make.fail(make.command()), make.edit()], [("open failure", 0, None)])


def _open_of_a_sub_agent(make: Maker) -> Scene:
    command = make.command()
    agents = [f"agent{make.number}", f"agent{make.number}b"]
    calls = [
        replace(make.fail(command), agent=agents[0]),
        replace(make.edit(), agent=agents[0]),
        replace(make.succeed(command), agent=agents[1]),
    ]
    return Scene(calls, [("open failure", 0, None)])


def _never_by_a_pipe(make: Maker) -> Scene:
    command = make.command()
    end = make.chance.choice([" | tail -3", " || true", "; true", " 2>&1 | tee log", " &"])
    return Scene([make.fail(command), make.edit(), make.succeed(command + end)], [("open failure", 0, None)])


def _never_by_a_weaker_check(make: Maker) -> Scene:
    command = make.command()
    return Scene([make.fail(command), make.edit(), make.succeed(f"{command}::test_one")], [("open failure", 0, None)])


def _never_by_tests_alone(make: Maker) -> Scene:
    command = make.command()
    file = make.chance.choice(["tests/test_cart.py", "src/cart.test.ts", "cart_test.go", "spec/cart_spec.rb"])
    return Scene([make.fail(command), make.edit(file), make.succeed(command)], [("open failure", 0, 2)])


def _never_by_no_tests(make: Maker) -> Scene:
    command = make.command()
    vacuous = Call(command=command, text="Ran 0 tests in 0.000s\n\nOK")
    return Scene([make.fail(command), make.edit(), vacuous], [("open failure", 0, None)])


def _never_with_words_of_failure(make: Maker) -> Scene:
    command = make.command()
    told = Call(command=command, text="collected 3 items\n\n== 1 failed, 2 passed in 0.1s ==")
    return Scene([make.fail(command), make.edit(), told], [("open failure", 0, None)])


def _flaky(make: Maker) -> Scene:
    command = make.command()
    return Scene([make.fail(command), make.succeed(command)])


def _flaky_after_an_edit_that_failed(make: Maker) -> Scene:
    command = make.command()
    failed = Call(file="src/cart.py", old="no such text", new="x", is_error=True)
    return Scene([make.fail(command), failed, make.succeed(command)])


def _withdrawn(make: Maker) -> Scene:
    command = make.command()
    calls = [make.fail(command), make.edit(), make.succeed(command), make.fail(command, "another place")]
    return Scene(calls, [("open failure", 3, None)])


def _mended_again(make: Maker) -> Scene:
    scene = _withdrawn(make)
    command = scene.calls[0].command or ""
    return Scene([*scene.calls, make.edit(), make.succeed(command)], [("fix", 3, 5)])


def _refused_by_a_rule(make: Maker) -> Scene:
    make.number += 1
    refused = Call(command=f"rm cart_{make.number}.py", refused="rule", text=f"move it to attic/ ({make.number})")
    return Scene([refused], [("rejection", 0, None)])


def _refused_and_revised(make: Maker) -> Scene:
    make.number += 1
    file = f"old_{make.number}.py"
    refused = Call(command=f"rm {file}", refused="rule", text=f"deleting is not allowed ({make.number})")
    return Scene([refused, Call(command=f"mv {file} attic/{file}")], [("rejection", 0, 1)])


def _refused_with_nobody_there(make: Maker) -> Scene:
    make.number += 1
    file = f"new_{make.number}.py"
    refused = Call(command=f"touch {file}", refused="nobody", text="needs approval")
    return Scene([refused, Call(command=f"cp a.py {file}")])


SCENES: Sequence[Callable[[Maker], Scene]] = (
    *(_fix, _fix_at_second_try, _fix_by_installing, _fix_by_rewriting, _fix_seen_through_a_pipe, _fix_of_a_sub_agent),
    _fix_by_a_sub_agent,
    *(_open, _open_of_a_sub_agent, _never_by_a_pipe, _never_by_a_weaker_check, _never_by_tests_alone),
    *(_never_by_no_tests, _never_with_words_of_failure, _flaky, _flaky_after_an_edit_that_failed, _withdrawn),
    *(_mended_again, _refused_by_a_rule, _refused_and_revised, _refused_with_nobody_there),
)


def make_run(seed: int) -> Run:
    """Return a run of some scenes with noise between their calls; scenes of other agents go on at the same time."""
    chance = random.Random(seed)
    make = Maker(chance)
    run = Run()
    for _ in range(chance.randrange(1, 6)):
        scenes = [chance.choice(SCENES)(make)]
        if chance.random() < 0.4:  # a sub-agent of its own works beside
            beside = chance.choice((_fix, _flaky, _withdrawn))(make)
            agent = f"beside{make.number}"
            _append(run, replace(make.noise(), agent=agent))
            scenes.append(Scene([replace(call, agent=agent) for call in beside.calls], beside.truth))
        _weave(run, scenes, make)
    return run


def _weave(run: Run, scenes: list[Scene], make: Maker) -> None:
    waiting = [list(enumerate(scene.calls)) for scene in scenes]
    placed: dict[tuple[int, int], str] = {}
    while any(waiting):
        at = make.chance.choice([number for number, calls in enumerate(waiting) if calls])
        place, call = waiting[at].pop(0)
        call = _append(run, call)
        placed[at, place] = call.id
        if make.chance.random() < 0.5:
            noise = _append(run, replace(make.noise(), agent=call.agent))
            if make.chance.random() < 0.5 and not call.refused:
                run.with_next.add(call.id)
            del noise
    for at, scene in enumerate(scenes):
        for kind, failed, proof in scene.truth:
            run.truth.add((kind, placed[at, failed], None if proof is None else placed[at, proof]))


def _append(run: Run, call: Call) -> Call:
    call = replace(call, id=f"call_{len(run.calls):06d}")
    run.calls.append(call)
    return call


Lines = dict[str, list[str]]
"""Lines of a transcript by its agent."""


def _messages(run: Run) -> list[list[Call]]:
    """Return the calls of each message: one, or two that were made at once."""
    messages: list[list[Call]] = []
    for call in run.calls:
        if messages and messages[-1][-1].id in run.with_next and messages[-1][-1].agent == call.agent:
            messages[-1].append(call)
        else:
            messages.append([call])
    return messages


def to_claude_code(run: Run, session_id: str) -> Lines:
    """Return the transcripts of a run as Claude Code writes them: each result twice, two at once in reverse order."""
    lines: Lines = {MAIN: []}
    for number, calls in enumerate(_messages(run)):
        agent = calls[0].agent
        of_agent = lines.setdefault(agent, [])
        common: dict[str, Any] = {
            "sessionId": session_id,
            "cwd": FOLDER,
            "version": "2.1.332",
            "entrypoint": "sdk-cli",
            "uuid": "u",
        }
        common |= {} if agent == MAIN else {"agentId": agent, "isSidechain": True}
        for call in calls:
            at = (BEGIN + timedelta(seconds=10 * number, milliseconds=int(call.id[5:]))).isoformat()
            use = {"type": "tool_use", "id": call.id, **_claude_input(call)}
            message = {"role": "assistant", "content": [use]}
            of_agent.append(json.dumps({**common, "type": "assistant", "timestamp": at, "message": message}))
        for call in reversed(calls):
            block, more = _claude_result(call)
            of_agent.append(
                json.dumps({**common, "type": "user", "promptId": "p", "message": {"content": [block]}, **more})
            )
            of_agent.append(
                json.dumps({"type": "api-request-blob", "sessionId": session_id, "message": {"content": [block]}})
            )
    return lines


def _claude_input(call: Call) -> dict[str, Any]:
    if call.file is not None:
        values = {"file_path": f"{FOLDER}/{call.file}", "old_string": call.old, "new_string": call.new}
        return {"name": "Edit", "input": values}
    return {"name": "Bash", "input": {"command": call.command}}


def _claude_result(call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": call.text, "is_error": False}
    accepted = {"permissionDecision": {"decision": "accept", "source": "config"}}
    if call.refused is not None:
        source = {"rule": "hook", "nobody": "config"}[call.refused]
        hook = "PreToolUse:Bash hook error: [guard.sh]: " if call.refused == "rule" else ""
        block |= {"content": hook + call.text, "is_error": True}
        return block, {
            "permissionDecision": {"decision": "reject", "source": source},
            "toolDenialKind": "user-rejected",
        }
    if call.is_error:
        return block | {"content": "<tool_use_error>String to replace not found</tool_use_error>", "is_error": True}, {}
    if call.file is not None:
        hunk = {"oldStart": 1, "newStart": 1, "lines": [" def f():", f"-{call.old}", f"+{call.new}"]}
        return block, {"toolUseResult": {"filePath": f"{FOLDER}/{call.file}", "structuredPatch": [hunk]}, **accepted}
    if call.is_search:
        return block, {"toolUseResult": {"stdout": "", "returnCodeInterpretation": "No matches found"}, **accepted}
    if call.exit_code:
        return block | {"content": f"Exit code {call.exit_code}\n{call.text}", "is_error": True}, accepted
    return block, {"toolUseResult": {"stdout": call.text, "interrupted": False}, **accepted}


def to_codex(run: Run, session_id: str) -> Lines:
    """Return the rollouts of a run as Codex writes them: a command's exit code may come after the next one's."""
    lines: Lines = {}
    for agent in dict.fromkeys([MAIN, *(call.agent for call in run.calls)]):
        meta: dict[str, Any] = {"id": session_id, "session_id": session_id, "cwd": FOLDER, "source": "exec"}
        if agent != MAIN:
            meta |= {"id": agent, "parent_thread_id": session_id, "source": {"subagent": {"thread_spawn": {}}}}
            meta |= {"originator": "codex_exec"}
        lines[agent] = [json.dumps({"type": "session_meta", "timestamp": BEGIN.isoformat(), "payload": meta})]
    for number, calls in enumerate(_messages(run)):
        of_agent = lines[calls[0].agent]
        for call in calls:
            at = (BEGIN + timedelta(seconds=10 * number, milliseconds=int(call.id[5:]))).isoformat()
            values = {"cmd": call.command if call.file is None else f"apply_patch <<'P'\n{call.file}\nP"}
            payload = {"type": "function_call", "name": "exec_command", "arguments": json.dumps(values)}
            payload |= {"call_id": call.id}
            of_agent.append(json.dumps({"type": "response_item", "timestamp": at, "payload": payload}))
        for call in reversed(calls):
            of_agent += _codex_result(call)
    return lines


def _codex_result(call: Call) -> list[str]:
    output = {"type": "function_call_output", "call_id": call.id, "output": "Process running with session ID 1"}
    item: dict[str, Any] | None = None
    if call.refused == "rule":
        output["output"] = f"Command blocked by PreToolUse hook: {call.text} Command: {call.command}"
    elif call.refused is not None:
        output["output"] = "approval policy is Never; reject command"
    elif call.file is not None:
        diff = f"@@ -1,2 +1,2 @@\n def f():\n-{call.old}\n+{call.new}\n"
        item = {"type": "FileChange", "status": "failed" if call.is_error else "completed"}
        item |= {"changes": {f"{FOLDER}/{call.file}": {"type": "update", "unified_diff": diff}}}
    else:
        kind = "search" if call.is_search else "unknown"
        item = {"type": "CommandExecution", "command": ["/bin/bash", "-lc", call.command], "exit_code": call.exit_code}
        item |= {"aggregated_output": call.text, "parsed_cmd": [{"type": kind}], "cwd": f"file://{FOLDER}"}
    lines = []
    if item is not None:
        event = {"type": "item_completed", "item": {**item, "id": call.id}}
        lines.append(json.dumps({"type": "event_msg", "timestamp": BEGIN.isoformat(), "payload": event}))
    return [*lines, json.dumps({"type": "response_item", "timestamp": BEGIN.isoformat(), "payload": output})]
