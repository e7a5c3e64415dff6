"""What a server cannot take on it refuses at once, and clients come again: no capture is lost, no memory fills."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import sqlalchemy as sa
from starlette.exceptions import HTTPException

from hardwon.client.transport import MAX_CONCURRENT_REQUESTS, PROBLEM
from hardwon.errors import EmbedderUnavailable, Overloaded, StorageBusy
from hardwon.owner.requests import socket_transport
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.client import KnowledgeClient
from orchestrator.http import uvicorn
from orchestrator.http.app import make_app
from orchestrator.http.middleware import admission
from orchestrator.http.middleware.admission import BUFFER_BYTES, FULL, SMALL_BYTES, Admission, Queue
from orchestrator.http.routes.maintenance import _ReadTimeoutStream
from orchestrator.http.uvicorn import MAX_FILES, MIN_CONNECTIONS, OTHER_FILES, raise_file_limit, serve_on
from orchestrator.mcp.http import serve_mcp
from orchestrator.server import serve
from orchestrator.server.serve import _listen
from tests.acceptance.doors.test_access import io_counted
from tests.conftest import Opens
from tests.support.cases import load_tables
from tests.support.clients import auth_of
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry


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


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process as Linux tells it")
async def test_g18_what_is_refused_is_told_when_to_come_again_and_what_is_acknowledged_is_stored_once(
    commands: Commands, database_url: str
) -> None:
    """G18. Four hundred captures of 180 KB at once, at a server that works on two and lets four wait."""
    text = "x" * 60_000
    bodies = [
        json.dumps(entry(failure_description=text, error_message=text, solution_steps=text, task_id=str(n))).encode()
        for n in range(200)
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
                assert answer.json()["title"] == "Overloaded"
                assert answer.json()["retry_after_seconds"] == float(answer.headers["retry-after"])
        acknowledged = {answer.json()["entry_id"] for answer in answers if answer.status_code == 201}
        assert most - before < 40, "all bodies together are 72 MB"
    connection = await asyncpg.connect(database_url)
    try:
        stored = await connection.fetch("select id, task_id from knowledge_staging")
    finally:
        await connection.close()
    assert acknowledged <= {str(row["id"]) for row in stored}
    assert len({row["task_id"] for row in stored}) == len(stored), "each once, though each was told twice"


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


async def test_after_a_429_that_says_postgres_was_busy_only_what_comes_to_the_same_is_repeated() -> None:
    asked: Counter[str] = Counter()

    def busy(request: httpx.Request) -> httpx.Response:
        asked[request.method] += 1
        told = {"title": "StorageBusy", "detail": "come again", "retry_after_seconds": 0.01}
        return httpx.Response(429, json=told, headers={"Retry-After": "0.01", "Content-Type": PROBLEM})

    async with KnowledgeClient("http://busy", transport=httpx.MockTransport(busy)) as client:
        for method, seconds in (("POST", 0.2), ("DELETE", 0.2), ("PUT", None)):
            with pytest.raises(StorageBusy):
                await client._api.send(method, "/v1/x", timeout_seconds=seconds)
    assert asked["POST"] > 1
    assert asked["DELETE"] == asked["PUT"] == 1


class Work:
    """An app whose requests are at work until they are released; it reads each body first, as routes do."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.at_work = Counter[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            try:
                await receive()
            except HTTPException as error:
                await answered(send, error.status_code)
                return
        self.at_work[scope["path"]] += 1
        await self.release.wait()
        await answered(send, 204)


async def answered(send: Any, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body"})


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hardwon")


async def turns() -> None:
    """Let other tasks go on until they all wait."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_long_work_delays_no_capture_and_health_is_told_whatever_there_is_to_do() -> None:
    work = Work()
    async with client_of(Admission(work, concurrent=1, waiting=1)) as http:
        asked = [
            asyncio.ensure_future(http.request(method, path, content=b"{}" if method == "POST" else None))
            for method, path in [("POST", "/v1/checkpoints")] * 3
            + [("POST", "/v1/entries")] * 3
            + [("GET", "/healthz")] * 3
        ]
        await turns()
        assert work.at_work == {"/v1/checkpoints": 1, "/v1/entries": 1, "/healthz": 3}
        work.release.set()
        statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
    assert statuses == [204, 204, 429, 204, 204, 429, 204, 204, 204]


async def test_a_request_waits_in_the_queue_for_a_while_and_one_that_is_given_up_leaves_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "QUEUE_SECONDS", 0.2)
    queue = Queue(concurrent=1, waiting=1)
    async with queue.admit():
        with pytest.raises(Overloaded, match="come again") as refused:
            await queue.admit().__aenter__()
        assert refused.value.retry_after_seconds == 1
        given_up = asyncio.create_task(queue.admit().__aenter__())
        await turns()
        with pytest.raises(Overloaded):
            queue.check()
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        queue.check()
    async with asyncio.timeout(1), queue.admit():
        pass


LONG_WORK = tuple(load_tables("test_backpressure")["LONG_WORK"])
SHORT_WORK = (
    "POST /v1/entries",
    "POST /v1/entries:batch",
    "POST /v1/contexts",
    "POST /v1/queries/task",
    "GET /v1/patterns/7",
    "DELETE /v1/patterns/7/entries",
    "GET /v1/checkpoints/7",
    "POST /api/kb/team/a/documents",
)


def test_what_embeds_asks_a_model_or_grows_with_the_store_is_long_work_and_captures_and_queries_are_short() -> None:
    door = Admission(Work(), concurrent=1, waiting=1)
    long = door.queue("POST", "/v1/checkpoints")
    assert [asked for asked in LONG_WORK if door.queue(*asked.split()) is not long] == []
    assert [asked for asked in SHORT_WORK if door.queue(*asked.split()) is long] == []


async def test_g18_large_bodies_fill_a_buffer_of_64_mib_and_small_ones_are_taken_even_so() -> None:
    """G18. What is only declared takes none of it, and what was taken is given back with the response."""
    work = Work()
    async with client_of(Admission(work, concurrent=100, waiting=0)) as http:
        large = bytes(BUFFER_BYTES // 4)
        asked = [asyncio.ensure_future(http.post("/v1/entries:batch", content=large)) for _ in range(4)]
        await turns()
        assert (await http.post("/v1/entries", content=bytes(SMALL_BYTES + 300_000))).status_code == 429
        asked.append(asyncio.ensure_future(http.post("/v1/entries", content=bytes(SMALL_BYTES))))
        await turns()
        work.release.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {204}
        assert (await http.post("/v1/entries:batch", content=large)).status_code == 204


async def test_g18_a_refusal_reads_no_body_and_asks_postgres_nothing(opens: Opens) -> None:
    """G18. The only request that may be worked on is; others are refused meanwhile, as problem details."""
    async with opens(max_concurrent=1, max_waiting=0) as knowledge:
        app = make_app(knowledge, auth=auth_of(knowledge, operator_key="k" * 40))
        pieces: list[bytes] = []

        async def body() -> AsyncIterator[bytes]:
            pieces.append(b"{")
            yield b"{"

        async with client_of(app) as http, knowledge.engine.connect() as other:
            http.headers.update({"Authorization": f"Bearer {'k' * 40}", "Content-Type": "application/json"})
            await other.execute(sa.text("lock table knowledge_staging in exclusive mode"))
            with io_counted(knowledge) as statements:
                held = asyncio.create_task(http.post("/v1/entries", json=entry()))
                while not any("INSERT INTO knowledge_staging" in each for each in statements):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            with io_counted(knowledge) as statements:
                refused = await http.post("/v1/entries", content=body(), headers={"X-Request-ID": "mine"})
            assert statements == []
            assert pieces == []
            assert (await http.get("/healthz")).status_code == 200
            await other.rollback()
            assert (await held).status_code == 201
            assert (await http.post("/v1/entries", json=entry())).status_code == 201, "there is room again"
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert refused.headers["Content-Type"] == PROBLEM
    assert refused.json() == {
        "type": "about:blank",
        "title": "Overloaded",
        "status": 429,
        "retry_after_seconds": 1,
        "detail": FULL,
        "request_id": "mine",
    }


@asynccontextmanager
async def served_with_keys(opens: Opens) -> AsyncIterator[tuple[int, str, str]]:
    """Serve stores over sockets, as they are shipped; give the port, a key that may capture alone, and another's."""
    async with opens() as knowledge:
        theirs = (await knowledge.keys.create(["capture"], workspace="theirs")).secret
        ours = (await knowledge.keys.create(["capture", "query"], workspace="ours")).secret
        app = make_app(knowledge, auth=auth_of(knowledge, host="localhost"))
        with _listen("127.0.0.1", 0) as listener:
            async with serve_mcp(app), serve_on(app, listener, grace_seconds=1), asyncio.timeout(60):
                yield listener.getsockname()[1], theirs, ours


@asynccontextmanager
async def slow_bodies(
    port: int, head: str, number: int, begun: bytes = b"{"
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Send heads and the first bytes of so many bodies, and nothing more for a block."""
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(number)]
    try:
        for _, writer in slow:
            writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + begun)
            await asyncio.sleep(0)
        yield [reader for reader, _ in slow]
    finally:
        for _, writer in slow:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in slow), return_exceptions=True)


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


SLOW: list[tuple[str, int | None, int]] = [
    ("/v1/entries:batch", 16 * 1024 * 1024, 12),
    ("/v1/entries", 2_000_000, 600),
    ("/v1/entries", None, 40),
    ("/mcp", 2, 40),
]
"""What is declared, and on how many connections; it never comes."""


@pytest.mark.long
async def test_g18_whoever_sends_bodies_slowly_holds_up_nobody_else(opens: Opens) -> None:
    """G18. One key that may capture, and a byte of each body: nobody else was answered for as long as it went on."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("/v1/entries", entry()),
        ("/v1/entries:batch", {"entries": [entry(task_id="another")]}),
        ("/v1/contexts", {"task": {"description": "mend it", "project_id": "p"}, "agent_type": "coder"}),
        ("/v1/queries/task", {"task_description": "mend it"}),
        ("/v1/checkpoints", {"project_id": "p", "checkpoint_type": "phase_completion"}),
        ("/mcp", INITIALIZE),
    ]
    async with served_with_keys(opens) as (port, theirs, ours):
        told = {"Authorization": f"Bearer {ours}", "Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=told, timeout=10) as http:
            for path, declared, connections in SLOW:
                length = "Transfer-Encoding: chunked" if declared is None else f"Content-Length: {declared}"
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {theirs}\r\n{length}\r\n"
                head += "Accept: application/json, text/event-stream\r\n"
                async with slow_bodies(port, head, connections, b"{" if declared else b"1\r\n{"):
                    await asyncio.sleep(0.3)
                    for asked, body in calls:
                        answer = await http.post(asked, json=body)
                        assert answer.status_code in {200, 201}, (path, declared, asked, answer.text)


TWICE = "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n"


@pytest.mark.parametrize("path", ["/v1/entries", "/v1/archive", "/healthz"])
async def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(knowledge: Knowledge, path: str) -> None:
    """RFC 9112, 6.1: a proxy that goes by the other length takes the rest for a request of somebody else."""
    app = make_app(knowledge)
    with _listen("127.0.0.1", 0) as listener:
        async with serve_mcp(app), serve_on(app, listener, grace_seconds=1), asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{TWICE}\r\n"
            writer.write(head.encode() + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers = await reader.read()
            writer.close()
    assert answers.startswith(b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1 ") == 1, "and it is closed"


@asynccontextmanager
async def waiting_half_a_second(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """Serve one request at a time, whose body may take half a second; give the port."""
    monkeypatch.setattr(admission, "BODY_SECONDS", 0.5)
    async with opens(max_concurrent=1, max_waiting=8) as knowledge:
        app = make_app(knowledge)
        with _listen("127.0.0.1", 0) as listener:
            async with serve_mcp(app), serve_on(app, listener, grace_seconds=1), asyncio.timeout(60):
                yield listener.getsockname()[1]


def head_of(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n".encode()


@pytest.mark.long
@pytest.mark.parametrize("path", ["/v1/entries", "/mcp", "/v1/archive"])
async def test_g18_a_body_that_stops_coming_is_given_up_and_lets_others_in(
    opens: Opens, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """G18. Callers that are gone without a word would each keep a place at work, and together the whole server."""
    async with waiting_half_a_second(opens, monkeypatch) as port:
        callers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in callers:
            writer.write(head_of(path, bytes(1000)) + b"{")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408")
            told = json.loads(await reader.read())
            assert (told["status"], told["field"]) == (408, "body"), "and the connection is closed"
            writer.close()


@pytest.mark.long
async def test_an_archive_is_waited_for_as_long_as_it_comes(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opens() as knowledge:
        archive = b"".join([piece async for piece in knowledge.archives.export_archive()])
    async with waiting_half_a_second(opens, monkeypatch) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head_of("/v1/archive", archive))
        for piece in (archive[:100], archive[100:200], archive[200:300], archive[300:]):
            await asyncio.sleep(0.3)
            writer.write(piece)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_request_that_is_cut_at_the_end_is_no_defect_in_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Of two commands at once the first ended with stack traces, though all had gone well in both."""
    begun = asyncio.Event()

    async def app(_: Any, __: Any, ___: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    with _listen("127.0.0.1", 0) as listener:
        async with serve_on(app, listener, grace_seconds=0):
            _, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            await begun.wait()
        writer.close()
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == []


@pytest.mark.long
async def test_g18_a_connection_on_which_no_request_comes_is_closed_however_much_of_one_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G18. Each kept its place for good: a few thousand of them, and everybody else was told to come again."""
    monkeypatch.setattr(uvicorn, "KEEP_ALIVE_SECONDS", 1)

    async def app(scope: Any, _: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            await asyncio.sleep(1.5)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def closed_after(*pieces: bytes) -> tuple[float, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic()
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.3)
        said = await reader.read()
        writer.close()
        return time.monotonic() - began, said

    whole = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
    slow = whole.replace(b"/ ", b"/slow ")
    unsent = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n"
    told = [
        ((), 0),
        (tuple(whole[at : at + 1] for at in range(3)), 0),
        ((whole, b"GET"), 1),
        ((slow,), 1),
        ((unsent,), 1),
    ]
    with _listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        async with serve_on(app, listener, grace_seconds=1), asyncio.timeout(20):
            closed = await asyncio.gather(*(closed_after(*pieces) for pieces, _ in told))
    assert [said.count(b"HTTP/1.1 204") for _, said in closed] == [answers for _, answers in told]
    assert all(0.9 < seconds < 4 for seconds, _ in closed), closed


async def test_t13_a_head_that_does_not_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """T13. Who has no key sends it, and httptools, which uvicorn prefers where it is installed, keeps all of it."""
    monkeypatch.setattr(uvicorn, "HEAD_BYTES", 1000)

    async def app(_: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def told(*pieces: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.05)
            return await reader.read()
        return b""

    head = b"POST / HTTP/1.1\r\nHost: here\r\n"
    last = b"Connection: close\r\n"
    with _listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        async with serve_on(app, listener, grace_seconds=1), asyncio.timeout(10):
            assert (await told(head, *[b"a: " + b"b" * 300 + b"\r\n"] * 4)).startswith(b"HTTP/1.1 400")
            long_body = [b"Content-Length: 4000\r\n", b"\r\n", *[b"b" * 500] * 8, head, last, b"\r\n"]
            assert (await told(head, *long_body)).count(b"HTTP/1.1 204") == 2


async def test_g18_an_archive_that_nobody_reads_on_a_socket_of_the_machine_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """G18. It held a snapshot of the database for as long as its reader stood still."""
    monkeypatch.setattr(uvicorn, "UNREAD_SECONDS", 0.5)
    closed = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            for _ in range(64):
                yield bytes(1024 * 1024)
        finally:
            closed.set()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        async with serve_on(_ReadTimeoutStream(pieces()), listener, grace_seconds=1), asyncio.timeout(10):
            _, writer = await asyncio.open_unix_connection(str(tmp_path / "s"), limit=1024)
            writer.write(b"GET /v1/archive HTTP/1.1\r\nHost: here\r\n\r\n")
            await closed.wait()
            writer.close()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="what ends such a connection is Linux")
async def test_g18_a_caller_that_reads_nothing_of_a_long_answer_is_given_up_and_one_that_reads_slowly_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G18. Else it keeps its place at work for good, and 32 of them all places; an export keeps a connection, too."""
    monkeypatch.setattr(serve, "UNREAD_SECONDS", 1)
    ended = asyncio.Queue[str]()

    async def app(scope: Any, _: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(32):
            await send({"type": "http.response.body", "body": bytes(1024 * 1024), "more_body": True})
        await send({"type": "http.response.body"})
        await ended.put(scope["path"])

    async def asking(path: str) -> socket.socket:
        caller = socket.socket()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        caller.settimeout(0)
        await loop.sock_connect(caller, ("127.0.0.1", port))
        await loop.sock_sendall(caller, f"GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
        return caller

    loop = asyncio.get_running_loop()
    with _listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        async with serve_on(app, listener, grace_seconds=1), asyncio.timeout(60):
            with await asking("/unread"):
                assert await ended.get() == "/unread"
            with await asking("/slow") as caller:
                read, began = 0, time.monotonic()
                while more := await loop.sock_recv(caller, 1024 * 1024):
                    read += len(more)
                    if time.monotonic() - began < 2:
                        await asyncio.sleep(0.1)
                assert read > 32 * 1024 * 1024


async def nothing(_: Any, __: Any, send: Any) -> None:
    """Answer without a body: an app."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def test_g18_more_connections_than_a_server_has_files_for_are_told_to_come_again_and_the_others_go_on() -> None:
    """G18. A server whose files are for its stores: it takes fewer than 64 connections."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        return await reader.readuntil(b"\r\n\r\n")

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OTHER_FILES + 20, hard))  # callers' ends are files of ours, too
    with _listen("127.0.0.1", 0) as listener, contextlib.ExitStack() as undo:
        undo.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        port = listener.getsockname()[1]
        async with asyncio.timeout(20), serve_on(nothing, listener, grace_seconds=1):
            callers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MIN_CONNECTIONS - 1)]
            assert all([(await answered(*caller)).startswith(b"HTTP/1.1 204") for caller in callers])
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 429")
                assert b"\r\nRetry-After: 1\r\n" in head
                assert json.loads(await reader.read())["title"] == "Overloaded"
                writer.close()
            assert all([(await answered(*caller)).startswith(b"HTTP/1.1 204") for caller in callers])
            callers.pop()[1].close()
            await asyncio.sleep(0.1)
            callers.append(await asyncio.open_connection("127.0.0.1", port))
            assert (await answered(*callers[-1])).startswith(b"HTTP/1.1 204"), "there is room again"
            for _, writer in callers:
                writer.close()


def test_a_server_asks_for_as_many_files_as_it_may_have_and_no_more() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, MAX_FILES), hard)
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, MAX_FILES), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
@pytest.mark.parametrize("over", ["tcp", "socket"])
async def test_calls_that_are_given_up_leave_the_client_as_it_was(
    settings: KnowledgeSettings, tmp_path: Path, over: str
) -> None:
    """A burst of contexts on a slow server, each given up in its turn, left a client that sent nothing any more."""

    async def healthy_alone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /healthz"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n" + b'{"status":"ok"}')
            await reader.read()
        writer.close()

    path = str(tmp_path / "silent.sock")
    if over == "tcp":
        server = await asyncio.start_server(healthy_alone, "127.0.0.1", 0)
        client = KnowledgeClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", settings=settings)
    else:
        server = await asyncio.start_unix_server(healthy_alone, path)
        client = KnowledgeClient("http://hardwon", settings=settings, transport=socket_transport(path))
    async with server, client:
        for turns in range(12):
            calls = [asyncio.create_task(client.stats()) for _ in range(2 * MAX_CONCURRENT_REQUESTS)]
            await asyncio.sleep(0.3)
            for call in calls[:MAX_CONCURRENT_REQUESTS]:
                call.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
            for call in calls[MAX_CONCURRENT_REQUESTS:]:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert await client.healthy(), f"{turns} turns of the loop later"
