"""Nothing of ours slows or breaks an agent: with nobody there, with a server that hangs, at the end, after a fork."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hardwon.integrations import recorder
from hardwon.integrations.recorder import RunRecorder, failed_call, finished_call, parse_arguments, show_result
from hardwon.models.ids import CONTEXT_SECONDS
from hardwon.models.runs import ToolCall, ToolOutcome
from tests.acceptance.integrations.conftest import FAILURE, Server, connect, settle

FAILED = failed_call("a", "run_tests", {"path": "test_cart.py"}, RuntimeError(FAILURE))


@pytest.fixture
def hanging() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_with_nobody_there_a_call_costs_next_to_nothing(hanging: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for url in (hanging, f"http://127.0.0.1:{port}"):
        told = RunRecorder("langgraph", settings={"HARDWON_API_URL": url})
        told.start()
        began = time.process_time()
        for number in range(1000):
            told.add("T-1", finished_call(str(number), "write_file", {"path": "a"}, "x"))
        assert time.process_time() - began < 1
        assert not told.flush(0.1)


def test_a_server_that_hangs_delays_a_failure_by_the_deadline_and_then_no_more(hanging: str) -> None:
    told = RunRecorder("langgraph", settings={"HARDWON_API_URL": hanging})
    connect(told)
    waits = []
    for number in range(6):
        call = failed_call(str(number), "run_tests", {}, RuntimeError(f"{FAILURE} {number}"))
        began = time.monotonic()
        assert told.find_context("T-1", call) == ""
        waits.append(time.monotonic() - began)
    assert max(waits) < CONTEXT_SECONDS + 2, "the machine may be busy"
    assert sum(wait > CONTEXT_SECONDS / 2 for wait in waits) == 3, "after three the breaker is open"


def test_what_is_held_is_bounded(hanging: str) -> None:
    told = RunRecorder("langgraph", settings={"HARDWON_API_URL": hanging})
    for session in range(recorder._SESSIONS + 50):
        told.add(f"T-{session}", FAILED)
    for number in range(recorder._CALLS + 50):
        told.add("T-x", finished_call(str(number), "read_file", {}, "x" * 100_000))
    assert len(told._runs) == recorder._SESSIONS
    run = told._runs["T-x"]
    assert len(run.calls) == recorder._CALLS
    body = told._body("T-x", run, list(run.calls.values()))
    assert len(json.dumps([asdict(call) for call in body["calls"]])) < 1.2 * recorder._REQUEST_BYTES
    assert all(len(call.text) <= recorder._TEXT_BYTES for call in run.calls.values()), "long texts are not kept"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("no json", {"input": "no json"}),
        ([1], {"input": "[1]"}),
        ({"a": {1, 2}}, {"a": {1, 2}}),
    ],
)
def test_arguments_are_read_whatever_they_are(given: object, read: dict[str, Any]) -> None:
    assert parse_arguments(given) == read


@pytest.mark.long
def test_anything_a_tool_takes_and_returns_is_told(server: Server) -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd\ud800"

    class Worse:
        def __str__(self) -> str:
            raise ValueError("no words")

    told = RunRecorder("langgraph", project="shop", **server.options)
    loop: list[Any] = []
    loop.append(loop)
    for number, value in enumerate(
        ({"a": Odd()}, Odd(), Worse(), {"w": Worse()}, b"\xff", None, {"b": {1}}, "\x00", {("t",): 1}, loop)
    ):
        told.add("T-1", finished_call(f"{number}", "odd\x00tool", {"value": value}, value))
    told.add("", finished_call("", "", "", ""))
    told.add("T-1", failed_call("f", "run_tests", {"path": "p"}, RuntimeError(FAILURE)))
    settle(told)
    assert len(server.open_entries("shop")) == 1
    assert show_result(("a", 1)) == '["a", 1]'


def test_a_call_that_cannot_be_recorded_is_logged_and_nothing_else(
    hanging: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = RunRecorder("langgraph", settings={"HARDWON_API_URL": hanging})
    connect(told)
    wordless: Any = None
    call = ToolCall(id="a", tool="run_tests", arguments={}, outcome=ToolOutcome.FAILED, text=wordless)
    with caplog.at_level("INFO", logger=recorder.__name__):
        told.add("T-1", call)
        assert told.find_context("T-1", call) == ""
        assert asyncio.run(told.find_context_async("T-1", call)) == ""
    events = [record.message.split()[0] for record in caplog.records]
    assert events == ["call_not_recorded", "run_context_missed", "run_context_missed"]
    assert not told.knows("T-1", "a")


def test_errors_that_say_that_nothing_was_tried_are_no_failures() -> None:
    for error in (TimeoutError(), ConnectionResetError(), subprocess.TimeoutExpired("x", 1)):
        assert failed_call("a", "run_tests", {}, error).outcome is ToolOutcome.TOOL_ERROR
    ended = subprocess.CalledProcessError(3, "pytest", output=b"1 failed", stderr="no")
    call = failed_call("a", "run_tests", {}, ended)
    assert (call.outcome, call.exit_code, call.text) == (ToolOutcome.FAILED, 3, "1 failed\nno")


SCRIPT = """
import os, sys
from hardwon.integrations.recorder import RunRecorder
from hardwon.models.runs import ToolCall

told = RunRecorder("langgraph", project=sys.argv[3], workspace=sys.argv[2], settings={"HARDWON_API_URL": sys.argv[1]})
def tell(name):
    text = f"{name} FAILED (errors=1)"
    told.add(name, ToolCall(id=name, tool="run_tests", arguments={}, outcome="failed", text=text))
    assert told.flush(60)
tell("parent")
if os.fork() == 0:
    tell("child")
    os._exit(0)
assert os.wait()[1] == 0
told.add("last", ToolCall(id="last", tool="run_tests", arguments={}, outcome="failed", text="last FAILED (errors=1)"))
"""


def test_a_forked_process_and_the_last_call_before_the_end_are_told(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, str(script), server.url, server.workspace, "shop"],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(server.open_entries("shop")) == 3


def test_a_call_that_is_refused_does_not_stop_those_after_it(server: Server) -> None:
    told = RunRecorder("Not A Framework", project="shop", **server.options)
    told.add("T-1", ToolCall(id="a", tool="t", arguments={}, outcome=ToolOutcome.OK))
    assert told.flush(60), "it would be refused again"


def test_the_snippets_of_the_documentation_run() -> None:
    text = (Path(__file__).parents[3] / "docs" / "integrations.md").read_text()
    names: dict[str, Any] = {}
    snippets = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(snippets) == 4
    for snippet in snippets:
        exec(snippet, names)
    assert {"graph", "orchestrator", "agent", "developer"} <= names.keys()
