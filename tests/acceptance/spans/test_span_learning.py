"""Spans that a real exporter sends to the real server are learned once their trace has ended, as who sent them."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode

from hardwon.client.transport import REPORTER_HEADER
from hardwon.integrations.otel import HardwonSpanProcessor
from hardwon.models.access import EntryFilter
from knowledge.models import EntryType
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.http.openapi.document import ANSWERS, REQUESTS
from orchestrator.importers.sessions.spans import spool as spools
from orchestrator.server.span_learning import SpanLearning
from tests.support.clients import auth_of, http_of
from tests.support.processes import Commands
from tests.unit.orchestrator.sessions.span_requests import (
    CHANGE,
    CHECK,
    ERROR,
    FAIL,
    PASS,
    RUN,
    agent,
    as_protobuf,
    request,
    span,
    tool,
)

PROTOBUF = {"Content-Type": "application/x-protobuf"}
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def run_agent(provider: TracerProvider) -> None:
    """Do what an instrumented agent does: an agent's span, a request to a model, and three calls of tools."""
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent dev", attributes={"gen_ai.operation.name": "invoke_agent"}):
        prompt = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "THE PROMPT"}
        with tracer.start_as_current_span("chat", attributes=prompt):
            pass
        for number, (name, arguments, result) in enumerate(
            [
                ("run_tests", CHECK, ERROR),
                ("edit_file", {"path": "cart.py", "old_string": "price", "new_string": "price or 0"}, "edited"),
                ("run_tests", CHECK, "1 passed"),
            ]
        ):
            values = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": f"call_{number}",
                "gen_ai.tool.call.arguments": json.dumps(arguments),
                "gen_ai.tool.call.result": result,
            }
            with tracer.start_as_current_span(f"execute_tool {name}", attributes=values) as called:
                if result == ERROR:
                    called.set_status(Status(StatusCode.ERROR))


@pytest.fixture
def learning(knowledge: Knowledge) -> SpanLearning:
    return SpanLearning(knowledge=knowledge, home=knowledge.settings.home)


@pytest.fixture
async def keyed(knowledge: Knowledge) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server with keys."""
    async with http_of(make_app(knowledge, auth=auth_of(knowledge))) as client:
        yield client


async def entries(knowledge: Knowledge) -> list[Any]:
    await knowledge.checkpoints.process_all()
    lines = b"".join([piece async for piece in knowledge.archives.export_entries(knowledge.workspace)])
    return [json.loads(line) for line in lines.splitlines()]


def files(knowledge: Knowledge) -> list[Path]:
    return sorted(Path(knowledge.settings.home).glob("spans/*/*.jsonl"))


@pytest.mark.long
@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_real_exporter_s_spans_are_learned_when_the_trace_has_ended(
    commands: Commands, compression: Compression
) -> None:
    with commands.serving() as (_, url):
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", compression=compression)
        provider = TracerProvider(resource=Resource({"service.name": "web-shop"}))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        run_agent(provider)
        provider.shutdown()
        with httpx.Client(base_url=url) as client:
            for _ in range(300):
                if client.get("/v1/stats").json()["entries"]:
                    break
                time.sleep(0.1)
            assert client.get("/v1/stats").json()["entries"] == {"staged": 1}


@pytest.mark.long
async def test_what_a_run_teaches_is_of_low_trust_redacted_and_learned_once(
    knowledge: Knowledge, http: httpx.AsyncClient, learning: SpanLearning
) -> None:
    leak = tool(1, "run_tests", CHECK, f"{ERROR}\ntoken: {SECRET}", is_error=True)
    body = as_protobuf(request(leak, CHANGE, PASS, agent()))
    for _ in range(2):
        answer = await http.post("/v1/traces", content=body, headers=PROTOBUF)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
        assert not ExportTraceServiceResponse.FromString(answer.content).HasField("partial_success")
    (file,) = files(knowledge)
    assert SECRET not in file.read_text("utf-8")
    assert file.stat().st_mode & 0o077 == 0
    assert await learning.learn_pending() == 1
    assert await learning.learn_pending() == 0
    assert await SpanLearning(knowledge=knowledge, home=knowledge.settings.home).learn_pending() == 0
    (entry,) = await entries(knowledge)
    assert entry["entry_type"] == EntryType.FAILURE_SOLUTION
    assert entry["project_id"] == "web-shop"
    assert entry["success_verified"] is True
    assert entry["verified_by"] == "run_tests path=test_cart.py"
    assert "(item['price'] or 0)" in entry["solution_steps"]
    assert SECRET not in json.dumps(entry)


@pytest.mark.long
async def test_steps_wait_for_the_end_of_the_trace_which_comes_in_several_requests(
    knowledge: Knowledge, http: httpx.AsyncClient, learning: SpanLearning, monkeypatch: pytest.MonkeyPatch
) -> None:
    for told in (FAIL, CHANGE, PASS):
        answer = await http.post("/v1/traces", json=request(told))
        assert (answer.status_code, answer.json()) == (200, {})
        assert await learning.learn_pending() == 0
    await http.post("/v1/traces", json=request(agent()))
    assert await learning.learn_pending() == 1
    monkeypatch.setattr(spools, "QUIET_SECONDS", 0.0)
    other = [told | {"traceId": "2" * 32} for told in (FAIL, CHANGE, PASS)]
    await http.post("/v1/traces", json=request(*other))
    assert await learning.learn_pending() == 1, "its program was killed"


async def test_spans_without_a_tool_and_prompts_leave_nothing_behind(
    knowledge: Knowledge, http: httpx.AsyncClient
) -> None:
    chat = span(5, {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "THE PROMPT"})
    assert (await http.post("/v1/traces", json=request(chat))).json() == {}
    assert files(knowledge) == []
    await http.post("/v1/traces", json=request(*RUN, chat))
    assert "THE PROMPT" not in files(knowledge)[0].read_text("utf-8")


@pytest.mark.long
async def test_the_example_of_the_api_s_document_is_taken(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/traces", json=REQUESTS["export_traces"])
    assert (answer.status_code, answer.json()) == (200, {})
    ParseDict(ANSWERS["export_traces"], ExportTraceServiceResponse())


@pytest.mark.long
async def test_spans_that_are_not_kept_are_told(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await http.post("/v1/traces", json=request(FAIL | {"traceId": "12"}, PASS))
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert "trace id" in answer.json()["partialSuccess"]["errorMessage"]
    for name in ("MAX_TRACE_BYTES", "MAX_CALLER_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(spools, name, 10)
            answer = await http.post("/v1/traces", content=as_protobuf(request(*RUN)), headers=PROTOBUF)
            told = ExportTraceServiceResponse.FromString(answer.content).partial_success
            assert (answer.status_code, told.rejected_spans) == (200, 3)
            assert "MiB of a" in told.error_message
    monkeypatch.setattr(spools, "MAX_CALLER_TRACES", 1)
    answer = await http.post("/v1/traces", json=request(FAIL | {"traceId": "3" * 32}))
    assert "1 traces of a caller" in answer.json()["partialSuccess"]["errorMessage"]


@pytest.mark.long
async def test_a_caller_of_many_names_does_not_fill_the_disk(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "MAX_CALLERS", 2)
    for name in ("one", "two", "three", "one"):
        answer = await http.post("/v1/traces", json=request(FAIL), headers={REPORTER_HEADER: name})
        told = answer.json().get("partialSuccess", {}).get("errorMessage", "")
        assert ("2 callers" in told) is (name == "three"), told
    monkeypatch.setattr(spools, "MAX_BYTES", 10)
    answer = await http.post("/v1/traces", json=request(FAIL), headers={REPORTER_HEADER: "one"})
    assert "of all callers" in answer.json()["partialSuccess"]["errorMessage"]


def ends(content: bytes) -> Iterator[bytes]:
    """Yield a body that was cut off at some places."""
    yield from (content[:at] for at in range(1, len(content), 97))


@pytest.mark.long
async def test_bad_bodies_get_a_sentence(http: httpx.AsyncClient) -> None:
    good = as_protobuf(request(*RUN))
    deep = b'{"resourceSpans":' + b"[" * 100_000
    nested: Any = {"stringValue": "x"}
    for _ in range(150):
        nested = {"arrayValue": {"values": [nested]}}
    tall = json.dumps(request(FAIL | {"attributes": [{"key": "error.type", "value": nested}]})).encode()
    json_type = {"Content-Type": "application/json"}
    cases: list[tuple[bytes, dict[str, str], int]] = [
        (b"not protobuf", PROTOBUF, 400),
        (os.urandom(1000), PROTOBUF, 400),
        (b"{", json_type, 400),
        (b"[]", json_type, 400),
        (b'{"resourceSpans": 5}', json_type, 400),
        (deep, json_type, 400),
        (tall, json_type, 400),
        (json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{}] * 10_001}]}]}).encode(), json_type, 400),
        (good, {"Content-Type": "text/plain"}, 415),
        (good, {}, 415),
        (good, {**PROTOBUF, "Content-Encoding": "br"}, 415),
        (good, {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(good)[:-9], {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(bytes(200 * 1024 * 1024)), {**PROTOBUF, "Content-Encoding": "gzip"}, 413),
        (bytes(5 * 1024 * 1024), PROTOBUF, 413),
    ]
    for content, headers, status in cases:
        answer = await http.post("/v1/traces", content=content, headers=headers)
        assert answer.status_code == status, (content[:30], headers, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
    for cut in ends(good):
        assert (await http.post("/v1/traces", content=cut, headers=PROTOBUF)).status_code in {200, 400}
    assert (await http.post("/v1/traces", content=b"", headers=PROTOBUF)).status_code == 200


@pytest.mark.long
async def test_each_key_has_its_own_traces_and_its_own_word(
    knowledge: Knowledge, keyed: httpx.AsyncClient, learning: SpanLearning
) -> None:
    mine = await knowledge.keys.create(["capture"], workspace="default")
    theirs = await knowledge.keys.create(["capture"], workspace="elsewhere")
    reader = await knowledge.keys.create(["query"], workspace="default")

    async def send(key: str, *spans: Any) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return (await keyed.post("/v1/traces", json=request(*spans), headers=headers)).status_code

    assert (await keyed.post("/v1/traces", json=request(*RUN))).status_code == 401
    assert await send(reader.secret, *RUN) == 403
    assert await send(mine.secret, FAIL) == 200
    assert await send(theirs.secret, CHANGE, PASS, agent()) == 200, "of the same trace, in a workspace of their own"
    assert len(files(knowledge)) == 2
    assert await learning.learn_pending() == 0
    assert await send(mine.secret, CHANGE, PASS, agent()) == 200
    assert await learning.learn_pending() == 1
    assert len(await entries(knowledge)) == 1
    revocation = await knowledge.revocations.revoke(EntryFilter(key_id=mine.key.key_id), dry_run=True)
    assert revocation.entries == 1, "it is the word of that key, whatever a trace is called"
    assert await entries(knowledge.in_workspace("elsewhere")) == []


@pytest.mark.long
async def test_a_revoked_key_teaches_nothing_more(
    knowledge: Knowledge, keyed: httpx.AsyncClient, learning: SpanLearning
) -> None:
    key = await knowledge.keys.create(["capture"], workspace="default")
    headers = {"Authorization": f"Bearer {key.secret}"}
    assert (await keyed.post("/v1/traces", json=request(*RUN), headers=headers)).status_code == 200
    await knowledge.keys.revoke(key.key.key_id)
    assert await learning.learn_pending() == 0
    assert files(knowledge) == []


async def test_files_are_removed_when_they_can_teach_nothing_more(
    knowledge: Knowledge, http: httpx.AsyncClient, learning: SpanLearning
) -> None:
    await http.post("/v1/traces", json=request(*RUN))
    assert await learning.learn_pending() == 1
    assert files(knowledge) == [], "it cannot go on"
    talk = [tool(4, "deploy", {}, "done", also={"gen_ai.conversation.id": "talk"}), agent()]
    await http.post("/v1/traces", json=request(*talk))
    assert await learning.learn_pending() == 0
    (file,) = files(knowledge)
    long_ago = time.time() - spools.KEPT_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    assert await learning.learn_pending() == 0
    assert files(knowledge) == []
    assert list((knowledge.settings.home / "spans").iterdir()) == []


@pytest.mark.long
def test_the_span_processor_sends_to_the_owner_of_the_data_directory(commands: Commands) -> None:
    with commands.serving():
        provider = TracerProvider(resource=Resource({"service.name": "web-shop"}))
        provider.add_span_processor(HardwonSpanProcessor(settings={"HARDWON_HOME": str(commands.home)}))
        run_agent(provider)
        provider.shutdown()
        (file,) = sorted(Path(commands.home).glob("spans/*/*.jsonl"))
        assert file.read_text("utf-8").count("execute_tool run_tests") == 2
        assert "THE PROMPT" not in file.read_text("utf-8")


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.long
@pytest.mark.parametrize("is_there", [False, True])
def test_the_span_processor_is_quick_and_silent_where_nobody_answers(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, silent_server: str, *, is_there: bool
) -> None:
    provider = TracerProvider()
    url = silent_server if is_there else "http://127.0.0.1:9"
    settings = {"HARDWON_API_URL": url, "HARDWON_HOME": str(tmp_path)}
    provider.add_span_processor(HardwonSpanProcessor(settings=settings))
    begun = time.process_time()
    for _ in range(300):
        run_agent(provider)
    spent = time.process_time() - begun
    begun = time.monotonic()
    provider.shutdown()
    assert time.monotonic() - begun < 10
    assert spent / 1500 < 0.005, "CPU seconds a span"
    assert capfd.readouterr() == ("", "")
