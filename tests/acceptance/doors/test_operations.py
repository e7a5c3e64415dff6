"""The table of operations: its rows agree with the services and with the permissions, and a row makes every door."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, get_type_hints
from urllib.parse import quote

import httpx
import pytest
from pydantic import Field, TypeAdapter

from hardwon.client.documents import RemoteKnowledgeBases
from hardwon.client.knowledge_client import SERVICES, KnowledgeClient, services
from hardwon.client.operations import REQUIRED, Envelope, Operation, Place, Tool, parameters_of, return_type
from hardwon.client.queries import RemoteQueries
from hardwon.errors import InvalidInput
from knowledge.access.permissions import operations
from knowledge.access.principals import OWNER
from knowledge.documents.service import KnowledgeBases
from knowledge.memory.lists.service import ListService
from knowledge.memory.query.service import RAGQueryService
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.http.openapi.document import ANSWERS, REQUESTS, VALUES
from orchestrator.http.routes.journal import _CallerJournal
from orchestrator.http.routes.runs import _CallerRuns
from orchestrator.mcp.tools import Caller, tool_of
from tests.support.entries import failure, learn

ROWS = [row for service in services() for row in service.operations]
WITHOUT_A_METHOD_OF_ITS_OWN = {
    "journal": "is told the time in process",
    "run_job": "is a function of `jobs`",
    "list_jobs": "is, too",
    "runs": "is the door's own: it reads what programs tell",
}


def _parameters(method: Callable[..., Any]) -> list[tuple[str, Any, object]]:
    """Return what a caller sees: the names, what must be named, and the defaults."""
    parameters = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters if each.name != "self"]


def test_rows_have_the_arguments_and_defaults_of_the_methods_they_call(knowledge: Knowledge) -> None:
    compared = 0
    for row in ROWS:
        if {row.service, row.method} & WITHOUT_A_METHOD_OF_ITS_OWN.keys():
            continue
        service = getattr(knowledge, row.service) if row.service else knowledge
        kind = KnowledgeBases if row.service == "kb" else type(service)
        assert _parameters(row.declared) == _parameters(getattr(kind, row.method)), row.declared.__qualname__
        compared += 1
    assert compared > 50


def test_rows_say_what_they_do_and_have_ids_of_their_own() -> None:
    assert all(row.help.endswith(".") for row in ROWS)
    assert len({row.operation_id for row in ROWS}) == len({(row.verb, row.path) for row in ROWS}) == len(ROWS)
    assert {row.service for row in ROWS} - {""} <= SERVICES.keys()
    assert RemoteKnowledgeBases in services()


PLAIN = {bool: True, int: 7, float: 0.5, str: "told"}


def _answer_of(row: Operation) -> Any:
    """Return what a method returns whose answer is that of the examples, or counts and flags where there is none."""
    kind = row.answer or return_type(row)
    if kind is type(None):
        return None
    hints = get_type_hints(kind) if is_dataclass(kind) else {}
    plain = {name: PLAIN[hint] for name, hint in hints.items() if hint in PLAIN} if is_dataclass(kind) else ["told"]
    return row.unwrap(TypeAdapter(kind).validate_json(json.dumps(ANSWERS.get(row.operation_id, plain))))


def _in_address(row: Operation) -> tuple[str, dict[str, Any]]:
    """Return the path and the query of the example of a row."""
    needed = {
        each.wire_name: VALUES[each.wire_name]
        for each in parameters_of(row)
        if each.place is Place.PATH or (each.place is Place.QUERY and each.default is REQUIRED)
    }
    placed = {each.wire_name for each in parameters_of(row) if each.place is Place.PATH}
    path = row.path.format_map({name: quote(str(needed[name]), safe="") for name in placed})
    return path, {name: value for name, value in needed.items() if name not in placed}


async def test_every_row_gives_its_method_the_same_arguments_by_http_and_by_the_client_and_both_its_answer(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a method does is tested where it is; that each door gets there is tested here, for all rows."""
    transport = httpx.ASGITransport(make_app(knowledge))
    asked: list[dict[str, Any]] = []
    compared = 0
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://hardwon") as http,
        KnowledgeClient("http://hardwon", transport=transport) as client,
    ):
        for row in ROWS:
            if row.method in {"run_job", "list_jobs"}:  # functions of `jobs`
                continue
            service = getattr(knowledge, row.service, knowledge)
            kind: Any = {"kb": KnowledgeBases, "journal": _CallerJournal, "runs": _CallerRuns}.get(
                row.service, type(service)
            )
            answer = _answer_of(row)

            async def answering(*args: Any, row: Operation = row, answer: Any = answer, **told: Any) -> Any:
                bound = inspect.signature(row.declared).bind(*args, **told)
                bound.apply_defaults()
                asked.append({k: v for k, v in bound.arguments.items() if k not in {"self", "progress"}})
                return answer

            with monkeypatch.context() as replaced:
                replaced.setattr(kind, row.method, answering)
                asked.clear()
                path, query = _in_address(row)
                response = await http.request(row.verb, path, params=query, json=REQUESTS.get(row.operation_id))
                assert response.status_code == row.status, (row.operation_id, response.text)
                remote = getattr(client, row.service) if row.service else client
                found = await getattr(remote, row.method)(**asked[0])
                assert asked[1:] == asked[:1], row.operation_id
                assert found == answer, row.operation_id
            compared += 1
    assert compared > 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Large(Envelope):
    """How many patterns are that large."""

    patterns: int


class QueriesWithOneMore(RemoteQueries, name="queries", tag="queries", scopes=("query",)):
    """The rows of a service, and a new one."""

    @Operation(
        "GET", "/v1/patterns:large", answer=Large, tool=Tool(title="Large patterns", answer=Large, read_only=True)
    )
    async def count_large(self, *, least: Annotated[int, Field(ge=1, description="From how many entries on.")]) -> int:
        """Count the patterns that have so many entries."""


async def _count_large(self: RAGQueryService, *, least: int) -> int:
    patterns = await ListService(stores=self.stores).patterns(limit=100)
    return sum(1 for pattern in patterns if len(pattern.entry_ids) >= least)


@pytest.mark.long
async def test_a_row_and_a_method_are_a_new_operation_over_http_of_the_client_and_as_a_tool(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVICES, "queries", (__name__, "QueriesWithOneMore"))
    monkeypatch.setattr(RAGQueryService, "count_large", _count_large, raising=False)
    monkeypatch.setattr("knowledge.access.principals.operations", operations.__wrapped__)
    monkeypatch.setattr("orchestrator.http.operation_route.operations", operations.__wrapped__)
    monkeypatch.setattr("orchestrator.http.openapi.document.operations", operations.__wrapped__)
    await learn(knowledge, failure(), failure(project_id="another"), failure(failure_description="The disk is full"))
    app = make_app(knowledge)
    assert app.openapi()["paths"]["/v1/patterns:large"]["get"]["x-hardwon-scopes"] == ["query"]

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://hardwon") as http:
        found = await http.get("/v1/patterns:large", params={"least": 2})
        assert found.json() == {"patterns": 1}, found.text
        refused = (await http.get("/v1/patterns:large", params={"least": 0})).json()
        assert (refused["title"], refused["field"]) == ("InvalidInput", "least")

    async with KnowledgeClient("http://hardwon", transport=transport) as client:
        queries: Any = client.queries
        assert await queries.count_large(least=1) == 2
        with pytest.raises(InvalidInput, match=r"^least: must be 1 to"):
            await queries.count_large(least=0)

    (row,) = (row for row in QueriesWithOneMore.operations if row.method == "count_large")
    assert row.tool is not None
    tool = tool_of(row, row.tool)
    assert tool.arguments["required"] == ["least"]
    answer = await tool.call(Caller(knowledge=knowledge, may=OWNER.may), {"least": 2})
    assert tool.answer.dump_python(answer, mode="json") == {"patterns": 1}
