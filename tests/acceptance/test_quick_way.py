"""The quick way through a route and FastAPI's: whatever is asked, the answer is the same."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from knowledge.models import NewEntry
from knowledge.wiring import Knowledge
from orchestrator.http.app import ContextBody, make_app
from orchestrator.http.events import DecidedBody, FailedBody, SolvedBody
from orchestrator.http.opened import Open
from orchestrator.http.queries import FailureQueryBody, GateQueryBody, TaskQueryBody
from orchestrator.http.quick import quick_way
from tests.support.cases import over
from tests.support.processes import entry

SLOW = "application/json; charset=utf-8"
"""What says more than that it is JSON takes FastAPI's way."""
TEXT = entry()["failure_description"]
TASK: dict[str, Any] = {"description": TEXT, "type": "bugfix", "technology": "python"}
BODIES = (NewEntry, ContextBody, TaskQueryBody, FailureQueryBody, GateQueryBody, FailedBody, SolvedBody, DecidedBody)
ADAPTERS: dict[type[object], TypeAdapter[object]] = {kind: TypeAdapter(kind) for kind in BODIES}


@pytest.fixture
async def http(knowledge: Knowledge) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_app(knowledge), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://hardwon") as client:
        yield client


async def both(http: httpx.AsyncClient, path: str, body: bytes) -> tuple[httpx.Response, httpx.Response]:
    """Return the answers of the quick way and of FastAPI's."""
    told = {"X-Request-ID": "the-same"}
    quick = await http.post(path, content=body, headers=told | {"Content-Type": "application/json"})
    return quick, await http.post(path, content=body, headers=told | {"Content-Type": SLOW})


def odd_bodies() -> list[bytes]:
    whole = json.dumps(entry()).encode()
    return [
        whole,
        b" \n" + whole + b"\n",
        json.dumps(entry(failure_description="Zoë \U0001f40c"), ensure_ascii=False).encode(),
        json.dumps(entry()).encode("utf-16"),
        b"\xef\xbb\xbf" + whole,
        json.dumps(entry(colour="red")).encode(),
        json.dumps(entry(project_id=7)).encode(),
        json.dumps(entry(success_verified="yes")).encode(),
        json.dumps(entry(failure_description="\ud800")).encode(),
        json.dumps(entry(failure_description=" ")).encode(),
        json.dumps(entry(entry_type="rumour")).encode(),
        json.dumps(entry(applies_when={"facts": {"python": "3.11"}})).encode(),
        json.dumps(entry(applies_when=[])).encode(),
        whole.replace(b"{", b'{"project_id": "first", ', 1),
        whole[:-1] + b', "task_id": NaN}',
        whole[:-1],
        b"[" * 30 + b"]" * 30,
        b"[]",
        b"null",
        b"",
        b"\xff\xfe",
    ]


@over("body", odd_bodies())
async def test_a_capture_is_answered_the_same_either_way(http: httpx.AsyncClient, body: bytes) -> None:
    quick, slow = await both(http, "/v1/entries", body)
    assert quick.status_code == slow.status_code
    assert quick.content == slow.content, "a repeated event has the id it had"
    assert dict(quick.headers) == dict(slow.headers)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/entries:batch", {"entries": [entry(task_id="1"), entry(project_id=""), 7, entry(task_id=None)]}),
        ("/v1/queries/task", {"task_description": TEXT, "min_relevance": 0}),
        ("/v1/queries/failure", {"failure_description": TEXT, "min_relevance": 0.0}),
        ("/v1/queries/failure", {"failure_description": TEXT, "max_results": 2.0}),
        ("/v1/queries/gate", {"gate_type": "review", "proposal": TEXT, "min_relevance": 1}),
        ("/v1/contexts", {"task": TASK, "agent_type": "coder", "nonsense": 1}),
        ("/v1/sweeps", {"staged_for_seconds": 3600}),
        ("/v1/sweeps", {"staged_for_seconds": float("inf")}),
    ],
)
async def test_routes_answer_the_same_either_way(http: httpx.AsyncClient, path: str, body: Any) -> None:
    assert (await http.post("/v1/entries", json=entry())).status_code == 201
    assert (await http.post("/v1/checkpoints", json={})).status_code == 201
    first, slow = await both(http, path, json.dumps(body).encode())  # the first of a batch stores, the next repeats
    quick, _ = await both(http, path, json.dumps(body).encode())
    assert first.status_code == quick.status_code == slow.status_code
    assert quick.content == slow.content
    assert dict(quick.headers) == dict(slow.headers)


async def test_an_idempotency_key_in_a_header_counts_beside_a_body_that_is_plain(http: httpx.AsyncClient) -> None:
    told = {"Idempotency-Key": "k" * 201}
    assert (await http.post("/v1/entries", json=entry(), headers=told)).status_code == 422
    told = {"Idempotency-Key": "one"}
    first, again = [await http.post("/v1/entries", json=entry(task_id="1"), headers=told) for _ in range(2)]
    assert first.json() == again.json()
    other = await http.post("/v1/entries", json=entry(task_id="2"), headers=told)
    assert (other.status_code, other.json()["title"]) == (409, "IdempotencyConflict")
    unnamed = {"Hardwon-Workspace": "w" * 1201}
    assert (await http.post("/v1/entries", json=entry(), headers=unnamed)).status_code == 422


def test_what_is_asked_most_takes_the_quick_way(knowledge: Knowledge) -> None:
    routes = [route for route in make_app(knowledge).routes if isinstance(route, APIRoute)]
    quick = {
        route.path
        for route in routes
        if quick_way(route, Open, lambda _: knowledge, workspace=b"hardwon-workspace", longest_workspace=1200)
    }
    assert {"/v1/entries", "/v1/entries:batch", "/v1/contexts", "/v1/queries/task", "/v1/queries/failure"} <= quick


def _values() -> st.SearchStrategy[Any]:
    plain = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["1", "true", "0.5", "failure_solution", "00000000-0000-0000-0000-000000000000"]),
    )
    return st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
@settings(max_examples=60, deadline=None)
@given(drawn=st.data())
def test_what_is_taken_quickly_is_taken_as_fastapi_takes_it(kind: type[object], drawn: st.DataObject) -> None:
    names = list(inspect.signature(kind).parameters)
    required = {"entry_type": "failure_solution", "project_id": "p", "agent_type": "a", "task_id": "t"} | {
        "failure_description": "f", "task_description": "t", "gate_type": "g", "proposal": "p", "accepted": True,
        "task": TASK,
    }  # fmt: skip
    body = {name: value for name, value in required.items() if name in names}
    body |= drawn.draw(st.dictionaries(st.sampled_from(names), _values(), max_size=3))
    told = json.dumps(body).encode()
    adapter = ADAPTERS[kind]
    try:
        quick = adapter.validate_json(told)
    except ValidationError:
        return  # takes FastAPI's way
    assert repr(quick) == repr(adapter.validate_python(json.loads(told)))  # repr: NaN equals nothing
