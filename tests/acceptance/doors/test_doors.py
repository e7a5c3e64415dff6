"""Who gets in through the door on TCP, what for, how often, and how much they may bring."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import isasyncgenfunction, iscoroutinefunction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import structlog
from cachetools import LRUCache
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from hardwon.client.transport import MAX_BODY_BYTES
from hardwon.errors import (
    AccessDenied,
    IdempotencyConflict,
    InvalidInput,
    InvalidSetting,
    NotFound,
    RejectionOnRecord,
    StorageUnavailable,
)
from hardwon.models.access import Scope
from knowledge.access.authentication import LOOKUP_INTERVAL_SECONDS, FoundKey
from knowledge.access.permissions import Reach, operations
from knowledge.models import EntryType, NewEntry
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from knowledge.wiring.stores import check_qdrant
from orchestrator.client import KnowledgeClient
from orchestrator.http.app import make_app
from orchestrator.http.middleware import authentication
from orchestrator.http.middleware.authentication import MAX_BUCKETS, TokenBuckets
from orchestrator.http.openapi.document import REQUESTS, VALUES
from orchestrator.http.operation_route import is_deeper_than, performs, public, route_operation
from orchestrator.observability.logging import configure_logs
from orchestrator.server.serve import _is_loopback, _listen, _require_keys
from tests.acceptance.doors.test_access import ALL_SCOPES, io_counted
from tests.support.cases import case_by_case
from tests.support.clients import auth_of
from tests.support.processes import Commands, entry, free_port

OPERATOR = "an-operators-key-of-more-than-thirty-two-characters"
GIB = 1024**3


@dataclass
class Door:
    """An app behind a guarded door, and clients with keys."""

    knowledge: Knowledge
    per_second: float = 1e6
    operator: str | None = None
    app: FastAPI = field(init=False)

    def __post_init__(self) -> None:
        told = {"operator_key": self.operator, "host": "127.0.0.1", "requests_per_second": self.per_second}
        self.app = make_app(self.knowledge, auth=auth_of(self.knowledge, **told))

    def http(self, key: str | None = None, address: str = "192.0.2.1") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False, client=(address, 1))
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.AsyncClient(transport=transport, base_url="http://hardwon", headers=headers)

    def client(self, key: str, workspace: str | None = None) -> KnowledgeClient:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        return KnowledgeClient("http://hardwon", key, workspace=workspace, transport=transport)

    async def key(self, *scopes: str, workspace: str | None = "ours") -> str:
        return (await self.knowledge.keys.create(scopes or list(Scope), workspace=workspace)).secret


@pytest.fixture
def door(knowledge: Knowledge) -> Door:
    return Door(knowledge)


def routes(app: FastAPI) -> Iterator[tuple[APIRoute, str, str]]:
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            path = route.path_format
            for name, value in VALUES.items():
                path = path.replace("{" + name + "}", str(value))
            yield route, next(iter(route.methods or ())), path


# what a key opens


def test_every_route_has_its_operation_and_every_operation_that_is_asked_for_over_http_its_route(door: Door) -> None:
    asked_for = {route.name: route_operation(route).operation for route, _, _ in routes(door.app)}
    assert {name for name, operation in asked_for.items() if operation is None} == {"healthz", "readyz"}
    assert set(asked_for.values()) - {None} <= set(operations())
    assert set(REQUESTS) <= set(asked_for)


def test_nothing_that_answers_a_request_is_called_in_a_thread_of_its_own(door: Door) -> None:
    """A hop to a thread and back costs more than what is asked of it; and what requests share is for one thread."""

    def called(needs: Dependant) -> Iterator[Callable[..., Any]]:
        if needs.call is not None:
            yield needs.call
        for each in needs.dependencies:
            yield from called(each)

    asked = {call for route, _, _ in routes(door.app) for call in called(route.dependant)}
    assert len(asked) > 60
    assert [call for call in asked if not (iscoroutinefunction(call) or isasyncgenfunction(call))] == []


def test_a_route_that_does_not_say_what_it_does_or_says_what_nobody_may_cannot_be_added(door: Door) -> None:
    async def endpoint() -> None:
        """Do something."""

    with pytest.raises(ValueError, match=re.escape("decorate it with @performs(...) or @public()")):
        door.app.get("/v1/mutant")(endpoint)
    with pytest.raises(ValueError, match="table of permissions"):
        performs("capture.everything")
    door.app.get("/v1/kept")(performs("capture.capture")(endpoint))
    door.app.get("/v1/open")(public()(endpoint))


@pytest.mark.long
async def test_t6_every_route_with_every_set_of_scopes_is_refused_before_its_body_is_read(door: Door) -> None:
    """T6. 403 where the table says so: no statement is sent, no byte of the body is asked for."""
    refused = 0
    bodies_read: list[str] = []

    async def body() -> AsyncIterator[bytes]:
        bodies_read.append("read")
        yield b"{}"

    keys = {scopes: await door.key(*scopes) for scopes in ALL_SCOPES if scopes}
    for scopes, key in keys.items():
        async with door.http(key) as http:
            await http.get("/v1/nothing")  # so that the key is known: what is counted is the operation's own
            await door.knowledge.authenticator.aclose()
            for route, method, path in routes(door.app):
                operation = route_operation(route).operation
                if operation is None:
                    continue
                needed = operations()[operation]
                has = Scope.ADMIN in scopes or needed.scopes <= scopes
                if has and needed.reach is Reach.WORKSPACE:
                    continue
                with io_counted(door.knowledge) as sent:
                    answer = await http.request(method, path, content=body(), params={"project_id": "p"})
                assert (answer.status_code, answer.json()["title"]) == (403, "AccessDenied"), (scopes, path)
                assert sent == [], path
                refused += 1
    assert bodies_read == []
    assert refused > 250
    stats = await door.knowledge.in_workspace("ours").stats()
    assert (dict(stats.entries), stats.checkpoints) == ({}, 0)


@pytest.mark.long
async def test_t6_nobody_without_a_key_gets_past_the_door(door: Door) -> None:
    """T6. Missing, wrong, malformed, expired, revoked: 401, whatever is asked for."""
    key = await door.key()
    key_id = key.split("_")[1]
    gone = await door.key()
    await door.knowledge.keys.revoke(gone.split("_")[1])
    wrong = [
        None,
        gone,
        "sesame",
        key[:-4],
        key + "A",
        f"hw_{'0' * 12}_{key.split('_', 2)[2]}",
        f"hw_{key_id}_{'A' * 43}",
    ]
    for number, given in enumerate(wrong):
        async with door.http(given, address=f"192.0.2.{number}") as http:
            for path in ("/v1/stats", "/v1/nothing", "/openapi.json", "/v1/keys", "/healthz/"):
                answer = await http.get(path)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
            for path in ("healthz", "readyz", "docs"):  # the reference asks for the key itself
                assert (await http.get(f"/{path}")).status_code == (200 if given is None else 401)
    async with door.http() as http:
        for headers in (
            [("Authorization", key)],
            [("Authorization", f"Basic {key}")],
            [("authorization", f"Bearer {key}")] * 2,
        ):
            assert (await http.get("/v1/stats", headers=headers)).status_code == 401
        assert (await http.get("/v1/stats", headers={"authorization": f"bearer  {key} "})).status_code == 200


# workspaces


async def test_a_key_is_of_its_workspace_and_another_that_is_named_tells_nothing(door: Door) -> None:
    told: dict[str, Any] = entry()
    theirs = await door.knowledge.in_workspace("theirs").capture.capture(NewEntry(**told))
    key = await door.key(workspace="ours")
    async with door.client(key) as client:
        assert (await client.stats()).workspace == "ours"
        with pytest.raises(NotFound):
            await client.capture.get(theirs)
        said = set()
        for other in ("theirs", "nobody's"):
            with pytest.raises(AccessDenied) as refused:
                await client.in_workspace(other).stats()
            said.add(str(refused.value))
        assert len(said) == 1
        with pytest.raises(AccessDenied, match="a key of all workspaces"):
            await client.workspaces()
        with pytest.raises(InvalidInput, match="workspace"):
            await client.capture.capture(NewEntry(**told | {"workspace": "theirs"}))
    async with door.client(await door.key(workspace=None), "theirs") as client:
        assert (await client.stats()).workspace == "theirs"


@pytest.mark.long
async def test_services_of_a_workspace_are_made_once_for_all_its_keys(door: Door) -> None:
    """What is kept of documents was kept for each key anew: each read all of them first, and held them in memory."""
    for _ in range(3):
        async with door.client(await door.key("query", "documents")) as client:
            await client.stats()
    opened = [knowledge for (workspace, _), knowledge in door.app.state.opened.items() if workspace == "ours"]
    assert len(opened) == 4, "its own, and each key's"
    assert len({id(knowledge.answering) for knowledge in opened}) == 1


@pytest.mark.long
async def test_the_services_of_a_key_that_asks_all_the_time_stay_and_the_longest_unused_go(
    door: Door,
) -> None:
    door.app.state.opened = LRUCache(3)
    async with door.client(await door.key("query")) as often:
        await often.stats()
        first = list(door.app.state.opened.items())
        for _ in range(4):
            async with door.client(await door.key("query")) as once:
                await once.stats()
            await often.stats()
            assert len(door.app.state.opened) == 3
            assert all(door.app.state.opened[name] is knowledge for name, knowledge in first)


# what is kept of keys


@pytest.mark.long
async def test_t11_nothing_that_postgres_or_the_logs_hold_opens_the_door(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    """T11. All columns of the table, all that was logged at the lowest level: none is a key or its secret."""
    configure_logs(level=10)
    keys = [await door.key("query"), await door.key("capture", workspace=None)]
    for key in keys:
        async with door.http(key) as http:
            await http.get("/v1/stats")
            await http.get(f"/v1/{key}")
    async with door.knowledge.engine.connect() as connection:
        rows = await connection.exec_driver_sql("select row_to_json(k)::text from api_keys k")
        dumped = "\n".join(rows.scalars())
    logged = capsys.readouterr().err
    assert "key_made" in logged
    candidates = [*dumped.replace('"', " ").split(), *json.loads(dumped.splitlines()[0])["secret_hash"].split("x")]
    for key in keys:
        secret = key.split("_", 2)[2]
        assert secret not in dumped
        assert key.split("_")[1] in dumped
    async with door.http() as http:
        for number, candidate in enumerate(candidates[:50]):
            door_of = door.http(f"hw_{keys[0].split('_')[1]}_{candidate}"[:500], address=f"198.51.100.{number}")
            async with door_of as thief:
                assert (await thief.get("/v1/stats")).status_code == 401


# how often one may ask


@pytest.mark.long
async def test_t12_a_key_that_asks_too_often_is_told_when_to_come_again_and_disturbs_no_other(
    knowledge: Knowledge,
) -> None:
    """T12. Ten times what is allowed at once; another key is not disturbed."""
    door = Door(knowledge, per_second=10)
    busy, calm = await door.key("query"), await door.key("query")
    async with door.http(busy) as http, door.http(calm) as other:
        began = time.monotonic()
        answers = await asyncio.gather(*(http.get("/v1/stats") for _ in range(200)))
        allowed = 21 + 10 * (time.monotonic() - began)
        counts = Counter(answer.status_code for answer in answers)
        assert set(counts) == {200, 429}
        assert 20 <= counts[200] <= allowed
        limited = next(answer for answer in answers if answer.status_code == 429)
        assert limited.headers["retry-after"] == "1"
        assert limited.json()["title"] == "Overloaded"
        assert 0 < limited.json()["retry_after_seconds"] <= 0.1
        assert (await other.get("/v1/stats")).status_code == 200


def wrong_keys(number: int) -> list[str]:
    return [f"hw_{each:012x}_{'A' * 43}" for each in range(number)]


@pytest.mark.long
async def test_t12_wrong_keys_cost_the_store_a_look_a_moment_and_a_known_key_none(door: Door) -> None:
    """T12. However many are tried in a moment; a known key of the same address opens meanwhile."""
    key = await door.key("query")
    async with door.http(key) as good, door.http() as bad:
        assert (await good.get("/v1/stats")).status_code == 200

        async def tried(key: str) -> int:
            return (await bad.get("/v1/stats", headers={"Authorization": f"Bearer {key}"})).status_code

        began = time.monotonic()
        with io_counted(door.knowledge) as sent:
            guesses = asyncio.gather(*map(tried, wrong_keys(300)))
            assert (await good.get("/v1/stats")).status_code == 200
            assert set(await guesses) == {401}
            for guess in wrong_keys(5):
                assert await tried(guess) == 401
        looks = len([each for each in sent if "api_keys" in each])
        assert looks <= 1 + (time.monotonic() - began) / LOOKUP_INTERVAL_SECONDS
        assert looks <= 13
        later = 10.0  # what is remembered is looked up anew
        door.knowledge.authenticator.seconds = lambda: time.monotonic() + later
        assert (await good.get("/v1/stats")).status_code == 200


@pytest.mark.long
async def test_t12_whoever_tries_keys_keeps_out_no_valid_one_that_was_not_seen_before(door: Door) -> None:
    """T12. Behind a proxy all callers have one address: after a restart each got a 429, for as long as it went on."""
    keys = [await door.key("query") for _ in range(4)]
    done = asyncio.Event()
    tries = Counter[int]()

    async def guessing(number: int, http: httpx.AsyncClient) -> None:
        while not done.is_set():
            guess = f"Bearer hw_{number:06x}{tries.total():06x}_{'A' * 43}"
            tries[(await http.get("/v1/stats", headers={"Authorization": guess})).status_code] += 1

    async with door.http() as http:
        guessers = [asyncio.create_task(guessing(number, http)) for number in range(40)]
        for key in [*keys, await door.key("query")]:
            await asyncio.sleep(0.1)
            async with asyncio.timeout(10):
                answer = await http.get("/v1/stats", headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 200, answer.text
        done.set()
        await asyncio.gather(*guessers)
    assert set(tries) == {401}
    assert tries.total() > 80


@pytest.mark.long
async def test_t12_so_many_of_an_address_wait_to_be_known_and_those_of_another_beside_them(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T12."""
    monkeypatch.setattr(authentication, "MAX_UNKNOWN_KEYS", 2)
    await door.key("query")
    first_uses = door.knowledge.authenticator._lookups
    look, may = first_uses.find_all, asyncio.Event()

    async def waiting_look(key_ids: Collection[str]) -> Mapping[str, FoundKey]:
        await may.wait()
        return await look(key_ids)

    first_uses.find_all = waiting_look

    async def tried(key: str, address: str) -> httpx.Response:
        async with door.http(key, address) as http:
            return await http.get("/v1/stats")

    for _ in range(2):  # they are counted only while they wait
        tries = [tried(key, address) for key in wrong_keys(3) for address in ("192.0.2.1", "192.0.2.2")]
        guesses = {asyncio.create_task(each) for each in tries}
        refused: set[asyncio.Task[httpx.Response]] = set()
        while len(refused) < 2:
            refused |= (await asyncio.wait(guesses - refused, return_when=asyncio.FIRST_COMPLETED))[0]
        assert {each.result().status_code for each in refused} == {429}
        assert {each.result().headers["retry-after"] for each in refused} == {"1"}
        may.set()
        assert {each.status_code for each in await asyncio.gather(*(guesses - refused))} == {401}
        may.clear()


@pytest.mark.long
def test_t12_buckets_are_kept_in_bounded_memory_and_fill_again() -> None:
    now = 0.0
    buckets = TokenBuckets(2, seconds=lambda: now)
    assert [buckets.take("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    now = 1.0
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0.5]
    for number in range(2 * MAX_BUCKETS):
        buckets.take(str(number))
    assert len(buckets._buckets) == MAX_BUCKETS


# how much one may bring


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process as Linux tells it")
def test_t13_a_gigabyte_in_chunks_and_a_hundred_thousand_levels_cost_no_memory(database_url: str, home: Path) -> None:
    """T13. 413 and 422; the server's memory grows by less than 20 MB."""
    commands = Commands(
        home, {"HARDWON_DATABASE_URL": database_url, "HARDWON_EMBEDDING_BASE_URL": "http://127.0.0.1:9"}
    )
    with commands.serving() as (server, url):

        def rss_mb() -> float:
            (line,) = (each for each in Path(f"/proc/{server.pid}/status").read_text().splitlines() if "VmHWM" in each)
            return int(line.split()[1]) / 1024

        json_ = {"Content-Type": "application/json"}
        with httpx.Client(base_url=url, timeout=60, headers=json_) as http:
            for _ in range(20):
                assert http.post("/v1/entries", json=entry()).status_code == 201
            before = rss_mb()
            sent = 0

            def gigabyte() -> Iterator[bytes]:
                nonlocal sent
                while sent < GIB:
                    sent += 65_536
                    yield b" " * 65_536

            for path in ("/v1/entries", "/v1/contexts", "/v1/keys"):
                with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # it answers and hangs up
                    assert http.post(path, content=gigabyte()).status_code in {403, 413}
                assert sent < GIB / 10
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=10) as raw:
                raw.sendall(f"POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Length: {GIB}\r\n\r\n".encode())
                assert raw.recv(100).startswith(b"HTTP/1.1 413"), "by what it declares, before any of it has come"
            for levels in (b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 50_000, b"[" * 200_000):
                answer = http.post("/v1/entries", content=levels)
                assert (answer.status_code, answer.json()["field"]) == (422, "body")
                assert "nested" in answer.json()["detail"]
            grown = rss_mb() - before
            assert http.post("/v1/entries", json=entry()).status_code == 201
    sys.stdout.write(f"memory: {before:.0f} MB, {grown:.1f} more\n")
    assert grown < 20


@pytest.mark.parametrize(
    ("body", "deep"),
    [
        ("[" * 20 + "]" * 20, False),
        ("[" * 21 + "]" * 21, True),
        ('{"a":' * 21 + "0" + "}" * 21, True),
        ("[" + "[]," * 1000 + "[]]", False),
        ('["' + "[" * 1000 + '"]', False),
        ("7", False),
    ],
)
def test_t13_depth_is_counted_in_objects_and_lists(body: str, *, deep: bool) -> None:
    assert is_deeper_than([json.loads(body)], 20) is deep


@pytest.mark.long
@pytest.mark.parametrize("path", ["/v1/entries", "/v1/contexts"])
async def test_t13_a_body_of_twenty_levels_is_read_and_one_more_is_refused(door: Door, path: str) -> None:
    """T13."""
    async with door.http(await door.key(), "192.0.2.1") as http:
        told = []
        for levels in (20, 21):
            within = levels - 1
            body = b'{"deep":' + b"[" * within + b"]" * within + b"}"
            answer = await http.post(path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 422
            told.append("is nested deeper than the 20 levels allowed" in answer.text)
    assert told == [False, True]


@pytest.mark.long
async def test_an_entry_as_large_as_it_may_be_is_captured_and_refused_as_in_process(door: Door) -> None:
    """What was sent as a batch came back as wrong input, whatever it was refused for."""
    text = "\x1b" * 65_536  # JSON writes each as six
    told: dict[str, Any] = {"entry_type": EntryType.GATE_APPROVAL, "project_id": "p", "gate_type": "review"}
    told |= {"proposal": text, "approved_approach": text, "task_description": text, "when_to_try": text}
    assert len(json.dumps(told)) > 6 * MAX_BODY_BYTES
    async with door.client(await door.key("capture", "query")) as client:
        entry_id = await client.capture.capture(NewEntry(**told, idempotency_key="k"))
        assert (await client.capture.get(entry_id)).approved_approach == text
        with pytest.raises(IdempotencyConflict):
            await client.capture.capture(NewEntry(**told | {"proposal": text[1:]}, idempotency_key="k"))
        rejected: dict[str, Any] = {"project_id": "p", "gate_type": "review", "task_id": "T", "human_feedback": "no"}
        await client.capture.capture(NewEntry(entry_type=EntryType.GATE_REJECTION, **rejected))
        with pytest.raises(RejectionOnRecord):
            await client.capture.capture(NewEntry(**told, task_id="T"))


# what is logged


@pytest.mark.long
async def test_t19_whatever_is_in_a_request_is_one_line_of_the_log(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    """T19. Line breaks, ANSI and JSON in paths, headers and ids of requests."""
    configure_logs(level=10)
    nasty = [
        "a\r\nb",
        "\x1b[31mred",
        '","level":"error',
        "\u2028x",
        "%0d%0aSet-Cookie: a",
        "é" * 200,
        "\x00",
        "x" * 5000,
    ]
    key = await door.key("query")
    capsys.readouterr()
    asked = 0
    async with door.http(key) as http:
        for text in nasty:
            given = text.encode("utf-8")
            for path in ("/v1/stats", f"/v1/{quote(given)}"):
                answer = await http.get(path, headers={b"X-Request-ID": given})
                assert answer.headers["x-request-id"].isascii()
                assert given not in answer.headers["x-request-id"].encode()
                asked += 1
        harmless = await http.get("/v1/stats", headers={"X-Request-ID": "deploy-7.b"})
        assert harmless.headers["x-request-id"] == "deploy-7.b"
    lines = capsys.readouterr().err.splitlines()
    events = [json.loads(line) for line in lines]
    assert len([each for each in events if each["event"] == "request_answered"]) == asked + 1
    assert all(each["key_id"] == key.split("_")[1] for each in events if each["event"] == "request_answered")
    assert structlog.is_configured()


# what answers hold


@pytest.mark.long
async def test_t9_no_answer_holds_a_raw_score(door: Door) -> None:
    """T9. `relevance` is calibrated, one scale for every model; no cosine, distance or fused score is anywhere."""
    told: dict[str, Any] = entry()
    await door.knowledge.in_workspace("ours").capture.capture(NewEntry(**told))
    await door.knowledge.in_workspace("ours").checkpoints.process_all()
    async with door.http(await door.key("query", "review", "capture")) as http:
        asked = {"failure_description": told["failure_description"], "min_relevance": 0}
        found = (await http.post("/v1/queries/failure", json=asked)).json()
        shown = (await http.get(f"/v1/patterns/{found['patterns'][0]['pattern_id']}/details")).json()
        document = json.dumps((await http.get("/openapi.json")).json()["components"]["schemas"])
    assert 0 <= found["patterns"][0]["relevance"] <= 1
    for raw in ("cosine", "score", "distance", "dense", "lexical", '"vector"', "embedding"):
        assert raw not in json.dumps([found, shown]).replace("embedding_model", ""), raw
    for raw in ("cosine", "distance", "dense", "lexical", '"vector"'):  # answers from documents have a calibrated score
        assert raw not in document.lower(), raw


# where a server may stand


@pytest.mark.long
async def test_t21_a_page_of_another_site_reaches_no_server_without_keys(door: Door) -> None:
    """T21. DNS rebinding and cross-site posts; with the first key nobody is let in without one."""
    async with door.http() as http:
        for headers in (
            {"Host": "evil.example"},
            {"Origin": "http://evil.example"},
            {"Host": "localhost", "Origin": "null"},
        ):
            refused = await http.get("/v1/stats", headers={"Host": "127.0.0.1:8420"} | headers)
            assert (refused.status_code, refused.json()["title"]) == (403, "AccessDenied")
        assert (await http.get("/v1/stats", headers={"Host": "127.0.0.1:8420"})).status_code == 200
        made = await http.post("/v1/keys", json=REQUESTS["create_key"], headers={"Host": "localhost"})
        assert (made.status_code, "hardwon keys create" in made.json()["detail"]) == (403, True)
        await door.key("admin")
        assert (await http.get("/v1/stats", headers={"Host": "127.0.0.1:8420"})).status_code == 401


@pytest.mark.long
@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
async def test_beyond_this_machine_a_server_needs_keys(knowledge: Knowledge, host: str) -> None:
    with _listen(host, free_port()) as listener:
        assert not _is_loopback(listener)
        with pytest.raises(InvalidInput, match="hardwon keys create") as refused:
            await _require_keys(knowledge, host, None)
        assert refused.value.field == "--host"
        with pytest.raises(InvalidSetting, match="32 characters"):
            await _require_keys(knowledge, host, "short")
        await _require_keys(knowledge, host, OPERATOR)
        await knowledge.keys.create(["query"], workspace="default")
        await _require_keys(knowledge, host, None)
    for near in ("127.0.0.1", "::1"):
        with _listen(near, free_port()) as listener:
            assert _is_loopback(listener)


@pytest.mark.long
async def test_the_operators_key_may_everything_and_a_made_key_in_its_place_no_more_than_it_was_made_for(
    knowledge: Knowledge,
) -> None:
    async with Door(knowledge, operator=OPERATOR).client(OPERATOR) as operator:
        assert await operator.workspaces() == []
        await operator.keys.create(["admin"], workspace=None)
    made = (await knowledge.keys.create(["capture"], workspace="ours")).secret
    async with Door(knowledge, operator=made).client(made) as agent:
        with pytest.raises(AccessDenied, match="scope query"):
            await agent.stats()


@case_by_case
async def test_t24_a_qdrant_beyond_this_machine_without_a_key_is_refused_at_the_start(
    settings: KnowledgeSettings, url: str, told: dict[str, Any]
) -> None:
    """T24."""
    changed = KnowledgeSettings(home=settings.home, database_url=settings.database_url, qdrant_url=url, **told)
    with pytest.raises(InvalidSetting, match="HARDWON_OPEN_QDRANT") as refused:
        async with open_knowledge(changed):
            pass
    assert refused.value.field == "HARDWON_QDRANT_API_KEY"


@pytest.mark.parametrize(
    "told",
    [
        {"qdrant_url": "http://localhost:6333"},
        {"qdrant_url": "http://[::1]:6333"},
        {"qdrant_url": "http://10.0.0.7:6333", "qdrant_api_key": "k"},
        {"qdrant_url": "http://10.0.0.7:6333", "open_qdrant": True},
    ],
    ids=str,
)
def test_a_qdrant_here_with_a_key_or_open_on_purpose_is_taken(told: dict[str, Any]) -> None:
    check_qdrant(KnowledgeSettings(**told))


# names of events, and parts that are down


async def test_a_header_names_an_event_as_the_field_does(door: Door) -> None:
    async with door.http(await door.key("capture")) as http:
        named = {"Idempotency-Key": "k"}
        first = await http.post("/v1/entries", json=entry(), headers=named)
        assert (await http.post("/v1/entries", json=entry(idempotency_key="k"))).json() == first.json()
        again = await http.post("/v1/entries", json=entry(solution_steps="another"), headers=named)
        assert (again.status_code, again.json()["title"]) == (409, "IdempotencyConflict")
        both = await http.post("/v1/entries", json=entry(idempotency_key="other"), headers=named)
        assert (both.status_code, both.json()["field"]) == (422, "idempotency_key")


@pytest.mark.long
async def test_a_part_that_is_down_says_when_to_come_again(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy one in a second, which the client does by itself; one that is down in a few, which is its caller's."""
    key = await door.key("query")
    down: list[StorageUnavailable] = [
        StorageUnavailable("closed"),
        StorageUnavailable("busy", retry_after_seconds=0.5),
    ]

    async def raises(_: object) -> None:
        raise down[0]

    monkeypatch.setattr(type(door.knowledge.stores.checkpoints), "stats", raises)
    monkeypatch.setattr(type(door.knowledge.stores.spaces), "bound", raises)
    async with door.http(key) as http:
        for seconds in ("5", "1"):
            answer = await http.get("/v1/stats")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, seconds)
            down.reverse()
        assert (await http.get("/readyz")).headers["content-type"] == "application/problem+json"
    async with door.client(key) as client:
        with pytest.raises(StorageUnavailable, match="closed"):
            await asyncio.wait_for(client.stats(), 2)
