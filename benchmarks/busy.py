"""What a user waits for on a machine that has other work, in pairs with the commit before the owner process.

Servers and commands are processes of their own, with default settings and the bundled model; ours and those of a
worktree of that commit take turns, so that what slows one slows the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.materials import AGENTS, failure, texts
from benchmarks.querying import question
from benchmarks.rounds import Outcome
from hardwon.client.entries import entry_to_json
from hardwon.owner.record import read_owner
from orchestrator.evaluation.retrieval import throwaway_home
from orchestrator.observability.progress import Stages

BEFORE = "a5e4632b"
"""The commit before the owner process."""
ROOT = Path(__file__).resolve().parents[1]
PATTERNS = 300
QUIET = ((8, 40, 40), (16, 40, 38), (32, 64, 60))
"""Callers at once, contexts in all, and how many of them are to have knowledge."""
BUSY = (4, 40, 38)
QUERIES = 1000
MAX_RESIDENT_MIB = 320
_COMMANDS = 7
_REFERENCE_SECONDS = 2.3
"""What 20 million additions in a loop take on the machine that the goals are for."""
_PORT = 8791
_LOOP = "while True: pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A checkout whose code is run by this interpreter."""

    name: str
    root: Path

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of `hardwon` with arguments."""
        if (self.root / "hardwon/programs.py").exists():
            start = "from hardwon.programs import command_line; command_line()"
        else:
            start = "from orchestrator.cli.__main__ import main; main()"
        return [sys.executable, "-c", f"import sys; sys.argv[0] = 'hardwon'; {start}", *arguments]

    def environment(self, home: Path) -> dict[str, str]:
        """Return the environment of a process on a data directory: no settings but that."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("HARDWON_", "OPENAI_"))}
        return {**ours, "PYTHONPATH": str(self.root), "HARDWON_HOME": str(home)}


@contextmanager
def checkouts() -> Iterator[tuple[Checkout, Checkout]]:
    """Yield this checkout, and a worktree of the commit before."""
    with tempfile.TemporaryDirectory(prefix="hardwon-before-") as folder:
        path = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", path, BEFORE], cwd=ROOT, check=True)
        try:
            yield Checkout(name="now", root=ROOT), Checkout(name=BEFORE, root=path)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", path], cwd=ROOT, check=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server of a checkout on a store of its own, with the situations it knows."""

    pid: int
    url: str
    situations: Sequence[str]

    async def contexts(self, callers: int, total: int) -> int:
        """Ask for contexts from so many callers at once; return how many have knowledge."""
        numbers = iter(range(total))
        found = 0

        async def call(client: httpx.AsyncClient) -> None:
            nonlocal found
            for number in numbers:
                text = self.situations[number * 7 % len(self.situations)]  # known for sure: only lateness silences it
                task = {"description": text, "type": "bugfix", "technology": "python"}
                body = {"task": task, "agent_type": AGENTS[number % len(AGENTS)]}
                context = (await client.post("/v1/contexts", json=body)).raise_for_status().json()
                found += bool(context["patterns"])

        async with httpx.AsyncClient(
            base_url=self.url, timeout=60, limits=httpx.Limits(max_connections=None)
        ) as client:
            await asyncio.gather(*(call(client) for _ in range(callers)))
        return found

    def ask(self, count: int) -> None:
        """Send so many queries, one after the other."""
        with httpx.Client(base_url=self.url, timeout=60) as client:
            for number in range(count):
                text = question(self.situations, number, "memory")
                client.post("/v1/queries/task", json={"task_description": text}).raise_for_status()

    def resident_mib(self) -> float:
        """Return the resident memory of the process."""
        with Path(f"/proc/{self.pid}/status").open(encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@contextmanager
def serving(checkout: Checkout, home: Path, port: int) -> Iterator[Server]:
    """Run `hardwon serve` of a checkout on a store with patterns."""
    command = checkout.command("serve", "--port", str(port))
    environment = checkout.environment(home) | {"HARDWON_HOLDOUT": "0"}
    process = subprocess.Popen(
        command, cwd=checkout.root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=url, timeout=600) as client:
            _until_it_answers(client, process)
            situations = list(islice(texts(), PATTERNS))
            entries = [entry_to_json(failure(number, text)) for number, text in enumerate(situations)]
            client.post("/v1/entries:batch", json={"entries": entries}).raise_for_status()
            client.post("/v1/checkpoints", json={}).raise_for_status()
        yield Server(pid=process.pid, url=url, situations=situations)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _until_it_answers(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with suppress(httpx.TransportError):
            client.get("/healthz").raise_for_status()
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server ended with {process.returncode}")


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy for a block."""
    loops = [subprocess.Popen([sys.executable, "-c", _LOOP]) for _ in range(len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def cpu_seconds(command: Sequence[str], environment: dict[str, str], root: Path = ROOT) -> float:
    """Return the processor time of a command; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def additions_seconds() -> float:
    """Return what 20 million additions in a loop take here, the best of three."""
    program = "s = 0\nfor i in range(20_000_000): s += i"
    return min(cpu_seconds([sys.executable, "-c", program], dict(os.environ)) for _ in range(3))


async def measure(progress: Stages) -> list[Outcome]:
    """Return the outcomes, in the order of docs/performance.md."""
    outcomes: list[Outcome] = []
    with checkouts() as (now, before), ExitStack() as stack:
        progress.stage("Starting servers")
        homes = [stack.enter_context(throwaway_home()) for _ in range(3)]
        ours = stack.enter_context(serving(now, homes[0], _PORT))
        theirs = stack.enter_context(serving(before, homes[1], _PORT + 1))
        for callers, total, goal in QUIET:
            progress.stage(f"Contexts by {callers} callers")
            outcomes.append(await _contexts(ours, theirs, callers, total, goal, note="quiet machine"))
        with busy_cores():
            progress.stage("Contexts beside busy cores")
            outcomes.append(await _contexts(ours, theirs, *BUSY, note="every core busy"))
        progress.stage("Commands")
        outcomes += _commands(now, before, homes)
        progress.stage(f"{QUERIES} queries")
        for server in (ours, theirs):
            await asyncio.to_thread(server.ask, QUERIES)
        outcomes.append(
            Outcome(
                name=f"resident memory after {QUERIES:,} queries, MiB",
                ratio=round(ours.resident_mib()),
                goal=MAX_RESIDENT_MIB,
                at_most=True,
                ours=f"{ours.resident_mib():.0f} MiB",
                raw=f"{theirs.resident_mib():.0f} MiB",
            )
        )
    with throwaway_home() as home:
        progress.stage("The first command")
        outcomes.append(_first_command(home))
    return outcomes


async def _contexts(ours: Server, theirs: Server, callers: int, total: int, goal: int, *, note: str) -> Outcome:
    found = await ours.contexts(callers, total)
    earlier = await theirs.contexts(callers, total)
    return Outcome(
        name=f"contexts with knowledge, {callers} callers",
        ratio=found / total,
        goal=goal / total,
        at_most=False,
        ours=f"{found} of {total}",
        raw=f"{earlier} of {total}",
        note=note,
    )


def _commands(now: Checkout, before: Checkout, homes: Sequence[Path]) -> list[Outcome]:
    """Return what a query takes from a terminal while an owner runs, and an import."""
    query = ("query", "task", "the total of a cart is wrong")
    times: dict[str, list[float]] = {"now": [], BEFORE: [], "import": [], "pass": []}
    for _ in range(_COMMANDS):
        times["now"].append(cpu_seconds(now.command(*query), now.environment(homes[0])))
        times[BEFORE].append(cpu_seconds(before.command(*query), before.environment(homes[1]), before.root))
        times["import"].append(cpu_seconds([sys.executable, "-c", "import hardwon"], now.environment(homes[0])))
        times["pass"].append(cpu_seconds([sys.executable, "-c", "pass"], now.environment(homes[0])))
    scale = _REFERENCE_SECONDS / additions_seconds()
    command, earlier = median(times["now"]), median(times[BEFORE])
    return [
        Outcome(
            name="`hardwon query task`, CPU seconds of the reference machine",
            ratio=command * scale,
            goal=0.5,
            at_most=True,
            ours=f"{command:.2f} s here",
            raw=f"{earlier:.2f} s here",
            note=f"this machine is {scale:.1f} times as fast",
        ),
        Outcome(
            name="`import hardwon` / `pass`",
            ratio=median(times["import"]) / median(times["pass"]),
            goal=6,
            at_most=True,
            ours=f"{1000 * median(times['import']):.0f} ms",
            raw=f"{1000 * median(times['pass']):.0f} ms",
        ),
    ]


def _first_command(home: Path) -> Outcome:
    """Return what the first command on an empty data directory takes, until its answer."""
    now = Checkout(name="now", root=ROOT)
    began = time.monotonic()
    done = subprocess.run(
        now.command("stats", "--json"), env=now.environment(home), stdout=subprocess.PIPE, check=True, text=True
    )
    seconds = time.monotonic() - began
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["workspace"] == "default"
    if owner := read_owner(home):
        os.kill(owner.pid, signal.SIGTERM)
        while owner.is_alive():
            time.sleep(0.05)
    return Outcome(
        name="first command on an empty directory, s",
        ratio=seconds,
        goal=5,
        at_most=True,
        ours=f"{seconds:.1f} s",
        raw="",
    )
