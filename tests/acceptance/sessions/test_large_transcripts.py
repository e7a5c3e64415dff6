"""Transcripts of 200 MB are read within a minute of computing and 300 MB of memory, and a second time not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.importers.sessions.steps import MAIN
from tests.support.processes import Commands
from tests.unit.orchestrator.sessions.generated_runs import Run, make_run, to_claude_code, to_codex

SESSIONS = 40
TOTAL_BYTES = 200 * 1024 * 1024
MAX_SECONDS = 60
MAX_KIBIBYTES = 300 * 1024
SCRIPT = """
import json, re, resource, sys
from orchestrator.cli.commands.root import app
try:
    app(sys.argv[1:])
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # the peak of this process alone: what getrusage tells includes that of the one that started it
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
    print(json.dumps([peak, used.ru_utime + used.ru_stime]), file=sys.stderr)
"""


def write(folder: Path) -> int:
    """Write the sessions, padded with long outputs; return the number of their bytes."""
    written = 0
    padding = "\n".join(f"line {number} of an output that nobody reads is well" for number in range(2000)) + "\n"
    for number in range(SESSIONS):
        run = _with_own_ids(make_run(number), number)
        lines = (to_claude_code, to_codex)[number % 2](run, f"session-{number}")
        for agent, rows in lines.items():
            path = folder / str(number) / f"{agent}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w") as file:
                file.writelines(f"{row}\n" for row in rows)
                size = file.tell()
                at = 0
                while agent == MAIN and written + size < TOTAL_BYTES * (number + 1) // SESSIONS:
                    file.write(_look(number, at, padding))
                    size, at = file.tell(), at + 1
            written += size
    return written


def _look(number: int, at: int, text: str) -> str:
    """Return the lines of a command that looks at something long, in the form of the session's tool."""
    call_id = f"look_{number}_{at}"
    if number % 2:
        call = {"type": "function_call", "call_id": call_id, "name": "exec_command", "arguments": '{"cmd": "cat log"}'}
        output = {
            "type": "function_call_output",
            "call_id": call_id,
            "output": f"Process exited with code 0\nOutput:\n{text}",
        }
        return "".join(f"{json.dumps({'type': 'response_item', 'payload': each})}\n" for each in (call, output))
    common = {"sessionId": f"session-{number}", "uuid": "u", "cwd": "/home/dev/shop"}
    use = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "cat log"}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    rows = [{"type": "assistant", "message": {"content": [use]}}, {"type": "user", "message": {"content": [result]}}]
    return "".join(f"{json.dumps({**common, **row})}\n" for row in rows)


def _with_own_ids(run: Run, number: int) -> Run:
    names = {call.id: f"call_{number:03d}{at:03d}" for at, call in enumerate(run.calls)}
    calls = [replace(call, id=names[call.id]) for call in run.calls]
    return Run(calls, with_next={names[each] for each in run.with_next})


def learn(beside: Commands, folder: Path) -> tuple[Any, int, float]:
    """Run the command in a process of its own; return its report, its memory in KiB, and its seconds of computing."""
    command = [sys.executable, "-c", SCRIPT, "learn", "sessions", str(folder), "--workspace", "large", "--json"]
    done = subprocess.run(command, env=beside.environment(), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    memory, seconds = json.loads(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout), memory, seconds


@pytest.mark.long
def test_two_hundred_megabytes_are_read_in_a_minute_and_once(beside: Commands, tmp_path: Path) -> None:
    assert write(tmp_path) >= TOTAL_BYTES * 0.95
    report, memory, seconds = learn(beside, tmp_path)
    assert report["accepted"] > SESSIONS / 2
    assert (report["refused"], report["unread"]) == (0, [])
    assert seconds < MAX_SECONDS
    assert memory < MAX_KIBIBYTES
    again, _, seconds_again = learn(beside, tmp_path)
    assert (again["accepted"], again["duplicate"]) == (0, 0)
    assert again["left_out"]["sessions that were read before"] == SESSIONS
    assert seconds_again < seconds / 2
