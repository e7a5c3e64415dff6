"""`GET /metrics`: what a process did, told by its steps, with as many series as there are kinds of things."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from hardwon.models.access import Scope
from knowledge.models import CheckpointType, Task
from knowledge.runtime.instrumentation import observe
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from orchestrator.http.app import make_app
from orchestrator.observability.metrics import STAGES, Metrics
from tests.support.clients import auth_of, http_of
from tests.support.embedders import HashingEmbedder
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry

DOCS = Path(__file__).resolve().parents[3] / "docs" / "observability.md"
SITUATION = str(entry()["failure_description"])


class Series:
    """The series of a server; `since` gives what came to each since the time before."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._before: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

    async def told(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        answer = await self._http.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        families = text_string_to_metric_families(answer.text)
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    async def begin(self) -> None:
        self._before = await self.told()

    async def since(self, name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return (await self.told()).get(key, 0.0) - self._before.get(key, 0.0)


@pytest.fixture
async def series(http: httpx.AsyncClient) -> Series:
    series = Series(http)
    await series.begin()
    return series


async def test_every_metric_and_each_kind_of_it_is_there_before_anything_was_counted() -> None:
    """What appears with its first event has not increased, so that no alert sees it."""
    families = {family.name: family.samples for family in Metrics().registry.collect() if family.name[:7] == "hardwon"}
    told = {name for name, samples in families.items() if samples}
    assert set(families) - told == {"hardwon_http_requests", "hardwon_http_request_seconds"}  # by route, as they come
    kinds = {sample.labels["type"] for sample in families["hardwon_checkpoint_seconds"]}
    assert kinds == set(CheckpointType)
    assert {sample.labels["step"] for sample in families["hardwon_batch_seconds"]} == {"embed_batch", "store_batch"}


@pytest.mark.long
async def test_captures_are_counted_by_what_became_of_them_one_by_one_and_in_batches(
    http: httpx.AsyncClient, series: Series
) -> None:
    await http.post("/v1/entries", json=entry(idempotency_key="once"))
    await http.post("/v1/entries", json=entry(idempotency_key="once"))
    await http.post("/v1/entries", json=entry(idempotency_key="once", failure_description="another"))
    await http.post("/v1/entries", json=entry(failure_description=" "))
    rows = [entry(task_id="T-2"), entry(task_id="T-2"), entry(agent_type="")]
    await http.post("/v1/entries:batch", json={"entries": rows})
    assert await series.since("hardwon_captures_total", outcome="accepted") == 2
    assert await series.since("hardwon_captures_total", outcome="duplicate") == 2
    assert await series.since("hardwon_captures_total", outcome="refused") == 3


@pytest.mark.long
async def test_a_whole_loop_shows_in_every_metric_of_it(
    http: httpx.AsyncClient, knowledge: Knowledge, series: Series, embedder: HashingEmbedder
) -> None:
    embedder.refuses = "poison"
    await http.post("/v1/entries", json=entry())
    await http.post("/v1/entries", json=entry(failure_description="poison in it", task_id="T-9"))
    await http.post("/v1/checkpoints", json={"project_id": "web-shop", "checkpoint_type": "phase_completion"})
    assert await series.since("hardwon_entries_total", became="embedded") == 1
    assert await series.since("hardwon_entries_total", became="dead") == 1
    assert await series.since("hardwon_checkpoints_total", type="phase_completion", result="done") == 1
    assert await series.since("hardwon_checkpoint_seconds_count", type="phase_completion") == 1

    task = {"description": SITUATION, "project_id": "other-shop", "task_id": "T-1"}
    context = (await http.post("/v1/contexts", json={"task": task, "agent_type": "backend"})).json()
    (pattern,) = context["patterns"]
    assert await series.since("hardwon_contexts_total", holds="patterns") == 1
    assert await series.since("hardwon_injected_relevance_count") == 1
    assert await series.since("hardwon_query_seconds_count", query="query_for_task") == 1
    for stage in STAGES:
        assert await series.since("hardwon_query_stage_seconds_count", stage=stage) >= 1, stage

    told = {"context_id": context["context_id"], "pattern_id": pattern["pattern_id"]}
    await http.post("/v1/outcomes", json={**told, "worked": True})
    await http.post("/v1/outcomes", json={**told, "worked": False, "task_id": "T-2"})
    assert await series.since("hardwon_outcomes_total", result="worked") == 1
    assert await series.since("hardwon_outcomes_total", result="failed") == 1

    for _ in range(3):
        embedder.unavailable = "down"
        await http.post("/v1/contexts", json={"task": task, "agent_type": "backend"})
    await http.post("/v1/contexts", json={"task": task, "agent_type": "backend"})
    assert await series.since("hardwon_contexts_degraded_total", cause="words_only") == 4
    assert (await series.told())["hardwon_breakers_open", frozenset()] == 1


@pytest.mark.long
async def test_staged_entries_of_all_workspaces_are_counted_when_asked_for(
    http: httpx.AsyncClient, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.http.routes.metrics.CACHE_SECONDS", 0.0)
    series = Series(http)
    for workspace in ("default", "another"):
        await http.post("/v1/entries", json=entry(), headers={"Hardwon-Workspace": workspace})
    told = await series.told()
    assert told["hardwon_staged_entries", frozenset()] == 2
    assert told["hardwon_workspaces", frozenset()] == 2
    await knowledge.checkpoints.process_all()
    assert (await series.told())["hardwon_staged_entries", frozenset()] == 1


@pytest.mark.long
async def test_as_many_workspaces_as_there_may_be_are_counted_in_no_time(
    http: httpx.AsyncClient, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at one by one, a few thousand of them never were: the alert on checkpoints that fail could not go off."""
    await http.post("/v1/entries", json=entry())
    many = "INSERT INTO projects (workspace, project_id) SELECT 'w' || n, 'p' FROM generate_series(1, 9999) AS n"
    async with knowledge.engine.begin() as connection:
        await connection.execute(sa.text(many))
    monkeypatch.setattr("orchestrator.http.routes.metrics.COUNT_SECONDS", 1.0)
    told = await Series(http).told()
    assert told["hardwon_staged_entries", frozenset()] == 1
    assert told["hardwon_workspaces", frozenset()] == 10_000


@pytest.mark.long
async def test_requests_are_counted_by_their_route_however_many_paths_are_asked_for(
    http: httpx.AsyncClient, series: Series
) -> None:
    before = len(await series.told())
    for _ in range(20):
        await http.get(f"/v1/entries/{uuid4()}", headers={"Hardwon-Workspace": str(uuid4())})
        await http.get(f"/{uuid4()}")
        await http.request(f"M{uuid4().hex[:6]}".upper(), "/v1/stats")
    labels = {"method": "GET", "status": "404"}
    assert await series.since("hardwon_http_requests_total", route="/v1/entries/{entry_id}", **labels) == 20
    assert await series.since("hardwon_http_requests_total", route="other", **labels) == 20
    assert len(await series.told()) - before < 120  # three routes, each with its buckets


@pytest.mark.long
async def test_no_series_holds_anything_that_was_stored(http: httpx.AsyncClient) -> None:
    secret = "web-shop-of-somebody"
    await http.post("/v1/entries", json=entry(project_id=secret), headers={"Hardwon-Workspace": secret})
    await http.post("/v1/checkpoints", json={"project_id": secret}, headers={"Hardwon-Workspace": secret})
    await http.get(f"/v1/{secret}")
    assert secret not in (await http.get("/metrics")).text


@pytest.mark.long
@pytest.mark.parametrize(
    ("scopes", "workspace", "status"),
    [
        ([Scope.ADMIN], None, 200),
        ([Scope.ADMIN], "default", 403),
        ([Scope.CAPTURE, Scope.QUERY, Scope.REVIEW], None, 403),
    ],
)
async def test_t6_metrics_are_of_all_workspaces_and_take_an_administrators_key_of_all(
    knowledge: Knowledge, scopes: list[Scope], workspace: str | None, status: int
) -> None:
    made = await knowledge.keys.create(scopes, workspace=workspace)
    asked = {"Authorization": f"Bearer {made.secret}"}
    async with http_of(make_app(knowledge, auth=auth_of(knowledge))) as client:
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers=asked)).status_code == status
        told = (await client.get("/v1/access", headers=asked)).json()
    assert told["workspace"] == workspace
    assert ("workspaces" in told["operations"]) is (status == 200)
    assert ("capture.capture" in told["operations"]) is True


async def test_work_that_nobody_watches_counts_nothing(knowledge: Knowledge) -> None:
    metrics = Metrics()
    builder = OrchestratorContextBuilder(knowledge)
    await builder.build_context_for_task(Task(description=SITUATION), "backend")
    assert metrics.registry.get_sample_value("hardwon_context_seconds_count") == 0
    with observe(metrics, metrics):
        await builder.build_context_for_task(Task(description=SITUATION), "backend")
    await builder.build_context_for_task(Task(description=SITUATION), "backend")
    assert metrics.registry.get_sample_value("hardwon_context_seconds_count") == 1


async def test_every_metric_stands_in_the_documentation(http: httpx.AsyncClient) -> None:
    told = DOCS.read_text()
    families = text_string_to_metric_families((await http.get("/metrics")).text)
    ours = {family.name.removesuffix("_created") for family in families if family.name.startswith("hardwon_")}
    assert [name for name in sorted(ours) if name not in told] == []


@pytest.mark.long
def test_a_server_tells_what_other_processes_did_through_it(home: Path, database_url: str) -> None:
    with OpenAIServer() as endpoint:
        commands = Commands(home, {"HARDWON_DATABASE_URL": database_url, **embedding_by(endpoint)})
        with commands.serving() as (_, url):
            commands.owner("POST", "/v1/entries", entry())
            told = httpx.get(f"{url}/metrics").text
    assert 'hardwon_captures_total{outcome="accepted"} 1.0' in told
    assert "process_resident_memory_bytes" in told
