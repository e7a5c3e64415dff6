"""Over HTTP, with a key, against a bare FastAPI route: what the door costs, not what the services do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from itertools import islice
from statistics import median
from typing import Any
from uuid import uuid4

from fastapi import FastAPI
from sqlalchemy.dialects.postgresql import insert

from benchmarks.materials import AGENTS, InstantEmbedder, failure, texts, throwaway
from benchmarks.querying import fill, question
from benchmarks.rounds import Outcome, Times, interleaved, ms, timed
from hardwon.client.entries import EntryCreated, entry_to_json
from hardwon.models.tasks import ContextRequest
from knowledge.adapters.postgres.memory.entry_rows import to_row
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.memory.rules.validation import content_hash, first_status
from knowledge.models import Context, Entry, EntryId, NewEntry, Task
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.http.app import make_app
from orchestrator.http.middleware.authentication import AuthConfig
from orchestrator.http.uvicorn import serve_on
from orchestrator.observability.progress import Stages
from orchestrator.server.serve import _listen

GOAL = 1.3
_CALLERS = 8
_CALLERS_GOAL = 0.6
_FIELDS = tuple(field.name for field in fields(NewEntry))
_INSERT = insert(knowledge_staging)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One connection that is kept, and nothing around it: a client library would cost both sides the same, and hide."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: str

    async def another(self) -> Caller:
        """Return another connection to the same server."""
        host, port = self.writer.get_extra_info("peername")
        reader, writer = await asyncio.open_connection(host, port)
        return Caller(reader=reader, writer=writer, head=self.head)

    async def post(self, path: str, body: object) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        content = json.dumps(body).encode()
        self.writer.write(
            f"POST {path} HTTP/1.1\r\n{self.head}Content-Length: {len(content)}\r\n\r\n".encode() + content
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return int(head[9:12]), await self.reader.readexactly(int(length.partition(b":")[2]))


@asynccontextmanager
async def served(app: FastAPI, key: str) -> AsyncIterator[Caller]:
    """Serve an app on a port of this machine, and give one who calls it."""
    with _listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        async with serve_on(app, listener, grace_seconds=1):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            try:
                yield Caller(reader=reader, writer=writer, head=head)
            finally:
                writer.close()
                await writer.wait_closed()


def bare_app(knowledge: Knowledge, answer: Context) -> FastAPI:
    """Return an app of two routes: one inserts the row of an entry and commits, one answers a context it has."""
    app = FastAPI()

    @app.post("/entries", status_code=201)
    async def capture(entry: NewEntry) -> EntryCreated:
        told = {name: getattr(entry, name) for name in _FIELDS}
        entry_id = EntryId(uuid4())
        row = to_row(
            Entry(
                **{**told, "workspace": knowledge.workspace},
                entry_id=entry_id,
                status=first_status(entry),
                content_hash=content_hash(entry),
                captured_at=datetime.now(UTC),
            )
        )
        async with knowledge.engine.begin() as connection:
            await connection.execute(_INSERT, row)
        return EntryCreated(entry_id=entry_id)

    @app.post("/contexts")
    async def context(body: ContextRequest) -> Context:  # noqa: ARG001 - read, as ours is
        return answer

    return app


def _context_body(text: str, number: int) -> dict[str, Any]:
    task = {"description": text, "type": "bugfix", "technology": "python"}
    return {"task": task, "agent_type": AGENTS[number % 4]}


async def measure(*, patterns: int, rounds: int, each: int, progress: Stages) -> list[Outcome]:
    """Return what a capture and a context take over HTTP."""
    stock = texts()
    situations = list(islice(stock, patterns))
    numbers = iter(range(10**6, 10**9))
    async with throwaway(InstantEmbedder()) as knowledge:
        await fill(knowledge, situations, progress.stage(f"Storing {patterns:,} patterns"))
        builder = OrchestratorContextBuilder(knowledge)
        answer = await builder.build_context_for_task(Task(description=situations[7]), AGENTS[0])
        key = (await knowledge.keys.create(["capture", "query"], workspace=knowledge.workspace)).secret
        auth = AuthConfig(
            authenticator=knowledge.authenticator, operator_key=None, host="127.0.0.1", requests_per_second=1e6
        )
        ours_app, raw_app = make_app(knowledge, auth=auth), bare_app(knowledge, answer)
        async with served(ours_app, key) as ours, served(raw_app, key) as raw:

            def new() -> dict[str, Any]:
                return entry_to_json(failure(next(numbers), next(stock)))

            async def must(caller: Caller, path: str, body: object, status: int) -> bytes:
                found, content = await caller.post(path, body)
                assert found == status, content
                return content

            async def captured(_: int) -> float:
                return await timed(must(ours, "/v1/entries", new(), 201))

            async def inserted(_: int) -> float:
                return await timed(must(raw, "/entries", new(), 201))

            async def context(number: int) -> float:
                text = question(situations, number, "ours")
                return await timed(must(ours, "/v1/contexts", _context_body(text, number), 200))

            async def in_process(number: int) -> float:
                text = question(situations, number, "raw")
                task = Task(description=text, type="bugfix", technology="python")
                inside = await timed(builder.build_context_for_task(task, AGENTS[number % 4]))
                return inside + await timed(must(raw, "/contexts", _context_body(text, number), 200))

            progress.stage("Capturing over HTTP")
            captures = await interleaved(captured, inserted, rounds=rounds, each=each, warm_up=40)
            progress.stage("Asking over HTTP")
            contexts = await interleaved(context, in_process, rounds=rounds, each=each, warm_up=20)
            progress.stage(f"Capturing over HTTP by {_CALLERS} callers")
            at_once = await _rates(ours, raw, new, rounds=rounds, each=each)
    size = len(json.dumps(asdict(answer), default=str))
    return [
        _outcome("HTTP capture p50 / a bare FastAPI route with the same insert", captures, "fsync on"),
        Outcome(
            name=f"HTTP captures a second at {_CALLERS} callers / a bare FastAPI route with the same insert",
            ratio=median(ours_rate for ours_rate, _ in at_once) / median(raw_rate for _, raw_rate in at_once),
            goal=_CALLERS_GOAL,
            at_most=False,
            ours=f"{median(rate for rate, _ in at_once):.0f}/s",
            raw=f"{median(rate for _, rate in at_once):.0f}/s",
            note="fsync on",
        ),
        _outcome("HTTP context p50 / (in process + a bare route)", contexts, f"{patterns:,} patterns; {size:,} bytes"),
    ]


async def _rates(
    ours: Caller, raw: Caller, new: Callable[[], dict[str, Any]], *, rounds: int, each: int
) -> list[tuple[float, float]]:
    """Return captures a second by several callers at once, ours and raw, for each round."""

    async def rate(first: Caller, path: str) -> float:
        bodies = iter([new() for _ in range(_CALLERS * each)])
        callers = [await first.another() for _ in range(_CALLERS)]

        async def call(caller: Caller) -> None:
            for body in bodies:
                status, content = await caller.post(path, body)
                assert status == 201, content

        seconds = await timed(asyncio.gather(*map(call, callers)))
        for caller in callers:
            caller.writer.close()
        return _CALLERS * each / seconds

    return [(await rate(ours, "/v1/entries"), await rate(raw, "/entries")) for _ in range(rounds)]


def _outcome(name: str, times: Times, note: str) -> Outcome:
    return Outcome(
        name=name,
        ratio=times.ratio,
        goal=GOAL,
        at_most=True,
        ours=ms(times.median_of(times.ours)),
        raw=ms(times.median_of(times.raw)),
        note=f"p95 ratio {times.ratio_p95:.2f}; {note}",
    )
