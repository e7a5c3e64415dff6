"""Real coding agents with our hooks, against a scripted model: `make agents`, `make agents ARGS="codex"`.

A run fails and is mended; in another clone a second run meets the failure, and the very next request to the model holds
the solution. Hooks are quick; with the owner dead or hanging, the model sees what it sees without hooks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.agent_hooks.hook_tools import TOOLS, HookEvent, Mode, hook_line
from orchestrator.agent_hooks.shim import shim_path
from tests.agents.drivers import CHECK, NEW, PACKAGES, Agent, install
from tests.agents.model_server import ModelServer, Step

HARDWON = Path(sys.executable).with_name("hardwon")
ERROR = "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"
CART = 'def total(items):\n    return sum(item["price"] for item in items)\n'
TEST = """import unittest

from cart import total


class TotalTest(unittest.TestCase):
    def test_missing_price_counts_as_zero(self):
        self.assertEqual(total([{"price": 2}, {"price": None}]), 2)
"""
CAPTURE_MS, INJECT_MS = 30.0, 300.0
_VARYING = re.compile(
    r"(?:[a-z]+_)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{16,64}\b"
    r"|\b(?:toolu|call|msg|fc|resp)_\w+|\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?|(?<!\d)\d{10,13}(?!\d)"
    r"|\d+\.\d+ ?(?:s\b|seconds)|PGID: \d+|Chunk ID: \w+|\b\d+\.\d+\.\d+\.[0-9a-f]{3}\b|cch=\w+"
)
"""Ids and times in the requests of these agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The folders of one test: the data directory, and a home and projects at the same paths each time."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    def environment(self) -> dict[str, str]:
        named = {"HARDWON_HOME": str(self.data), "HOME": str(self.root / "home"), "HARDWON_HOLDOUT": "0"}
        return {**os.environ, **named, "OPENAI_API_KEY": ""}

    def hardwon(self, *arguments: str, told: str = "") -> str:
        done = subprocess.run(
            [HARDWON, *arguments], env=self.environment(), input=told, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"hardwon {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def clone(self, name: str) -> Path:
        project = self.root / name / "web-shop"
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir(parents=True)
        (project / "cart.py").write_text(CART)
        (project / "test_cart.py").write_text(TEST)
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        dates = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
        for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "Begin"]):
            subprocess.run(["git", "-C", project, *command], check=True, env={**os.environ, **dates})
        return project

    def agent(self, name: str, *, hooks: bool) -> Agent:
        """Return an agent with a new home."""
        home = self.root / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        if name == "gemini-cli":
            (home / ".gemini").mkdir()
            (home / ".gemini" / "settings.json").write_text(
                '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
            )
        if hooks:
            self.hardwon("hooks", "install", name)
        return Agent(name=name, home=home)


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(agent: Agent, project: Path, script: list[Step]) -> list[dict[str, Any]]:
    """Run an agent by a script; return the requests that the model saw."""
    with ModelServer(script) as model:
        done = agent.run(project, model.url)
    if len(model.requests) < 2:
        raise SystemExit(
            f"{agent.name} made {len(model.requests)} requests: {done.stderr[-2000:]}{done.stdout[-2000:]}"
        )
    return model.requests


def learn_from(ground: Ground) -> None:
    """Learn what the mended run shows from what the agent wrote down, without a word of ours."""
    told = json.loads(ground.hardwon("learn", "sessions", "--json"))
    if told["accepted"] + told["duplicate"] < 1:  # the owner may have been quicker, by the hooks' notes
        raise SystemExit(f"nothing was learned: {told}")
    ground.hardwon("checkpoint", "--all")


def times_of(ground: Ground, name: str, payload: Callable[[int], dict[str, Any]]) -> dict[Mode, float]:
    """Return the median milliseconds of the hooks of a tool, in turn, less those of a shell that does nothing."""
    tool = TOOLS[name]
    events = {mode: next(each for each in tool.events if each.mode is mode and _asks(each)) for mode in Mode}
    times: dict[Mode, list[float]] = {mode: [] for mode in Mode}
    for number in range(15):
        for mode, event in events.items():
            line = hook_line(shim_path(ground.data), name, event)
            times[mode].append(_time(line, payload(number)) - _time("true", {}))
    return {mode: statistics.median(each) for mode, each in times.items()}


def _asks(event: HookEvent) -> bool:
    return event.mode is Mode.CAPTURE or "tool" in event.name.lower()


def _time(line: str, payload: dict[str, Any]) -> float:
    began = time.perf_counter()
    subprocess.run(["sh", "-c", line], input=json.dumps(payload), text=True, capture_output=True, check=True)
    return 1000 * (time.perf_counter() - began)


def failure_payload(number: int) -> dict[str, Any]:
    """Return a failure as any of the tools tells it, of a session of its own."""
    said = f"Traceback (most recent call last):\n{ERROR}\n\nFAILED (errors=1)\nExit Code: 1"
    return {
        "session_id": f"timed-{number}", "tool_input": {"command": CHECK}, "error": f"Exit code 1\n{said}",
        "tool_name": "run_shell_command", "tool_response": {"llmContent": f"{said}\n<exited with exit code 1>"},
    }  # fmt: skip


@contextmanager
def stopped(ground: Ground) -> Iterator[None]:
    """Have the owner hang for a block."""
    pid = json.loads((ground.data / "owner.lock").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def comparable(requests: list[dict[str, Any]]) -> list[str]:
    """Return requests without what differs from run to run: ids and times."""
    return [_VARYING.sub("_", json.dumps(each, sort_keys=True)) for each in requests]


def examine(name: str) -> list[str]:
    """Return what is not as promised for an agent."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="hardwon-agents-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        ground = Ground(root=root)
        agent = ground.agent(name, hooks=True)
        first = ground.clone("first")
        run(agent, first, agent.mend(first))
        if NEW not in (first / "cart.py").read_text():
            problems.append("the scripted run has not mended the cart")
        fired = json.loads(ground.hardwon("hooks", "status", "--json"))["hooks"]
        silent = [each["event"] for row in fired for each in row["events"] if each["fired_at"] is None]
        say(f"{name}: hooks that did not fire: {', '.join(silent) or 'none'}")
        learn_from(ground)
        second = ground.clone("second")
        script: list[Step] = [agent.check(), "I see."]
        seen = run(ground.agent(name, hooks=True), second, script)
        if NEW not in json.dumps(seen[1]).replace('\\\\\\"', '"').replace('\\"', '"'):
            problems.append("the request after the failure does not hold the solution")
        if NEW in json.dumps(seen[0]).replace('\\"', '"'):
            say(f"{name}: the prompt alone brought it")
        times = times_of(ground, name, failure_payload)
        say(f"{name}: hooks take {times[Mode.CAPTURE]:.0f} ms (notes), {times[Mode.INJECT]:.0f} ms (asks), medians")
        if times[Mode.CAPTURE] > CAPTURE_MS or times[Mode.INJECT] > INJECT_MS:
            problems.append("the hooks are too slow (a busy machine? run it again alone)")
        without = comparable(run(ground.agent(name, hooks=False), ground.clone("second"), script))
        hooked = ground.agent(name, hooks=True)
        with stopped(ground):
            hanging = comparable(run(hooked, ground.clone("second"), script))
        os.kill(json.loads((ground.data / "owner.lock").read_text())["pid"], signal.SIGKILL)
        dead = comparable(run(ground.agent(name, hooks=True), ground.clone("second"), script))
        for what, requests in (("hanging", hanging), ("dead", dead)):
            if requests != without:
                problems.append(
                    f"with the owner {what} the model sees something else: {_difference(without, requests)}"
                )
    return problems


def _difference(one: list[str], other: list[str]) -> str:
    if len(one) != len(other):
        return f"{len(one)} requests, then {len(other)}"
    for first, second in zip(one, other, strict=True):
        at = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
        if at is not None or len(first) != len(second):
            at = at or min(len(first), len(second))
            return f"...{first[max(0, at - 60) : at + 80]}... and ...{second[max(0, at - 60) : at + 80]}..."
    return "nothing"


def main(names: list[str]) -> int:
    """Examine the named agents, else all; return the exit code."""
    failed = False
    for name in names or list(PACKAGES):
        if reason := install(name):
            say(f"{name}: skipped, {reason}")
            continue
        began = time.monotonic()
        problems = examine(name)
        failed = failed or bool(problems)
        say(f"{name}: {'; '.join(problems) or 'as promised'} ({time.monotonic() - began:.0f} s)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
