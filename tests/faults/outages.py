"""Outages of what hardwon depends on: the embedder for a while (G5), anything at a query (G11), on real sockets."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from pydantic import SecretStr

from hardwon.context.builder import basic_context
from hardwon.context.circuit_breaker import CircuitBreaker
from hardwon.errors import EmbedderUnavailable
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.models import Context, EntryStatus, Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.faults.lessons import lesson
from tests.support.openai_server import Fault, Misdeed, OpenAIServer, Status
from tests.support.postgres import over_tcp
from tests.support.relay import Relay, Wire

TASK = Task(description="cart price total order in case 0 broke", type="bugfix", project_id="project 0", task_id="T1")
DEADLINE_MS = 300
"""Shorter than what is shipped: it has to be kept however short it is, and a thousand contexts wait for it."""
SLACK_SECONDS = 0.05


# the embedder, for a while


def moods(rng: random.Random, retry_after: float) -> list[Fault | None]:
    """Return what half of the calls of an outage come to, and, as often, nothing."""
    told = {"Retry-After": f"{retry_after:g}"}
    wrong: list[Fault | None] = [
        Status(429, headers=told),
        Status(429),
        Status(503, headers=told),
        Status(500),
        Status(502),
        Misdeed.HANG,
        Misdeed.RESET,
        Misdeed.BROKEN_OFF,
        Misdeed.NOT_JSON,
    ]
    return wrong + [None] * len(wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """What an outage of the embedder came to. `recovered` is the seconds from its end until all was embedded."""

    entries: int
    embedded: int
    dead: int
    failed_calls: int
    failed_checkpoints: int
    recovered: float
    calls_too_early: int
    pauses: int


async def embedder_outage(
    settings: KnowledgeSettings, rng: random.Random, *, seconds: float, retry_after: float, retry: RetryPolicy
) -> Outage:
    """Capture and run checkpoints while half of all calls of the endpoint fail in every way, then let it recover."""
    with OpenAIServer(dims=64) as server:
        embedder = OpenAIEmbedder(
            "test-model", api_key=SecretStr(server.key), base_url=server.base_url, dimensions=64, retry=retry
        )
        async with open_knowledge(settings, embedder=embedder) as knowledge:
            choices = moods(rng, retry_after)
            ends = time.monotonic() + seconds  # in the middle of a checkpoint, too
            server.moods = lambda: rng.choice(choices) if time.monotonic() < ends else None
            number = failed = 0
            while time.monotonic() < ends or (await knowledge.stats()).entries.get(EntryStatus.STAGED, 0):
                if time.monotonic() < ends:
                    for _ in range(3):
                        await knowledge.capture.capture(lesson(number, sharing=1))
                        number += 1
                failed += not await _checkpoint(knowledge)
            recovered = time.monotonic() - ends
            counts = (await knowledge.stats()).entries
    return Outage(
        entries=number,
        embedded=counts.get(EntryStatus.EMBEDDED, 0),
        dead=counts.get(EntryStatus.DEAD, 0),
        failed_calls=len(server.faults),
        failed_checkpoints=failed,
        recovered=recovered,
        calls_too_early=_too_early(server, retry_after),
        pauses=len(_pauses(server)),
    )


async def _checkpoint(knowledge: Knowledge) -> bool:
    """Run a checkpoint; return whether it ended well. The next one comes at once: the embedder itself must wait."""
    try:
        await knowledge.checkpoints.process_all()
    except EmbedderUnavailable:
        await asyncio.sleep(0.05)
        return False
    return True


def _pauses(server: OpenAIServer) -> list[float]:
    """Return when the endpoint asked for a pause."""
    return [at for at, fault in server.faults if isinstance(fault, Status) and "Retry-After" in fault.headers]


def _too_early(server: OpenAIServer, retry_after: float) -> int:
    """Return how many calls came in a pause."""
    return sum(at < call < at + retry_after for at in _pauses(server) for call in server.times)


# anything, at a query


@dataclass(slots=True, kw_only=True)
class Stage:
    """Stores behind wires, with something in them that a task of `TASK` finds."""

    knowledge: Knowledge
    wires: dict[str, Relay]
    expected: Context


@dataclass(slots=True, kw_only=True)
class Contexts:
    """What calls of the context builder came to. `late`: seconds beyond the deadline, as a clock beside it saw that."""

    calls: int = 0
    degraded: int = 0
    late: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    @property
    def in_time(self) -> int:
        return sum(late <= SLACK_SECONDS for late in self.late)

    def __iadd__(self, other: Contexts) -> Self:
        self.calls += other.calls
        self.degraded += other.degraded
        self.late += other.late
        self.took += other.took
        return self

    def __str__(self) -> str:
        """Say it in a line."""
        return (
            f"{self.degraded} of {self.calls} degraded, {self.in_time} within the deadline + 50 ms; "
            f"the slowest took {1000 * max(self.took):.0f} ms, at most {1000 * max(self.late):.0f} ms late"
        )


@asynccontextmanager
async def staged(
    settings: KnowledgeSettings, database_url: str, socket: Path, qdrant_port: int, *, away: float = 0.0
) -> AsyncIterator[Stage]:
    """Open stores with a wire before Postgres, the index and the embedder each, and learn something.

    `away`: seconds that an answer of Postgres is on its way.
    """
    with (
        OpenAIServer(dims=64) as server,
        Relay(str(socket), away=away) as postgres,
        Relay(("127.0.0.1", qdrant_port)) as index,
        Relay(("127.0.0.1", server.port)) as embedder,
    ):
        through = settings.model_copy(
            update={
                "database_url": SecretStr(over_tcp(database_url, postgres.port)),
                "qdrant_url": f"http://127.0.0.1:{index.port}",
                "task_relevance": 0.0,
                "query_deadline_ms": DEADLINE_MS,
            }
        )
        # no answer of the endpoint is kept, so that each question is one call
        endpoint = OpenAIEmbedder(
            "test-model",
            api_key=SecretStr(server.key),
            base_url=f"http://127.0.0.1:{embedder.port}/v1",
            dimensions=64,
        )
        async with open_knowledge(through, embedder=endpoint) as knowledge:
            await knowledge.capture.capture(lesson(0))
            await knowledge.checkpoints.process_all()
            for _ in range(10):  # the first ones connect; a busy machine may stand still for longer than one waits
                built = await OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "agent 0")
                if built.patterns:
                    break
            assert built.patterns, built
            gc.collect()
            gc.freeze()  # as a server does: a search for garbage took 0.2 s of CPU, twice that beside other work
            yield Stage(
                knowledge=knowledge,
                wires={"Postgres": postgres, "the index": index, "the embedder": embedder},
                expected=built,
            )


async def asked_while(stage: Stage, part: str, wire: Wire, *, calls: int, at_once: int) -> Contexts:
    """Ask for contexts while one part is down; each call is one that has not met this yet, so none is spared.

    Asked first while all is well: then there are connections for it to break.
    """
    await asyncio.gather(*(_ask(stage, f"before {wire} {number}", Contexts()) for number in range(at_once)))
    stage.wires[part].be(wire)
    found = Contexts()
    try:
        for first in range(0, calls, at_once):
            await asyncio.gather(
                *(_ask(stage, f"{part} {wire} {number}", found) for number in range(first, min(first + at_once, calls)))
            )
    finally:
        stage.wires[part].be(Wire.SOUND)
    return found


async def _ask(stage: Stage, said: str, found: Contexts) -> None:
    task = replace(TASK, description=f"{TASK.description} {said}")
    deadline = stage.knowledge.settings.query_deadline_ms / 1000
    began = time.perf_counter()
    rung: list[float] = []
    # a clock beside it: where the machine is busy elsewhere, that is late, too
    clock = asyncio.get_running_loop().call_later(deadline, lambda: rung.append(time.perf_counter()))
    context = await OrchestratorContextBuilder(stage.knowledge).build_context_for_task(task, "agent 0")
    ended = time.perf_counter()
    clock.cancel()
    found.calls += 1
    # what the embedder does not answer in time is found by words alone
    basic = (context.text, context.patterns) == (basic_context(task), ())
    found.degraded += bool(context.degraded) and (basic or "by words alone" in str(context.degraded))
    found.took.append(ended - began)
    found.late.append(ended - max(rung[0], began + deadline) if rung else 0.0)


async def asked_while_open(stage: Stage, *, calls: int) -> list[float]:
    """Return what each call took, in seconds, while the breaker was open."""
    stage.wires["Postgres"].be(Wire.HANG)
    builder = OrchestratorContextBuilder(stage.knowledge, CircuitBreaker(open_seconds=3600))
    try:
        async with asyncio.timeout(60):  # lateness counts once nothing has come for some seconds more
            while not builder.breaker.is_open:
                await builder.build_context_for_task(TASK, "agent 0")
        took = []
        for _ in range(calls):
            began = time.perf_counter()
            context = await builder.build_context_for_task(TASK, "agent 0")
            took.append(time.perf_counter() - began)
            assert "not tried" in (context.degraded or ""), context
            assert context.text == basic_context(TASK)
    finally:
        stage.wires["Postgres"].be(Wire.SOUND)
    return took
