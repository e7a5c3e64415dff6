"""The HTTP API: its routes and problem details in process, and `hardwon serve` over TCP."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import re
import signal
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast, get_type_hints
from uuid import UUID, uuid4

import httpx
import pytest
from pydantic import SecretStr

from hardwon.client import transport as calls
from hardwon.client.transport import MAX_BATCH_BYTES, MAX_BODY_BYTES, MAX_TEXTS_BYTES
from hardwon.errors import (
    AccessDenied,
    EmbedderUnavailable,
    HardwonError,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    NotOpen,
    OwnerUnavailable,
    RejectionOnRecord,
)
from knowledge.models import Embeddings, EntryId, PatternId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.client import KnowledgeClient
from orchestrator.http import app as http_api
from orchestrator.http.app import make_app
from orchestrator.http.routes.entries import MAX_BATCH
from orchestrator.server.serve import _listen, run_service
from tests.conftest import TEMPLATE, Opens
from tests.support.cases import over
from tests.support.clients import client_of, http_of
from tests.support.embedders import HashingEmbedder
from tests.support.entries import capture, failure
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, drop_database, over_tcp, socket_of
from tests.support.processes import Commands, embedding_by, entry, free_port, until
from tests.support.relay import Relay, Wire

NOBODY = "00000000-0000-0000-0000-000000000000"
IN_PROCESS = {
    "keys.prune",
    "upkeep.refill",
    "upkeep.backfill",
    "store_upkeep.reembed",
    "store_upkeep.finish",
    "queries.weigh_failure",
    "queries.hint_for_task",
    "queries.hint_for_failure",
    "contexts.record",
    "contexts.find_open_failure",
    "deeds.perform_due",
    "reviews.approve_seen",
    "contexts.find_failed_patterns",
    "contexts.find_dead_ends",
    "maps.project",
}
"""What takes an open embedder, is called by other services or by the clock, or measures them."""
SITUATION = str(entry()["failure_description"])


@pytest.mark.long
async def test_the_loop_over_http_from_capture_to_deletion(http: httpx.AsyncClient) -> None:
    captured = await http.post("/v1/entries", json=entry(success_verified=False, solution_steps=None))
    assert captured.status_code == 201
    entry_id = captured.json()["entry_id"]
    resolved = await http.post(
        f"/v1/entries/{entry_id}/resolution", json={"solution_steps": "zero", "verified_by": "pytest"}
    )
    assert resolved.json() == {"entry_id": entry_id}
    assert (await http.get(f"/v1/entries/{entry_id}")).json()["status"] == "staged"

    done = await http.post("/v1/checkpoints", json={"project_id": "web-shop", "checkpoint_type": "phase_completion"})
    assert (done.status_code, done.json()["embedded"]) == (201, 1)
    assert (await http.get(f"/v1/checkpoints/{done.json()['checkpoint_id']}")).json() == done.json()

    failure = {"failure_description": SITUATION, "agent_type": "backend", "min_relevance": 0}
    (found,) = (await http.post("/v1/queries/failure", json=failure)).json()["patterns"]
    task = {"task_description": SITUATION, "min_relevance": 0}
    assert (await http.post("/v1/queries/task", json=task)).json()["patterns"][0]["pattern_id"] == found["pattern_id"]
    assert (await http.get(f"/v1/patterns/{found['pattern_id']}")).json() == found | {"relevance": 1.0}
    context = await http.post("/v1/contexts", json={"task": {"description": SITUATION}, "agent_type": "backend"})
    assert "- Solution: zero" in context.json()["text"]

    assert (await http.get("/v1/stats")).json()["entries"] == {"embedded": 1}
    assert (await http.get("/v1/workspaces")).json() == ["default"]
    assert (await http.post("/v1/prune", params={"dry_run": True})).json()["entries"] == 0
    assert (await http.post("/v1/sweeps", json={"staged_for_seconds": 60})).json() == []
    once = {"once_per_slot": True}
    assert (await http.post("/v1/jobs/prune", params=once)).json() == {"dealt_with": 0}
    assert (await http.post("/v1/jobs/prune", params=once)).json() == {"dealt_with": None}
    assert (await http.post("/v1/jobs/prune")).json() == {"dealt_with": 0}, "now, whoever ran it"
    assert (await http.get("/healthz")).json() == (await http.get("/readyz")).json() == {"status": "ok"}
    for path in ("/healthz", "/readyz"):
        looked = await http.head(path)  # as `wget --spider` and balancers look
        assert (looked.status_code, looked.content) == (200, b"")

    assert (await http.delete(f"/v1/entries/{entry_id}")).status_code == 204
    assert (await http.get(f"/v1/entries/{entry_id}")).status_code == 404
    assert (await http.get(f"/v1/patterns/{found['pattern_id']}")).status_code == 404


@pytest.mark.parametrize("path", ["/metrics?module=http", "/v1/stats?_=1", "/v1/patterns?limit=1&_=1"])
async def test_who_only_reads_may_tell_what_nobody_reads(http: httpx.AsyncClient, path: str) -> None:
    """Scrapers with parameters and what gets round caches put theirs on every address."""
    assert (await http.get(path)).status_code == 200


async def test_a_body_that_tells_nothing_is_no_error(http: httpx.AsyncClient) -> None:
    empty: dict[str, Any] = {"content": b"{}"}
    for told in (empty, {}):
        answer = await http.post("/v1/prune", headers={"Content-Type": "application/json"}, **told)
        assert answer.json()["entries"] == 0, answer.text


@over(
    "method, path, body, expected",
    [
        ("POST", "/v1/entries", {"entry_type": "failure_solution"}, (422, "project_id")),
        ("POST", "/v1/entries", entry(failure_description="a\0"), (422, "failure_description")),
        ("POST", "/v1/entries", entry(failure_description="a\ud800"), (422, "failure_description")),
        ("POST", "/v1/entries", entry(unheard_of=1), (422, "unheard_of")),
        ("POST", "/v1/entries", entry(workspace="another"), (422, "workspace")),
        ("POST", "/v1/entries", [], (422, "body")),
        ("POST", "/v1/entries", b"{", (422, "body")),
        ("POST", "/v1/entries", b"[" * 100_000 + b"]" * 100_000, (422, "body")),
        ("POST", "/v1/entries:batch", {"entries": [{}] * (MAX_BATCH + 1)}, (422, "entries")),
        ("POST", f"/v1/entries/{NOBODY}/resolution", {}, (422, "solution_steps")),
        ("POST", f"/v1/entries/{NOBODY}/resolution", {"revision_approach": "x"}, (404, None)),
        ("GET", "/v1/entries/none", None, (422, "entry_id")),
        ("GET", f"/v1/entries/{NOBODY}", None, (404, None)),
        ("DELETE", f"/v1/entries/{NOBODY}", None, (404, None)),
        ("POST", "/v1/checkpoints", {"project_id": "p", "checkpoint_type": "x"}, (422, "checkpoint_type")),
        ("POST", "/v1/checkpoints", {"checkpoint_type": "cancellation"}, (422, "project_id")),
        ("GET", f"/v1/checkpoints/{NOBODY}", None, (404, None)),
        ("POST", "/v1/sweeps", {"staged_for_seconds": -1}, (422, "staged_for_seconds")),
        ("POST", "/v1/queries/task", {}, (422, "task_description")),
        ("POST", "/v1/queries/task", {"task_description": "x", "max_results": 0}, (422, "max_results")),
        ("POST", "/v1/queries/failure", b'{"failure_description":"x","min_relevance":NaN}', (422, "min_relevance")),
        ("POST", "/v1/queries/gate", {"gate_type": "x" * 51, "proposal": "x"}, (422, "gate_type")),
        ("POST", "/v1/queries/gate", {"gate_type": "x", "proposal": "x", "project_id": "\0"}, (422, "project_id")),
        ("POST", "/v1/contexts", {"task": {"description": "x", "poem": 1}, "agent_type": "a"}, (422, "task.poem")),
        ("GET", f"/v1/patterns/{NOBODY}", None, (404, None)),
        ("DELETE", f"/v1/patterns/{NOBODY}", None, (404, None)),
        ("POST", "/v1/prune?dry_run=perhaps", None, (422, "dry_run")),
        ("POST", "/v1/prune?dry-run=true", None, (422, "dry-run")),
        ("POST", "/v1/prune", {"dry_run": True}, (422, "dry_run")),
        ("POST", "/v1/prune", b"dry_run=true", (422, "body")),
        ("POST", "/v1/rebuild?dryrun=1", None, (422, "dryrun")),
        ("POST", "/v1/verify", {"repair": True}, (422, "repair")),
        ("POST", "/v1/entries?workspace=another", entry(), (422, "workspace")),
        ("DELETE", f"/v1/entries/{NOBODY}?%ED%A0%80=1", None, (422, "\ufffd\ufffd\ufffd")),
        ("DELETE", f"/v1/entries/{NOBODY}", {"dry_run": True}, (422, "dry_run")),
        ("POST", "/v1/jobs/none", None, (422, "job")),
        ("GET", "/v1/nothing", None, (404, None)),
        ("GET", "/v1/stats/", None, (404, None)),
        ("POST", "/v1/entries/", entry(), (404, None)),
        ("PUT", "/v1/stats", None, (405, None)),
    ],
)
async def test_what_is_wrong_comes_back_as_problem_details_that_name_it(
    http: httpx.AsyncClient, method: str, path: str, body: object, expected: tuple[int, str | None]
) -> None:
    """D46 among others: a NUL is the caller's error, no failure of ours."""
    status, field = expected
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    answer = await http.request(method, path, content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    told = answer.json()
    assert told["status"] == status
    assert told["type"] == "about:blank"
    assert told["title"]
    assert told["detail"]
    assert told.get("field") == field
    assert answer.headers["x-request-id"] == told["request_id"]


@over("chunked", [False, True])
@over(
    "path, most",
    [
        ("/v1/outcomes", MAX_BODY_BYTES),
        ("/v1/entries", MAX_TEXTS_BYTES),
        (f"/v1/entries/{UUID(int=1)}/resolution", MAX_TEXTS_BYTES),
        ("/v1/tasks:failed", MAX_TEXTS_BYTES),
        ("/v1/contexts", MAX_TEXTS_BYTES),
        ("/v1/queries/failure", MAX_TEXTS_BYTES),
        ("/v1/entries:batch", MAX_BATCH_BYTES),
    ],
)
async def test_a_body_that_is_too_large_is_413_however_it_is_sent(
    http: httpx.AsyncClient, path: str, most: int, *, chunked: bool
) -> None:
    """T13: the declared length is looked at, and what comes is counted."""
    read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(2 * most // 65_536):
            read += 65_536
            yield b" " * 65_536

    headers = {"Content-Type": "application/json"}
    if not chunked:
        headers["Content-Length"] = str(2 * most)
    answer = await http.post(path, content=pieces(), headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (413, "body")
    assert answer.headers["content-type"] == "application/problem+json"
    if chunked:
        assert read <= most + 2 * 65_536


async def test_a_batch_answers_each_entry_in_order(http: httpx.AsyncClient) -> None:
    rows: list[object] = [entry(), 7, entry(unheard_of=1), {"un\ud800heard": 1}, entry(), entry(failure_description="")]
    content = json.dumps({"entries": rows}).encode()
    answer = await http.post("/v1/entries:batch", content=content, headers={"Content-Type": "application/json"})
    told = answer.json()["answers"]
    assert [each["outcome"] for each in told] == ["accepted", "refused", "refused", "refused", "duplicate", "refused"]
    assert [told[1]["field"], told[2]["field"], told[5]["field"]] == ["entry", "unheard_of", "failure_description"]
    assert told[4]["entry_id"] == told[0]["entry_id"]
    full = await http.post("/v1/entries:batch", json={"entries": [{}] * MAX_BATCH})
    assert (full.status_code, len(full.json()["answers"])) == (200, MAX_BATCH)


async def test_the_workspace_header_says_whose_it_is(http: httpx.AsyncClient) -> None:
    for workspace in ("other", "Gr%C3%B6%C3%9Fe", "Größe"):
        header = {"Hardwon-Workspace": workspace.encode()}
        await http.post("/v1/entries", json=entry(), headers=cast("dict[str, str]", header))
    assert (await http.get("/v1/workspaces")).json() == ["Größe", "other"]
    assert (await http.get("/v1/stats")).json()["entries"] == {}
    for named in (b" ", b"%FF", b"x" * 201):
        refused = await http.get("/v1/stats", headers={b"Hardwon-Workspace": named})
        assert (refused.status_code, refused.json()["field"]) == (422, "workspace")


async def test_a_defect_of_ours_is_told_without_its_trace(http: httpx.AsyncClient) -> None:
    cast("Any", http)._transport.app.state.knowledge = None
    answer = await http.get("/v1/stats")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert set(answer.json()) == {"type", "title", "status", "detail", "request_id"}
    assert answer.headers["x-request-id"] == answer.json()["request_id"]


@pytest.mark.long
async def test_a_probe_takes_a_process_out_of_use_whose_store_changed_to_another_model(
    http: httpx.AsyncClient, knowledge: Knowledge
) -> None:
    """Another process changed it: all queries here fail from then on."""
    await http.post("/v1/entries", json=entry())
    await http.post("/v1/checkpoints", json={})
    await knowledge.store_upkeep.reembed(HashingEmbedder(model="another"), force=True)
    assert (await http.get("/readyz")).status_code == 200, "this one changed it"
    left = replace(knowledge, stores=replace(knowledge.stores, embedder=HashingEmbedder()))
    async with http_of(left) as other:
        answer = await other.get("/readyz")
    assert (answer.status_code, answer.json()["title"]) == (503, "IndexUnavailable")
    assert "another embedding model" in answer.json()["detail"]


@pytest.mark.long
async def test_a_probe_says_that_the_index_lost_its_collection_and_makes_none_and_counts_nothing(
    http: httpx.AsyncClient, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made an empty one and said that all was well: queries found nothing from then on, and no longer said why."""
    assert (await http.get("/readyz")).status_code == 200, "nothing was ever embedded"
    await http.post("/v1/entries", json=entry())
    await http.post("/v1/checkpoints", json={})
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    with monkeypatch.context() as counting:
        counting.setattr(type(knowledge.stores.checkpoints), "stats", None)  # a scan of all vectors, without a key
        assert (await http.get("/readyz")).status_code == 200
    await knowledge.stores.index.drop(bound.space)
    for _ in range(2):
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["title"]) == (503, "IndexUnavailable")
        assert answer.json()["detail"].endswith("`hardwon rebuild` creates it again")
        assert (await http.get("/v1/stats")).json()["points"] is None
    assert (await http.post("/v1/rebuild")).status_code == 200
    assert (await http.get("/readyz")).status_code == 200
    assert (await http.get("/v1/stats")).json()["points"] > 0


async def test_a_server_whose_postgres_takes_no_changes_says_that_it_is_not_ready(
    settings: KnowledgeSettings, database_url: str
) -> None:
    """A standby answers every question of a probe: balancers sent it captures, each of which failed."""
    read_only = settings.model_copy(
        update={"database_url": SecretStr(f"{database_url}&default_transaction_read_only=on")}
    )
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)):
        pass  # the schema is there, as on a copy
    async with open_knowledge(read_only, embedder=HashingEmbedder(dims=64)) as knowledge, http_of(knowledge) as http:
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["title"]) == (503, "StorageUnavailable")
        assert "takes no changes" in answer.json()["detail"]
        assert (await http.get("/v1/stats")).status_code == 200, "whoever only asks is answered"


@pytest.mark.long
async def test_a_server_whose_postgres_fell_silent_says_that_it_is_not_ready(
    settings: KnowledgeSettings, postgres_dsn: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each probe waited for good and kept a connection of the pool, until there were none for anybody."""
    monkeypatch.setattr(http_api, "READY_SECONDS", 0.3)
    with Relay(str(socket_of(postgres_dsn))) as relay:
        over_wire = settings.model_copy(update={"database_url": SecretStr(over_tcp(database_url, relay.port))})
        embedder = HashingEmbedder(dims=64)
        async with open_knowledge(over_wire, embedder=embedder) as knowledge, http_of(knowledge) as http:
            assert (await http.get("/readyz")).status_code == 200
            relay.be(Wire.HANG)
            answer = await asyncio.wait_for(http.get("/readyz"), 10)
            assert (answer.status_code, answer.json()["title"]) == (503, "StorageUnavailable")
            assert "have not answered" in answer.json()["detail"]
            relay.be(Wire.SOUND)
            async with asyncio.timeout(30):
                while (await http.get("/readyz")).status_code != httpx.codes.OK:  # noqa: ASYNC110 - polled
                    await asyncio.sleep(0.05)


def plain_signature(method: Callable[..., Any]) -> inspect.Signature:
    """Return a signature whose types lack what rows of the table of operations say beside them."""
    hints = get_type_hints(method)
    signature = inspect.signature(method)
    parameters = [each.replace(annotation=hints.get(each.name)) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=hints["return"])


def test_the_client_has_the_same_services_with_the_same_methods_and_arguments() -> None:
    client = KnowledgeClient("http://hardwon")
    compared = 0
    for service, kind in inspect.get_annotations(Knowledge, eval_str=True).items():
        there = getattr(client, service, None)
        if there is None or service in {"settings", "workspace"}:
            continue
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and f"{service}.{name}" not in IN_PROCESS:
                ours, theirs = plain_signature(method), plain_signature(getattr(type(there), name))
                assert [*theirs.parameters.values()][1:] == [*ours.parameters.values()][1:], f"{service}.{name}"
                assert theirs.return_annotation == ours.return_annotation, f"{service}.{name}"
                compared += 1
    assert {"capture", "checkpoints", "queries", "outcomes", "pruning", "upkeep", "store_upkeep"} <= set(vars(client))
    assert compared >= 21
    for name in ("holds_anything", "stats", "workspaces", "in_workspace"):
        ours, theirs = (plain_signature(getattr(each, name)) for each in (Knowledge, KnowledgeClient))
        assert theirs.parameters == ours.parameters


@pytest.mark.long
async def test_the_client_raises_the_errors_of_the_services(knowledge: Knowledge, embedder: HashingEmbedder) -> None:
    remote = client_of(knowledge)
    nobody = EntryId(uuid4())
    told: dict[str, Any] = entry() | {"idempotency_key": "k"}
    told.pop("entry_type")
    first = await remote.capture.capture_failure_solution(**told)
    assert (await remote.capture.get(first)) == (await knowledge.capture.get(first))
    gate: dict[str, Any] = {"project_id": "p", "gate_type": "review", "human_feedback": "no"}
    await remote.capture.capture_gate_rejection(**gate)

    async def raises(kind: type[HardwonError], call: str, *arguments: Any, **named: Any) -> None:
        """Assert that the same call raises the same error, with the same words, over HTTP and in process."""
        service, _, method = call.partition(".")
        said = []
        for opened in (remote, knowledge):
            with pytest.raises(HardwonError) as caught:
                await getattr(getattr(opened, service), method)(*arguments, **named)
            assert type(caught.value) is kind, call
            said.append(str(caught.value))
        assert said[0] == said[1]

    await raises(IdempotencyConflict, "capture.capture_failure_solution", **told | {"solution_steps": "another"})
    await raises(InvalidInput, "capture.capture_failure_solution", **told | {"failure_description": "\ud800"})
    await raises(InvalidInput, "capture.capture_failure_solution", **told | {"project_id": ""})
    approval = {"project_id": "p", "gate_type": "review", "approved_approach": "small steps"}
    await raises(RejectionOnRecord, "capture.capture_gate_approval", **approval)
    await raises(NotFound, "capture.get", nobody)
    await raises(NotFound, "capture.delete", nobody)
    await raises(NotFound, "queries.get", PatternId(nobody))
    await raises(NotOpen, "capture.resolve_failure", first, solution_steps="x", verified_by="y")
    await raises(InvalidInput, "capture.resolve_failure", first, solution_steps="", verified_by="y")
    await raises(InvalidInput, "checkpoints.process_checkpoint", "p", "nonsense")
    await raises(InvalidInput, "queries.query_for_task", " ")
    await raises(InvalidInput, "queries.query_for_failure", "x", max_results=101)
    embedder.unavailable = "the endpoint is closed"
    await raises(EmbedderUnavailable, "checkpoints.process_all")
    await remote.aclose()


class Unhurried(HashingEmbedder):
    """Takes a moment for each call, so that there is time to ask how far it is."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        await asyncio.sleep(0.1)
        return await super().embed(texts, kind)


@pytest.mark.long
async def test_progress_over_http_is_that_of_the_checkpoint_and_not_of_other_projects(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "WATCH_SECONDS", 0.01)
    async with opens(embedder=Unhurried(), checkpoint_batch=1) as opened:
        transport = httpx.ASGITransport(app=make_app(opened))
        told = [failure(task_id=f"T-{n}", failure_description=f"failure of part {n}") for n in range(3)]
        await capture(opened, *told, *(replace(each, project_id="another") for each in told))
        seen: list[tuple[int, int | None]] = []
        async with KnowledgeClient("http://hardwon", transport=transport, settings=opened.settings) as client:
            await client.checkpoints.process_checkpoint(
                "web-shop", "manual", progress=lambda done, total: seen.append((done, total))
            )
    assert {total for _, total in seen} <= {None, 3}
    assert (2, 3) in seen
    assert seen == sorted(seen, key=lambda each: each[0])


@pytest.mark.parametrize("answer", [b"<html>welcome</html>", b'{"entries": "none"}', b""])
async def test_a_server_that_is_not_hardwon_is_named_so(answer: bytes) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=answer))
    async with KnowledgeClient("http://elsewhere", transport=transport) as client:
        with pytest.raises(OwnerUnavailable, match=r"http://elsewhere .* not as a hardwon server"):
            await client.stats()


@pytest.mark.parametrize(
    ("status", "said"),
    [(413, "rejects a request as large"), (502, "reaches no server"), (504, "may still be running there")],
)
async def test_what_a_proxy_says_by_itself_is_told_as_a_proxys(status: int, said: str) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=b"<html>nginx</html>"))
    async with KnowledgeClient("http://elsewhere", transport=transport) as client:
        with pytest.raises(OwnerUnavailable, match=said):
            await client.upkeep.verify()


async def test_a_server_of_an_older_release_is_named_so_where_it_lacks_what_is_asked(knowledge: Knowledge) -> None:
    app = make_app(knowledge)
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", "") != "/v1/unresolved"]
    async with KnowledgeClient("http://older", transport=httpx.ASGITransport(app=app)) as client:
        with pytest.raises(NotFound, match="nothing at /v1/unresolved: http://older is an older hardwon"):
            await client.capture.unresolved()
        with pytest.raises(NotFound, match="there is no entry") as caught:
            await client.capture.get(EntryId(uuid4()))
    assert "older" not in str(caught.value)


@pytest.mark.parametrize("path", ["/v1/entries", "/v1/entries:batch", "/v1/contexts"])
async def test_a_caller_that_goes_in_the_middle_of_its_body_is_no_defect(knowledge: Knowledge, path: str) -> None:
    """A killed client left a trace in the log of its owner."""
    told = [{"type": "http.request", "body": b'{"entry_type"', "more_body": True}, {"type": "http.disconnect"}]
    answered: list[Any] = []
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"900")]
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": path, "query_string": b"",
        "raw_path": path.encode(), "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip

    async def receive() -> Any:
        return told.pop(0)

    async def send(message: Any) -> None:
        answered.append(message)

    await make_app(knowledge)(scope, receive, send)
    assert [message["status"] for message in answered if "status" in message] == [499]


@pytest.fixture(scope="module")
def served(of_module: Commands) -> Iterator[str]:
    """The address of a server that wants a key."""
    with of_module.serving(HARDWON_API_KEY="sesame") as (_, url):
        yield url


@pytest.mark.long
def test_commands_go_to_the_server_that_the_settings_name(served: str, home: Path) -> None:
    elsewhere = Commands(home, {"HARDWON_API_URL": served, "HARDWON_API_KEY": "sesame"})
    assert elsewhere.here("stats", "--workspace", "far")["workspace"] == "far"
    assert elsewhere.here("doctor")["well"] is True
    with pytest.raises(AccessDenied, match="is not valid"):
        elsewhere.here("stats", HARDWON_API_KEY="no")
    with pytest.raises(OwnerUnavailable, match="HARDWON_API_URL"):
        elsewhere.here("stats", HARDWON_API_URL=f"http://127.0.0.1:{free_port()}")
    assert not list(home.iterdir()), "nothing is opened here"


def test_a_small_answer_is_not_held_back(served: str) -> None:
    """Nagle's algorithm would hold each back for 40 ms until the caller's delayed acknowledgement."""
    times = []
    with httpx.Client(base_url=served) as client:
        for _ in range(30):
            began = time.perf_counter()
            client.get("/healthz")
            times.append(time.perf_counter() - began)
    assert statistics.median(times) < 0.03


def test_serving_is_refused_in_one_sentence_where_it_cannot_be(of_module: Commands, served: str) -> None:
    taken = served.rpartition(":")[2]
    assert f"127.0.0.1:{taken} (Address already in use)" in of_module.refused("serve", "--port", taken)
    sentence = of_module.refused("serve", "--port", str(free_port()))
    assert re.search(r"in use by process \d+ \(hardwon serve --port", sentence), sentence
    assert str(of_module.home) in sentence


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("no such host", "not an address of this machine"),
        ("a" * 70, "not an address of this machine"),
        ("a\udcff", "not an address of this machine"),
        ("203.0.113.7", "not an address of this machine"),
    ],
)
def test_a_host_that_is_none_is_refused(host: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        _listen(host, free_port())
    assert refused.value.field == "--host"


@pytest.fixture(scope="module")
def without_a_key(postgres_dsn: str, of_module: Commands) -> Iterator[str]:
    """The address of a server without a key, on stores of its own."""
    with tempfile.TemporaryDirectory(prefix="hardwon-home-", ignore_cleanup_errors=True) as folder:
        dsn = asyncio.run(create_database(postgres_dsn, template=TEMPLATE))
        commands = Commands(Path(folder), {**of_module.settings, "HARDWON_DATABASE_URL": dsn})
        with commands.serving() as (_, url):
            yield url
        asyncio.run(drop_database(dsn))


@pytest.mark.long
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Host": "localhost.evil.example"},
        {"Host": "evil.example@127.0.0.1"},
        {"Host": "10.0.0.1:{port}"},
        {"Host": "[::2]:{port}"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Host": "localhost:{port}", "Origin": "http://evil.example"},
        {"Host": "localhost:{port}", "Origin": "http://evil.example:{port}"},
        {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"},
        {"Host": "127.0.0.1:{port}", "Origin": "http://localhost:{port}"},
        {"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:1"},
        {"Host": "127.0.0.1:{port}", "Origin": "https://127.0.0.1:{port}"},
        {"Host": "127.0.0.1:{port}", "Origin": "null"},
        {"Host": "127.0.0.1:{port}", "X-Forwarded-For": "203.0.113.9"},
        {"Host": "127.0.0.1:{port}", "Forwarded": "for=203.0.113.9"},
        {"Host": "127.0.0.1:{port}", "X-Real-IP": "203.0.113.9"},
        {"Host": "127.0.0.1:{port}", "Via": "1.1 proxy"},
    ],
    ids=str,
)
def test_no_page_of_another_site_reaches_a_server_without_a_key(without_a_key: str, headers: dict[str, str]) -> None:
    """T21: a page that posts to this machine, one whose name was made to resolve to it, and whom a proxy brings."""
    port = without_a_key.rpartition(":")[2]
    told = {name: value.format(port=port) for name, value in headers.items()}
    body = json.dumps(entry(project_id="of a page"))  # as a form may: no browser asks first
    for method, path in (("POST", "/v1/entries"), ("GET", "/v1/stats"), ("POST", "/v1/prune"), ("GET", "/nothing")):
        refused = httpx.request(
            method, without_a_key + path, content=body, headers={"Content-Type": "text/plain"} | told
        )
        assert (refused.status_code, refused.json()["title"]) == (403, "AccessDenied")
        assert refused.headers["content-type"] == "application/problem+json"
        assert "HARDWON_API_KEY" in refused.json()["detail"]
    assert httpx.get(f"{without_a_key}/v1/stats").json()["projects"] == 0


def test_a_key_of_another_store_is_told_so_by_a_server_without_keys(without_a_key: str) -> None:
    """A store that was moved has no keys: whoever had one went on with all rights, and nobody noticed."""
    key = f"Bearer hw_{'0' * 12}_{'a' * 43}"
    refused = httpx.get(f"{without_a_key}/v1/stats", headers={"Authorization": key})
    assert refused.status_code == 401
    assert "keys do not move with it" in refused.json()["detail"]
    assert httpx.get(f"{without_a_key}/v1/stats", headers={"Authorization": "Bearer word"}).status_code == 200


def test_whoever_is_on_this_machine_and_the_servers_own_pages_reach_it_without_a_key(without_a_key: str) -> None:
    port = without_a_key.rpartition(":")[2]
    for host in (
        f"127.0.0.1:{port}",
        f"localhost:{port}",
        f"LOCALHOST:{port}",
        f"[::1]:{port}",
        "localhost:1",
        "127.9.9.9",
    ):
        assert httpx.get(f"{without_a_key}/v1/stats", headers={"Host": host}).status_code == 200
        own = {"Host": host, "Origin": f"http://{host}"}
        assert httpx.post(f"{without_a_key}/v1/prune", headers=own).status_code == 200
    with socket.create_connection(("127.0.0.1", int(port))) as old:  # HTTP/1.0 may name no host, no browser speaks it
        old.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert old.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.long
def test_a_server_that_is_told_to_stop_finishes_what_was_asked_and_exits_with_0(database_url: str, home: Path) -> None:
    """G16."""
    with OpenAIServer(dims=64, seconds_per_call=1.5) as slow:
        commands = Commands(home, embedding_by(slow) | {"HARDWON_DATABASE_URL": database_url})
        with commands.start("serve", "--port", str(free_port()), "--json") as server:
            told = "".join(iter(server.line, "}")) + "}"
            url = json.loads(told)["url"]
            assert httpx.post(f"{url}/v1/entries", json=entry()).status_code == 201
            answers: list[httpx.Response] = []
            asking = threading.Thread(
                target=lambda: answers.append(httpx.post(f"{url}/v1/checkpoints", json={}, timeout=30))
            )
            calls = slow.calls
            asking.start()
            until(lambda: slow.calls > calls)
            code, out, err = server.end(signal.SIGTERM)
            asking.join()
        assert (code, out, err) == (0, "", "stopped\n")
        assert [(answer.status_code, answer.json()["embedded"]) for answer in answers] == [(201, 1)]


@pytest.mark.long
def test_a_server_whose_terminal_is_closed_ends_in_order(database_url: str, endpoint: OpenAIServer, home: Path) -> None:
    """It died at once, and left its socket and, where that is embedded, its Postgres."""
    commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
    with commands.start("serve", "--port", str(free_port()), "--json") as server:
        while server.line() != "}":
            pass
        assert (home / "hardwon.sock").exists()
        assert server.end(signal.SIGHUP) == (0, "", "stopped\n")
    assert not (home / "hardwon.sock").exists()


@over(
    "path, body, field",
    [
        ("/v1/revocations", {"project_id": "p", "dry_run": 0}, "dry_run"),
        ("/v1/revocations", {"project_id": "p", "dry_run": "perhaps"}, "dry_run"),
        ("/v1/revocations", {"since": 0}, "since"),
        ("/v1/revocations", {"until": "2026-03-02"}, "until"),
        ("/v1/revocations", {"until": "2026-03-02T09:30:00"}, "until"),
        ("/v1/queries/task", {"task_description": "x", "max_results": "five"}, "max_results"),
        ("/v1/queries/task", {"task_description": "x", "max_results": True}, "max_results"),
        ("/v1/keys", {"scopes": ["query"], "workspace": "w", "expires_in_seconds": "an hour"}, "expires_in_seconds"),
        ("/api/feedback", {"answer_id": str(uuid4()), "up": 0}, "up"),
        ("/subagents/documentation-qa", {"question": "what?", "session_id": True}, "session_id"),
        ("/subagents/documentation-qa", {"question": "what?", "step_id": "\ud800"}, "step_id"),
        ("/api/agent", {"message": "what?", "conversation": [{"role": "user", "content": "\ud83d"}]}, "conversation.0"),
        (
            "/api/agent",
            {"message": "?", "conversation": [{"role": "tool", "content": "", "tool": "t", "sources": ["\ud83d"]}]},
            "conversation.0.sources",
        ),
    ],
)
async def test_a_zero_is_no_no_a_text_no_number_and_a_day_no_moment(
    http: httpx.AsyncClient, path: str, body: dict[str, object], field: str
) -> None:
    refused = await http.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["title"]) == (422, "InvalidInput"), refused.text
    assert refused.json()["field"].startswith(field)


async def test_a_task_that_was_cut_in_the_middle_of_a_character_gets_its_context_and_opens_no_breaker(
    http: httpx.AsyncClient,
) -> None:
    """What a program in JavaScript sends of a text that it cut: three of them left every task without knowledge."""
    for more in ({"description": "Sum up a cart \ud83d"}, {"type": "\ud83d"}, {"technology": "\ud83d"}):
        body = json.dumps({"task": {"description": "Sum up a cart", **more}, "agent_type": "backend"})
        answer = await http.post("/v1/contexts", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["text"].startswith("Task: Sum up a cart")
    well = await http.post("/v1/contexts", json={"task": {"description": "Sum up a cart"}, "agent_type": "backend"})
    assert well.json()["degraded"] is None


async def test_a_time_in_a_query_has_its_zone_and_is_no_number(http: httpx.AsyncClient) -> None:
    for told in ("0.5", "1700000000", "2026-03-02", "2026-03-02T09:30:00"):
        refused = await http.get("/v1/affected", params={"until": told})
        assert (refused.status_code, refused.json()["field"][:5]) == (422, "until"), told
        assert "with its zone" in refused.json()["detail"], told
    for told in ("2026-03-02T09:30:00Z", "2026-03-02T09:30:00.5+01:00"):
        assert (await http.get("/v1/affected", params={"until": told})).json() == []


async def test_d46_what_is_no_text_is_refused_also_where_it_is_only_looked_for(http: httpx.AsyncClient) -> None:
    refused = await http.get("/v1/workspaces", params={"after": "\0"})
    assert (refused.status_code, refused.json()["title"]) == (422, "InvalidInput"), refused.text


@pytest.mark.parametrize("told", [{"session": "\0"}, {"name": "a\0b"}])
async def test_d46_events_are_looked_for_by_what_is_kept_of_a_name(
    http: httpx.AsyncClient, told: dict[str, str]
) -> None:
    found = await http.get("/api/events", params=told)
    assert (found.status_code, found.json()) == (200, []), found.text


@pytest.mark.long
@pytest.mark.parametrize("told", [{"session_id": "\0"}, {"step_id": "\0"}])
async def test_d46_what_cannot_be_noted_down_of_a_question_stops_no_answer(
    http: httpx.AsyncClient, told: dict[str, Any]
) -> None:
    body = json.dumps({"question": "How long does the cart service wait?", **told})
    answered = await http.post(
        "/subagents/documentation-qa", content=body, headers={"Content-Type": "application/json"}
    )
    assert (answered.status_code, answered.json()["status"]) == (200, "no_answer"), answered.text


@pytest.mark.long
async def test_what_a_server_has_loaded_is_no_longer_looked_through_for_garbage(settings: KnowledgeSettings) -> None:
    """All threads stand still meanwhile: 0.1 s of the 0.3 that a question may take."""
    before, started = gc.get_freeze_count(), asyncio.Event()
    serving = asyncio.create_task(run_service(settings, host="127.0.0.1", port=0, on_start=lambda _: started.set()))
    try:
        async with asyncio.timeout(30):
            await started.wait()
        assert gc.get_freeze_count() > before + 1_000
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
