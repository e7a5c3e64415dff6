"""What a server cannot take on it refuses at once, and clients come again: no capture is lost, no memory fills."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import asyncpg
import httpx
import pytest

from knowledge.errors import EmbedderUnavailable, Overloaded
from knowledge.models import EntryType, NewEntry
from knowledge.wiring import Knowledge
from orchestrator.admission import Admission, _Line
from orchestrator.client import KnowledgeClient
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


@pytest.fixture
def commands(database_url: str, endpoint: OpenAIServer, home: Path) -> Commands:
    """Commands on a server that works on two requests at a time and lets four wait."""
    small = {"HARDWON_MAX_CONCURRENT": "2", "HARDWON_MAX_WAITING": "4"}
    return Commands(home, embedding_by(endpoint) | small | {"HARDWON_DATABASE_URL": database_url})


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the process is gone")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process as Linux tells it")
async def test_g18_what_is_refused_is_told_when_to_come_again_and_what_is_acknowledged_is_stored_once(
    commands: Commands, database_url: str
) -> None:
    """G18. Eight hundred captures of 180 KB at once, at a server that works on two and lets four wait."""
    text = "x" * 60_000
    bodies = [
        json.dumps(entry(failure_description=text, error_message=text, solution_steps=text, task_id=str(n))).encode()
        for n in range(400)
    ]
    with commands.serving() as (server, url):
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:

            async def told(body: bytes) -> httpx.Response:
                return await http.post("/v1/entries", content=body, headers={"Content-Type": "application/json"})

            await asyncio.gather(*map(told, bodies[:20]))
            before, most = rss_mb(server.pid), 0.0
            storm = asyncio.gather(*map(told, bodies * 2))
            while not storm.done():
                assert (await http.get("/healthz")).status_code == 200
                most = max(most, rss_mb(server.pid))
                await asyncio.sleep(0.05)
            answers = await storm
        sys.stdout.write(f"memory: {before:.0f} MB, at most {most:.0f} MB\n")
        counts = Counter(answer.status_code for answer in answers)
        assert set(counts) == {201, 429}
        for answer in answers:
            if answer.status_code == 429:
                assert answer.headers["retry-after"] == "1"
                assert (answer.json()["title"], answer.json()["retry_after_seconds"]) == ("Overloaded", 1.0)
        acknowledged = {answer.json()["entry_id"] for answer in answers if answer.status_code == 201}
        assert most - before < 60, "all bodies together are 144 MB"
    connection = await asyncpg.connect(database_url)
    try:
        stored = await connection.fetch("select id, task_id from knowledge_staging")
    finally:
        await connection.close()
    assert acknowledged <= {str(row["id"]) for row in stored}
    assert len({row["task_id"] for row in stored}) == len(stored), "each once, though each was told twice"


async def test_clients_come_again_until_all_is_stored(commands: Commands) -> None:
    """G18, as those who capture see it: nothing but a little patience."""
    with commands.serving() as (_, url):
        async with KnowledgeClient(url) as client:
            told = [
                NewEntry(
                    entry_type=EntryType.FAILURE_SOLUTION,
                    project_id="p",
                    agent_type="coder",
                    failure_description="it broke",
                    solution_steps="mend it",
                    success_verified=True,
                    idempotency_key=str(number),
                    task_id=str(number),
                )
                for number in range(60)
            ]
            ids = await asyncio.gather(*map(client.capture.capture, told))
            assert len(set(ids)) == 60
            assert dict((await client.stats()).entries) == {"staged": 60}


async def test_a_client_waits_as_long_as_it_is_told_and_no_longer_than_it_has() -> None:
    asked: list[float] = []

    def busy(_: httpx.Request) -> httpx.Response:
        asked.append(time.monotonic())
        told = {"title": "Overloaded", "detail": "come again", "retry_after_seconds": 0.3}
        return httpx.Response(429, json=told, headers={"Retry-After": "0.3"})

    async with KnowledgeClient("http://busy", transport=httpx.MockTransport(busy)) as client:
        with pytest.raises(Overloaded) as refused:
            await client._api.send("GET", "/v1/stats", timeout_seconds=1)
    assert refused.value.retry_after_seconds == 0.3
    gaps = [after - before for before, after in pairwise(asked)]
    assert gaps
    assert all(gap >= 0.3 for gap in gaps)
    assert asked[-1] - asked[0] <= 1


@pytest.mark.parametrize(
    ("method", "headers", "seconds", "times"),
    [
        ("GET", {"Retry-After": "0.01"}, 5, 3),
        ("POST", {"Retry-After": "0.01"}, 5, 3),
        ("POST", {"Retry-After": "0.01"}, None, 1),  # a checkpoint may have done much by then
        ("DELETE", {"Retry-After": "0.01"}, 5, 1),  # the second one would not find it
        ("GET", {}, 5, 1),
        ("GET", {"Retry-After": "tomorrow"}, 5, 1),
        ("GET", {"Retry-After": "3600"}, 5, 1),
    ],
)
async def test_a_part_that_does_not_answer_is_asked_again_where_that_comes_to_the_same(
    method: str, headers: dict[str, str], seconds: float | None, times: int
) -> None:
    asked = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked == 3:
            return httpx.Response(200, json={})
        return httpx.Response(503, json={"title": "EmbedderUnavailable", "detail": "closed"}, headers=headers)

    async with KnowledgeClient("http://part", transport=httpx.MockTransport(answer)) as client:
        if times == 3:
            await client._api.send(method, "/v1/x", timeout_seconds=seconds)
        else:
            with pytest.raises(EmbedderUnavailable):
                await client._api.send(method, "/v1/x", timeout_seconds=seconds)
    assert asked == times


async def test_long_work_keeps_no_capture_waiting_and_health_is_told_whatever_there_is_to_do(
    knowledge: Knowledge,
) -> None:
    release, at_work = asyncio.Event(), Counter[str]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        at_work[scope["path"]] += 1
        await release.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    admission = Admission(app, at_work=1, waiting=1)
    transport = httpx.ASGITransport(app=cast("Any", admission))
    async with httpx.AsyncClient(transport=transport, base_url="http://hardwon") as http:
        asked = [
            asyncio.ensure_future(http.request(method, path))
            for method, path in [("POST", "/v1/checkpoints")] * 3
            + [("POST", "/v1/entries")] * 3
            + [("GET", "/healthz")] * 3
        ]
        for _ in range(100):
            await asyncio.sleep(0)
        assert at_work == {"/v1/checkpoints": 1, "/v1/entries": 1, "/healthz": 3}
        release.set()
        statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
    assert statuses == [204, 204, 429, 204, 204, 429, 204, 204, 204]


async def test_large_bodies_are_worked_on_a_few_at_a_time_and_who_leaves_the_line_holds_up_nobody() -> None:
    line = _Line(100, 100)
    half = 40 * 1024 * 1024
    await line.enter(half)
    second = asyncio.create_task(line.enter(half))
    third = asyncio.create_task(line.enter(10))
    await asyncio.sleep(0)
    assert not second.done()
    assert not third.done(), "first come, first served"
    second.cancel()
    await asyncio.sleep(0)
    await asyncio.wait_for(third, 1)
    line.leave(half)
    line.leave(10)
    fourth = asyncio.create_task(line.enter(half))
    await asyncio.wait_for(fourth, 1)
    fifth = asyncio.create_task(line.enter(half))
    await asyncio.sleep(0)
    line.leave(half)  # it is called, and cancelled before it knows
    fifth.cancel()
    await asyncio.gather(fifth, return_exceptions=True)
    await asyncio.wait_for(line.enter(half), 1)
