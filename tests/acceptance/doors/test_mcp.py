"""MCP through the official client: the same tools on standard streams and over HTTP, and only for whom they are."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import httpx
import httpx2
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from hardwon.context.circuit_breaker import FAILURE_THRESHOLD
from hardwon.installation import install_command
from hardwon.models.access import Scope
from knowledge.access.principals import Principal, Trust
from knowledge.wiring.open import Knowledge
from orchestrator.context.builders import ContextBuilders
from orchestrator.http.app import make_app
from orchestrator.http.uvicorn import serve_on
from orchestrator.mcp import http as mcp_http
from orchestrator.mcp.http import serve_mcp
from orchestrator.mcp.server import make_server
from orchestrator.mcp.tools import TOOLS, Caller
from orchestrator.server.serve import _listen
from tests.acceptance.memory.test_custody import handed_out
from tests.conftest import Opens, SetClock
from tests.support.clients import auth_of, http_of
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure
from tests.support.openai_server import OpenAIServer
from tests.support.processes import HARDWON, Commands, embedding_by, entry

SITUATION = str(entry()["failure_description"])
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture
def commands(home: Path, database_url: str) -> Iterator[Commands]:
    with OpenAIServer() as endpoint:
        deadline = {"HARDWON_QUERY_DEADLINE_MS": "20000"}
        yield Commands(home, {"HARDWON_DATABASE_URL": database_url, **embedding_by(endpoint), **deadline})


def on_streams(commands: Commands, *arguments: str, **more: str) -> Client:
    environment = commands.environment(**more)
    return Client(StdioServerParameters(command=str(HARDWON), args=["mcp", *arguments], env=environment))


@asynccontextmanager
async def over_http(url: str, key: str | None = None, **headers: str) -> AsyncIterator[Client]:
    sent = {**headers, **({"Authorization": f"Bearer {key}"} if key else {})}
    async with (
        httpx2.AsyncClient(headers=sent, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


async def done(client: Client, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Return the sentence of a tool's error."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return str(getattr(answer.content[0], "text", ""))


async def the_loop(client: Client) -> None:
    """Capture, checkpoint, ask, hand out, tell; and what was refused meanwhile."""
    listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == set(TOOLS)
    for tool in listed:
        assert tool.description
        told = tool.input_schema["properties"]
        assert all(told[name].get("description") for name in told), tool.name

    opened = await done(client, "capture", **entry(success_verified=False, solution_steps=None))
    assert "verified_by" in await refused(client, "resolve", entry_id=opened["entry_id"], solution_steps="zero")
    (waiting,) = (await done(client, "list_unresolved", project_id="web-shop"))["unresolved"]
    assert waiting["entry_id"] == opened["entry_id"]
    assert waiting["told"].startswith(SITUATION)
    assert (await done(client, "list_unresolved", after=opened["entry_id"]))["unresolved"] == []
    told = {"solution_steps": "treat a missing price as zero", "verified_by": "pytest"}
    assert await done(client, "resolve", entry_id=opened["entry_id"], **told) == opened
    report = await done(client, "checkpoint", project_id="web-shop")
    assert report["embedded"] == 1

    found = await done(client, "query_for_failure", failure_description=SITUATION)
    (pattern,) = found["patterns"]
    assert pattern["solution"] == "treat a missing price as zero"
    asked = {"task_description": SITUATION, "agent_type": "backend"}
    assert (await done(client, "query_for_task", **asked))["patterns"] != []
    assert (await done(client, "list_unresolved"))["unresolved"] == []
    unlike = {"failure_description": "the parcel labels are printed upside down"}
    assert (await done(client, "query_for_failure", **unlike, min_relevance=0))["patterns"] != []
    assert (await done(client, "query_for_failure", **unlike, only_if_sure=True))["patterns"] == []
    assert (await done(client, "query_for_failure", **unlike, min_relevance=1))["patterns"] == []
    context = await done(client, "build_context", **asked, project_id="other", task_id="T-1")
    assert "[ORCHESTRATOR CONTEXT" in context["text"]
    ids = {"context_id": context["context_id"], "pattern_id": pattern["pattern_id"]}
    assert await done(client, "record_outcome", **ids, worked=True) == {"success_count": 2, "attempt_count": 2}

    assert "failure_description" in await refused(client, "capture", **entry(failure_description=" "))
    assert "agent_type: is required" in await refused(client, "build_context", task_description=SITUATION)
    assert "checkpoint_type" in await refused(client, "checkpoint", project_id="p", checkpoint_type="lunch")
    assert "sql: is not known here" in await refused(client, "query_for_task", **asked, sql="DROP TABLE patterns")
    assert "max_results" in await refused(client, "query_for_task", **asked, max_results=10_000)
    nobody = "00000000-0000-0000-0000-000000000000"
    assert (await refused(client, "resolve", entry_id=nobody, **told)).startswith("there is no entry")
    with pytest.raises(MCPError, match="there is no tool"):
        await client.call_tool("delete_everything", {})


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_the_loop_on_standard_streams_as_the_owner_of_the_data_directory(commands: Commands) -> None:
    async with on_streams(commands) as client:
        await the_loop(client)


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_the_loop_over_http_and_on_standard_streams_beside_the_server(commands: Commands) -> None:
    with commands.serving() as (_, url):
        async with over_http(url) as client:
            await the_loop(client)
        async with on_streams(commands) as client:  # a client of the owner
            assert len((await done(client, "query_for_failure", failure_description=SITUATION))["patterns"]) == 1
        async with on_streams(commands, "--workspace", "another") as client:
            assert (await done(client, "query_for_failure", failure_description=SITUATION))["patterns"] == []


def principal(*scopes: Scope, workspace: str | None = "default") -> Principal:
    return Principal(trust=Trust.KEY, scopes=frozenset(scopes), workspace=workspace, key_id="0" * 12)


def as_caller(knowledge: Knowledge, who: Principal, contexts: ContextBuilders | None = None) -> Client:
    """Return a client of a server that shows every tool, so that what is refused is refused by the services."""

    async def find(_: Any) -> Caller:
        return Caller(knowledge=knowledge.for_principal(who), may=who.may, contexts=contexts or ContextBuilders())

    return Client(make_server(find))


@pytest.mark.long
async def test_an_embedder_that_failed_some_times_in_a_row_is_not_asked_for_a_while_whichever_door_asks(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """Each call had a breaker of its own: an endpoint that was down cost every context its deadline."""
    await knowledge.capture.capture(failure())
    await knowledge.checkpoints.process_all()
    embedder.unavailable = "the endpoint is closed"
    app = make_app(knowledge)
    asked = {"task_description": SITUATION, "agent_type": "backend"}

    async def find(_: Any) -> Caller:
        return Caller(knowledge=knowledge, may=lambda _: True, contexts=app.state.contexts)

    async with as_caller(knowledge, principal(Scope.CAPTURE), app.state.contexts) as client:
        for _ in range(FAILURE_THRESHOLD):
            assert "scope query" in await refused(client, "build_context", **asked)
    assert app.state.contexts.count_open() == 0, "what a key is refused is no failure"
    async with Client(make_server(find)) as client:
        calls = []
        for _ in range(FAILURE_THRESHOLD + 2):
            context = await done(client, "build_context", **asked)
            assert context["degraded"].startswith("found by words alone")
            calls.append(embedder.calls)
    assert [after - before for before, after in itertools.pairwise(calls)] == [1] * (FAILURE_THRESHOLD - 1) + [0] * 2
    assert app.state.contexts.count_open() == 1


@pytest.mark.long
async def test_an_outcome_is_kept_though_nothing_of_its_pattern_is_live_any_more(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """It was kept, and then the tool failed: whoever called it told it once more, or not at all."""
    await knowledge.capture.capture(failure())
    await knowledge.checkpoints.process_all()
    context = await handed_out(knowledge, "second")
    clock.move(timedelta(days=800))
    told = {"context_id": str(context.context_id), "pattern_id": str(context.patterns[0].pattern_id), "worked": False}
    async with as_caller(knowledge, principal(Scope.QUERY)) as client:
        kept = await done(client, "record_outcome", **told)
    assert kept == {"success_count": None, "attempt_count": None}
    async with http_of(knowledge) as http:
        assert (await http.post("/v1/outcomes", json=told)).status_code == 204


@pytest.mark.long
async def test_the_events_of_an_orchestrator_are_tools_and_its_gates_can_be_asked_about(knowledge: Knowledge) -> None:
    task = {"project_id": "web-shop", "task_id": "T-9"}
    gate = {**task, "gate_type": "design_review"}
    async with as_caller(knowledge, principal(Scope.CAPTURE, Scope.QUERY)) as client:
        failed = await done(client, "task_failed", **task, agent_type="backend", failure_description=SITUATION)
        solved = await done(client, "task_solved", **task, solution_steps="Treat None as zero", verified_by="pytest")
        assert solved["entry_ids"] == failed["entry_ids"]
        await done(client, "gate_decided", **gate, accepted=False, proposal="Rename it", human_feedback="No plan")
        await done(client, "gate_decided", **gate, accepted=True, proposal="Expand, then contract")
        await done(client, "checkpoint", project_id="web-shop")
        [pattern] = (await done(client, "query_for_failure", failure_description=SITUATION))["patterns"]
        assert pattern["solution"] == "Treat None as zero"
        asked = {"gate_type": "design_review", "proposal": "Rename it"}
        [decided] = (await done(client, "query_for_gate", **asked))["patterns"]
        assert decided["solution"] == "Expand, then contract"
        assert "accepted" in await refused(client, "gate_decided", **gate | {"accepted": "yes", "proposal": "x"})


AGENT = {"capture", "resolve"}
ORCHESTRATOR = {
    "query_for_task", "query_for_failure", "query_for_gate", "build_context", "checkpoint", "record_outcome",
    "record_unaided", "list_unresolved",
}  # fmt: skip
DOCUMENTS = {"answer_from_case_evidence", "answer_from_user_kb", "answer_from_global_kb", "answer_from_team_kb"}


@pytest.mark.parametrize(
    ("scopes", "shown"),
    [
        ([Scope.CAPTURE], AGENT),
        ([Scope.QUERY], ORCHESTRATOR),
        ([Scope.CAPTURE, Scope.QUERY], set(TOOLS) - DOCUMENTS),
        ([Scope.DOCUMENTS], DOCUMENTS),
        ([Scope.CAPTURE, Scope.DOCUMENTS], AGENT | DOCUMENTS),
        ([Scope.REVIEW], set()),
        ([Scope.ADMIN], set(TOOLS)),
    ],
)
async def test_t6_a_key_is_shown_the_tools_it_may_use_and_refused_the_others_if_it_calls_them(
    knowledge: Knowledge, scopes: list[Scope], shown: set[str]
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "capture": entry(),
        "resolve": {"entry_id": "0" * 32, "solution_steps": "x", "verified_by": "y"},
        "list_unresolved": {},
        "query_for_task": {"task_description": SITUATION},
        "query_for_failure": {"failure_description": SITUATION},
        "query_for_gate": {"gate_type": "design_review", "proposal": "Rename the table"},
        "build_context": {"task_description": SITUATION, "agent_type": "backend"},
        "checkpoint": {"project_id": "web-shop"},
        "record_outcome": {"context_id": "0" * 32, "pattern_id": "0" * 32, "worked": True},
        "record_unaided": {"context_id": "0" * 32, "worked": True},
        "task_failed": {"project_id": "p", "task_id": "T", "agent_type": "a", "failure_description": SITUATION},
        "task_solved": {"project_id": "p", "task_id": "T"},
        "gate_decided": {"project_id": "p", "gate_type": "design_review", "accepted": True, "proposal": "x"},
        "answer_from_case_evidence": {"case_id": "7", "question": SITUATION},
        "answer_from_user_kb": {"user_id": "ann", "question": SITUATION},
        "answer_from_global_kb": {"question": SITUATION},
        "answer_from_team_kb": {"team_id": "x", "question": SITUATION},
    }
    async with as_caller(knowledge, principal(*scopes)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == shown
        for name in set(TOOLS) - shown:
            assert (await refused(client, name, **asked[name])).startswith("this takes a key of scope"), name
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("delete_everything", {})
        assert {name for name in TOOLS if re.search(rf"\b{name}\b", str(unknown.value))} == shown


@pytest.mark.long
async def test_a_caller_that_goes_in_the_middle_of_its_body_leaves_no_trace_in_the_log(
    knowledge: Knowledge, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever could reach `/mcp` wrote a trace into the log for each connection."""
    app = make_app(knowledge)
    with _listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
        async with serve_mcp(app), serve_on(app, listener, grace_seconds=5), asyncio.timeout(60):
            async with httpx.AsyncClient(base_url=f"http://localhost:{port}", timeout=60) as http:
                assert (await http.post("/mcp", content=b"{}", headers=HEADERS)).status_code == 400, "it is loaded"
            for _ in range(3):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"{head}Accept: application/json, text/event-stream\r\n\r\n{{".encode())
                await asyncio.sleep(0.3)
                writer.close()
                await writer.wait_closed()
            await asyncio.sleep(0.3)
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}]


@pytest.mark.long
async def test_t6_t22_over_http_a_key_made_here_opens_what_it_may_and_no_other_token_anything(
    knowledge: Knowledge,
) -> None:
    made = await knowledge.keys.create([Scope.CAPTURE], workspace="default")
    ended = await knowledge.keys.create([Scope.ADMIN], workspace=None)
    await knowledge.keys.revoke(ended.key.key_id)
    app = make_app(knowledge, auth=auth_of(knowledge))
    async with serve_mcp(app), http_of(app) as http:

        async def ask(token: str, method: str, **more: Any) -> httpx.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": more.pop("params", {})}
            return await http.post("/mcp", json=body, headers={**HEADERS, "Authorization": f"Bearer {token}", **more})

        listed = (await ask(made.secret, "tools/list")).json()["result"]["tools"]
        assert {tool["name"] for tool in listed} == AGENT
        assert (await http.post("/mcp/", json={})).status_code == 401, "as many configurations have it: the same door"
        captured = {"name": "capture", "arguments": entry()}
        assert not (await ask(made.secret, "tools/call", params=captured)).json()["result"].get("isError")
        asked = {"name": "query_for_failure", "arguments": {"failure_description": SITUATION}}
        told = (await ask(made.secret, "tools/call", params=asked)).json()["result"]
        assert told["isError"]
        assert told["content"][0]["text"].startswith("this takes a key of scope")
        elsewhere = {"Hardwon-Workspace": "another"}
        refused = (await ask(made.secret, "tools/call", params=captured, **elsewhere)).json()
        assert "this key belongs to another workspace" in refused["error"]["message"]
        changed = made.secret[:-1] + ("A" if made.secret[-1] != "A" else "B")
        for token in (ended.secret, changed, "eyJhbGciOiJub25lIn0.eyJhdWQiOiJhbm90aGVyLXNlcnZlciJ9."):
            answer = await ask(token, "tools/list")
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.timeout(240)
async def test_what_is_valid_elsewhere_is_not_too_large_for_mcp(knowledge: Knowledge) -> None:
    """A body of more than 256 KiB was refused: five texts of 62 KB, which the API takes."""
    long = "x " * 31_000
    texts = ("failure_description", "error_message", "solution_steps", "task_description", "when_to_try")
    told = entry(**dict.fromkeys(texts, long))
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "capture", "arguments": told}}
    app = make_app(knowledge)
    async with serve_mcp(app), http_of(app) as client:
        answer = await client.post("/mcp", json=call, headers=HEADERS)
    assert answer.status_code == 200
    assert answer.json()["result"]["isError"] is False, answer.text[:500]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_t21_a_page_of_another_site_gets_no_answer_of_the_mcp_server(commands: Commands) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for key in (None, "k" * 40):
        with commands.serving(**({} if key is None else {"HARDWON_API_KEY": key})) as (_, url):  # type: ignore[arg-type]
            sent = {**HEADERS, **({"Authorization": f"Bearer {key}"} if key else {})}
            for origin in ("https://evil.example", "null", url.replace("127.0.0.1", "evil.example"), f"{url}0"):
                answer = httpx.post(f"{url}/mcp", json=body, headers={**sent, "Origin": origin})
                assert answer.status_code == 403, origin
            assert httpx.post(f"{url}/mcp", json=body, headers={**sent, "Origin": url}).status_code == 200


async def test_g18_clients_that_ask_for_a_stream_are_told_that_there_is_none_and_keep_nobody_waiting(
    opens: Opens,
) -> None:
    """G18. What listens with GET, as the protocol lets a client, would be at work as long as its client runs."""
    async with opens(max_concurrent=1, max_waiting=0) as knowledge:
        app = make_app(knowledge)
        async with serve_mcp(app), http_of(app) as http:
            for method in ("GET", "DELETE", "HEAD"):
                answer = await asyncio.wait_for(http.request(method, "/mcp", headers=HEADERS), 10)
                assert answer.status_code == 405
                assert answer.headers["Allow"] == "POST"
            assert (await http.get("/v1/stats")).status_code == 200


async def test_mcp_that_cannot_be_started_says_so_and_the_next_request_tries_again(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each later request waited for good, and each kept its place at work."""
    make = mcp_http._make_manager
    made: list[Any] = []

    @asynccontextmanager
    async def failing() -> AsyncIterator[None]:
        if made:
            raise RuntimeError("the SDK is another one")
        yield

    def fails_once() -> Any:
        manager = make()
        made.append(manager)
        if len(made) == 1:
            manager.run = failing
        return manager

    monkeypatch.setattr(mcp_http, "_make_manager", fails_once)
    app = make_app(knowledge)
    async with serve_mcp(app), http_of(app) as http:

        async def listed() -> httpx.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            return await asyncio.wait_for(http.post("/mcp", json=body, headers=HEADERS), 30)

        answers = await asyncio.gather(listed(), listed())
        assert [answer.status_code for answer in answers] == [503, 200]
        assert answers[0].json()["detail"].startswith("MCP cannot be started: the server's log")
        assert (await listed()).status_code == 200
    assert len(made) == 2


@pytest.mark.long
async def test_a_text_that_was_cut_in_the_middle_of_a_character_is_answered(commands: Commands) -> None:
    """What a program in JavaScript sends of a log that it cut; the other escapes come through as they are."""
    text = r"\\ud83d \"\ud83d\ude00\" \uDE00 \\\ud83d cut \ud83d"
    told = f'{{"entry_type":"failure_solution","project_id":"p","agent_type":"a","failure_description":"{text}"}}'
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}),
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"capture","arguments":{told}}}}}',
    ]
    with commands.start("mcp") as running:
        running.say("\n".join(lines))
        while (answer := json.loads(running.line())).get("id") != 1:
            pass
        entry_id = answer["result"]["structuredContent"]["entry_id"]
        stored = commands.owner("GET", f"/v1/entries/{entry_id}")["failure_description"]
        assert stored == '\\ud83d "\U0001f600" \ufffd \\\ufffd cut \ufffd'
        assert running.end() == (0, "", "")


@pytest.mark.long
def test_a_caller_that_reads_no_answer_any_more_ends_the_server_without_a_trace(commands: Commands) -> None:
    """As a host that was killed: its ends of both pipes are gone at once, while an answer is on its way."""
    begin = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}).encode() + b"\n"
    with on_pipes(commands) as (ran, stdin, stdout, stderr):
        _send(stdin, begin)
        assert stdout.readline()
        stdout.close()
        _send(stdin, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert [line for line in stderr.read().splitlines() if b"waiting for the owner" not in line] == []
        assert ran.wait(60) == 0
        stdin.close()


@contextmanager
def on_pipes(commands: Commands) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes], IO[bytes]]]:
    """Run the server on standard streams; give it with its input, its output and its errors."""
    pipe = subprocess.PIPE
    with subprocess.Popen([HARDWON, "mcp"], env=commands.environment(), stdin=pipe, stdout=pipe, stderr=pipe) as ran:
        assert ran.stdin is not None
        assert ran.stdout is not None
        assert ran.stderr is not None
        yield ran, ran.stdin, ran.stdout, ran.stderr


def _send(stream: IO[bytes], told: bytes) -> None:
    stream.write(told)
    stream.flush()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FUZZED = ["project_id", "agent_type", "facts", "worked", "case_id", "question", "k"]
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.just(1) | JSON,
        "method": st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "server/discover"]) | JSON,
        "params": JSON
        | st.fixed_dictionaries({"name": st.sampled_from(sorted(TOOLS)) | JSON, "arguments": JSON})
        | st.fixed_dictionaries(
            {
                "name": st.sampled_from(sorted(TOOLS)),
                "arguments": st.dictionaries(st.sampled_from(FUZZED), JSON),
            }
        ),
    },
)


@pytest.mark.long
async def test_fuzzed_calls_over_http_are_never_a_servers_error(knowledge: Knowledge) -> None:
    app: FastAPI = make_app(knowledge)
    async with serve_mcp(app), http_of(app, headers=HEADERS) as http:
        loop = asyncio.get_running_loop()

        async def ask(body: bytes, version: str) -> None:
            answer = await http.post("/mcp", content=body, headers={"MCP-Protocol-Version": version})
            assert answer.status_code < 500, answer.text
            assert "Traceback" not in answer.text
            if answer.content and "json" in answer.headers.get("content-type", ""):
                said = answer.json()
                assert "defect of its own" not in json.dumps(said), body

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            call=CALLS.map(lambda told: json.dumps(told).encode()) | st.binary(max_size=60),
            version=st.sampled_from(["2025-11-25", "2026-07-28", "2024-11-05", "nonsense"]),
        )
        def fuzz(call: bytes, version: str) -> None:
            asyncio.run_coroutine_threadsafe(ask(call, version), loop).result(60)

        await asyncio.to_thread(fuzz)


@pytest.mark.long
@pytest.mark.timeout(120)
def test_the_server_on_standard_streams_ends_with_its_input_and_with_ctrl_c(commands: Commands) -> None:
    with commands.start("mcp") as running:
        code, out, err = running.end()
        assert (code, out, err) == (0, "", "")
    with commands.start("mcp") as running:
        running.ask(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}))
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(30) == 0  # with its input still open


@pytest.mark.long
def test_the_server_ends_where_there_is_no_input_at_all(commands: Commands) -> None:
    """As in a container that was started without one: it owned the data directory and waited for good."""
    command, none = [str(HARDWON), "mcp"], subprocess.DEVNULL
    ran = subprocess.run(command, env=commands.environment(), stdin=none, capture_output=True, timeout=60, check=False)
    told = [line for line in ran.stderr.splitlines() if b"waiting for the owner" not in line]
    assert (ran.returncode, ran.stdout, told) == (0, b"", [])


@pytest.mark.long
def test_all_that_was_asked_is_answered_though_the_input_ends_at_once(commands: Commands) -> None:
    """As `printf ... | hardwon mcp` has it; the SDK drops what it is at when its input ends."""
    failed = {"entry_type": "failure_solution", "project_id": "p", "agent_type": "a", "failure_description": "It broke"}
    asked: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
        {"id": 2, "method": "tools/call", "params": {"name": "capture", "arguments": failed}},
        {"id": 3, "method": "no such method"},
        {"id": 4.5, "method": "ping"},  # no id that the SDK reads, and none that it answers
        {"id": "last", "method": "ping"},
    ]
    ran = commands.run("mcp", told="\n".join(json.dumps({"jsonrpc": "2.0", **each}) for each in asked))
    answered = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}
    assert (ran.returncode, ran.stderr) == (0, "")
    assert set(answered) == {0, 1, 2, 3, "last"}
    assert "entry_id" in answered[2]["result"]["structuredContent"]
    assert answered[3]["error"]["code"] == -32601


def test_without_the_extra_the_command_says_what_to_install(commands: Commands, tmp_path: Path) -> None:
    script = (
        "import sys, importlib.util as u; real = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'mcp' else real(name, *a);"
        "sys.argv = ['hardwon', 'mcp'];"
        "from orchestrator.cli.commands.root import main; main()"
    )
    ran = commands.python(script)
    assert ran.returncode == 1
    assert install_command("mcp") in ran.stderr
