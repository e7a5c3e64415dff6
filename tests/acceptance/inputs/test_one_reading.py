"""The five doors take the same JSON: one result, or one sentence, for every field in every form."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any
from uuid import UUID

import httpx
import pytest
from mcp import Client

from hardwon import coercion
from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.errors import HardwonError, InvalidInput
from hardwon.hooks import Hooks
from knowledge.models import EntryId, EntryStatus, NewEntry
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder, OrchestratorHooks
from orchestrator.mcp.server import make_server
from orchestrator.mcp.tools import Caller
from tests.acceptance.inputs.forms import Case, check, every_form
from tests.support.cases import over
from tests.support.clients import client_of, http_of
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

CONDITIONS = {"technology": "python", "version": ">=3.10"}
FAILURE: Mapping[str, Any] = {
    "entry_type": "failure_solution",
    "project_id": "shop",
    "agent_type": "backend",
    "task_type": "bugfix",
    "technology": "python",
    "task_description": "Sum up a cart",
    "failure_description": "The total raises",
    "error_message": "TypeError",
    "solution_steps": "Treat a missing price as zero",
    "success_verified": True,
    "verified_by": "pytest",
    "when_to_try": "A price may be missing",
    "applies_when": CONDITIONS,
    "task_id": "T-1",
    "run_id": "1",
    "idempotency_key": "key",
}
GATE = {"project_id": "gates", "gate_type": "design_review", "proposal": "Rename the table", "task_id": "T-1"}
REJECTION: Mapping[str, Any] = {
    "entry_type": "gate_rejection",
    **GATE,
    "human_feedback": "No plan",
    "revision_approach": "Expand, then contract",
}
APPROVAL: Mapping[str, Any] = {"entry_type": "gate_approval", **GATE, "project_id": "passed", "approved_approach": "Go"}
ENTRIES: list[tuple[Mapping[str, Any], Collection[str], Collection[str]]] = [
    (FAILURE, FAILURE.keys(), {"entry_type", "project_id", "agent_type", "failure_description"}),
    (
        REJECTION,
        REJECTION.keys() - GATE.keys() | {"gate_type", "proposal"},
        {"entry_type", "gate_type", "human_feedback"},
    ),
    (APPROVAL, {"gate_type", "proposal", "approved_approach"}, {"gate_type", "approved_approach"}),
]
QUERY = {"agent_type": "backend", "task_type": "bugfix", "technology": "python", "max_results": 2}
SURE = {"min_relevance": 0.5, "only_if_sure": True, "facts": {"technology": "python", "version": "3.12"}}
QUERIES: list[tuple[str, Mapping[str, Any], Collection[str]]] = [
    ("query_for_task", {"task_description": "Sum up a cart", **QUERY, **SURE}, {"task_description"}),
    (
        "query_for_failure",
        {"failure_description": "The total raises", "error_message": "TypeError", **QUERY, **SURE},
        {"failure_description"},
    ),
    (
        "query_for_gate",
        {"gate_type": "review", "proposal": "Rename", "project_id": "shop", "max_results": 2, "min_relevance": 0.5},
        {"gate_type", "proposal"},
    ),
]
TASK: Mapping[str, Any] = {
    "description": "Sum up a cart",
    "type": "bugfix",
    "technology": "python",
    "project_id": "shop",
    "task_id": "T-1",
    "run_id": "1",
    "facts": {"technology": "python", "version": "3.12"},
    "urgent": True,
    "agent_type": "backend",
}
PATTERN = [str(UUID(int=1))]
_NOT_OF_EVENTS = {"entry_type", "idempotency_key", "verified_by", "solution_steps", "success_verified", "when_to_try"}
EVENTS: list[tuple[str, Mapping[str, Any], Collection[str]]] = [
    (
        "task_failed",
        {name: value for name, value in FAILURE.items() if name not in _NOT_OF_EVENTS} | {"tried": PATTERN},
        {"project_id", "task_id", "agent_type", "failure_description"},
    ),
    (
        "task_solved",
        {name: FAILURE[name] for name in ("project_id", "task_id", "run_id", "when_to_try", "applies_when")}
        | {"solution_steps": "Treat it as zero", "verified_by": "pytest", "tried": PATTERN, "failures": PATTERN},
        {"project_id", "task_id", "verified_by"},  # the last for its solution_steps
    ),
    (
        "gate_decided",
        {**GATE, "accepted": True, "approach": "Expand, then contract", "agent_type": "backend", "task_type": "design"}
        | {"technology": "python", "task_description": "Rename", "run_id": "1", "verified_by": "a review"}
        | {"when_to_try": "Before a release", "applies_when": CONDITIONS},
        {"project_id", "gate_type", "accepted"},
    ),
    ("gate_decided", {**GATE, "accepted": False, "human_feedback": "No plan"}, {"human_feedback"}),
]
PATHS = {
    "query_for_task": "/v1/queries/task",
    "query_for_failure": "/v1/queries/failure",
    "query_for_gate": "/v1/queries/gate",
    "task_failed": "/v1/tasks:failed",
    "task_solved": "/v1/tasks:solved",
    "gate_decided": "/v1/gates:decided",
}
_IN_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Door:
    """A door: `call` returns what an operation answers, as JSON, or the sentence that it was refused with."""

    name: str
    services: Knowledge
    call: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    operations: Collection[str]


async def in_words(work: Awaitable[Any]) -> Any:
    """Return a result, or the sentence of an error."""
    try:
        return await work
    except HardwonError as error:
        return str(error)


def python_door(name: str, services: Knowledge, opened: Knowledge | KnowledgeClient) -> Door:
    builder = OrchestratorContextBuilder(opened)

    async def call(operation: str, given: Mapping[str, Any]) -> Any:
        if operation == "capture":
            return {"entry_id": await opened.capture.capture(given)}
        if operation == "build_context":
            task = {field: value for field, value in given.items() if field not in {"agent_type", "agent_tyep"}}
            context = await builder.build_context_for_task(task, given.get("agent_type"))  # type: ignore[arg-type]
            return context.degraded or asdict(context)
        if operation.startswith("query"):
            return {"patterns": await getattr(opened.queries, operation)(**given)}
        return asdict(await getattr(opened.events, operation)(**given))

    named = {"capture", *PATHS} - ({"task_failed", "task_solved", "gate_decided"} if name == "client" else set())
    built = {"build_context"} if name == "Python" else set()  # hooks go over the client
    return Door(name, services, lambda operation, given: in_words(call(operation, given)), named | built)


def http_door(services: Knowledge, client: httpx.AsyncClient) -> Door:
    paths = {**PATHS, "capture": "/v1/entries", "build_context": "/v1/contexts"}

    async def call(operation: str, given: Mapping[str, Any]) -> Any:
        answer = await client.post(paths[operation], json=given)
        assert answer.status_code < 500, answer.text
        body = answer.json()
        return f"{body['field']}: {body['detail']}" if answer.is_error else body

    return Door("HTTP", services, call, paths)


def mcp_door(services: Knowledge, client: Client) -> Door:
    async def call(operation: str, given: Mapping[str, Any]) -> Any:
        answer = await client.call_tool(operation, dict(given))
        return getattr(answer.content[0], "text", "") if answer.is_error else answer.structured_content

    return Door("MCP", services, call, {"capture", *PATHS, "build_context"})


def hooks_door(services: Knowledge, hooks: Hooks) -> Door:
    async def call(operation: str, given: Mapping[str, Any]) -> Any:
        if operation == "build_context":
            task = {field: value for field, value in given.items() if field not in {"agent_type", "agent_tyep"}}
            context = await hooks.task_started(task, given.get("agent_type"))  # type: ignore[arg-type]
            return context.degraded or asdict(context)
        result = asdict(await getattr(hooks, operation)(**given))
        stored = (
            result["entry_ids"] or "failures: " in (result["degraded"] or "") or "tried: " in (result["degraded"] or "")
        )
        return result["degraded"] if result["degraded"] and not stored else result

    return Door("hooks", services, call, {"build_context", "task_failed", "task_solved", "gate_decided"})


@asynccontextmanager
async def open_doors(knowledge: Knowledge) -> AsyncIterator[list[Door]]:
    """The doors but the command line, each on a workspace of its own."""
    python, client, http, mcp, hooks = (
        knowledge.in_workspace(f"{knowledge.workspace}-{each}") for each in ("python", "client", "http", "mcp", "hooks")
    )

    async def find(_: Any) -> Caller:
        return Caller(knowledge=mcp, may=lambda _: True)

    async with (
        client_of(client) as remote,
        http_of(http) as requests,
        Client(make_server(find)) as tools,
        client_of(hooks) as beside,
        OrchestratorHooks(beside, deadline=30) as of_hooks,
    ):
        yield [
            python_door("Python", python, python),
            python_door("client", client, remote),
            http_door(http, requests),
            mcp_door(mcp, tools),
            hooks_door(hooks, of_hooks),
        ]


async def row(services: Knowledge, entry_id: object, without: Collection[str] = ()) -> dict[str, Any]:
    """Return what is stored of an entry: its own fields and its status."""
    entry = await services.capture.get(EntryId(UUID(str(entry_id))))
    own_fields = {each.name for each in fields(NewEntry)} - {"workspace", *without}
    return {name: value for name in sorted(own_fields | {"status"}) if (value := asdict(entry)[name]) is not None}


async def compare(
    doors: list[Door],
    operation: str,
    cases: list[Case],
    required: Collection[str],
    result_of: Callable[[Door, Case], Awaitable[Any]],
) -> None:
    """Run all cases at all doors that have the operation; check each result, and that it is the same everywhere."""
    slots = asyncio.Semaphore(_IN_PARALLEL)
    told: dict[str, dict[tuple[str, str], Any]] = {}

    async def run(door: Door, case: Case) -> None:
        async with slots:
            told.setdefault(door.name, {})[case.field, case.form] = await result_of(door, case)

    taking = [door for door in doors if operation in door.operations]
    await asyncio.gather(*(run(door, case) for door in taking for case in cases))
    problems = []
    for case, door in itertools.product(cases, taking):
        result = told[door.name][case.field, case.form]
        first = told[taking[0].name][case.field, case.form]
        try:
            check(case, result, told[door.name], required)
            assert result == first, f"{result} is not {first} of {taking[0].name}"
        except AssertionError as error:
            problems.append(f"{door.name}, {case.field}, {case.form}: {str(error).splitlines()[0][:300]}")
    assert not problems, f"{len(problems)} of {len(cases) * len(taking)}:\n" + "\n".join(problems)


@pytest.mark.parametrize(
    ("native", "varied", "required"),
    [pytest.param(*ENTRIES[0], marks=pytest.mark.long), *ENTRIES[1:]],
    ids=["failure", "rejection", "approval"],
)
async def test_an_entry_is_captured_alike_at_every_door(
    knowledge: Knowledge, native: Mapping[str, Any], varied: Collection[str], required: Collection[str]
) -> None:
    async def result_of(door: Door, case: Case) -> Any:
        given = dict(case.given)
        if case.field != "task_id":  # an event of its own: the same content would be a duplicate
            given["task_id"] = f"T-{case.field}-{case.group}"
        if case.field != "idempotency_key":
            given.pop("idempotency_key", None)
        answer = await door.call("capture", given)
        if isinstance(answer, str):
            return answer
        stored = await row(door.services, answer["entry_id"], without={"task_id"} - {case.field})
        if case.form == "number":
            assert stored[case.field] == "42"
        return stored

    async with open_doors(knowledge) as doors:
        await compare(doors, "capture", list(every_form(native, sorted(varied))), required, result_of)


@pytest.mark.long
@pytest.mark.parametrize(("operation", "native", "required"), QUERIES, ids=[each for each, _, _ in QUERIES])
async def test_a_query_is_read_alike_at_every_door(
    knowledge: Knowledge, operation: str, native: Mapping[str, Any], required: Collection[str]
) -> None:
    async def result_of(door: Door, case: Case) -> Any:
        answer = await door.call(operation, case.given)
        return answer if isinstance(answer, str) else {"patterns": len(answer["patterns"])}

    async with open_doors(knowledge) as doors:
        await compare(doors, operation, list(every_form(native)), required, result_of)


@pytest.mark.long
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
async def test_a_context_is_asked_for_alike_at_every_door(knowledge: Knowledge, *, nested: bool) -> None:
    async def result_of(door: Door, case: Case) -> Any:
        given = case.given
        if nested and door.name in {"HTTP", "MCP"}:
            task = {name: value for name, value in given.items() if name != "agent_type"}
            given = {"task": task, **{name: given[name] for name in ("agent_type",) if name in given}}
        answer = await door.call("build_context", given)
        if isinstance(answer, str):
            return answer.removeprefix("task.")
        stored = (await door.services.contexts.show(answer["context_id"])).record
        return answer["text"], stored.project_id, stored.task_id, stored.run_id, stored.agent_type

    cases = [case for case in every_form(TASK) if (case.field, case.form) != ("agent_type", "misspelt")]
    async with open_doors(knowledge) as doors:
        await compare(doors, "build_context", cases, {"description", "agent_type"}, result_of)


@pytest.mark.long
@over("number, event", enumerate(EVENTS))
async def test_an_event_is_kept_alike_at_every_door(
    knowledge: Knowledge, number: int, event: tuple[str, Mapping[str, Any], Collection[str]]
) -> None:
    operation, native, required = event
    cases = [
        case
        for case in every_form(native, sorted(required) if number == len(EVENTS) - 1 else None)
        if (case.field, case.form)
        not in {("tried", "another kind"), ("failures", "another kind")}  # hooks ignore those
        and (case.field in required or case.form not in {"null", "blank"})  # the same as empty, as entries show
    ]

    async def result_of(door: Door, case: Case) -> Any:
        place = "project_id" if case.field == "task_id" else "task_id"
        given = dict(case.given) | {place: f"{number}-{case.field}-{case.form}"}
        if operation == "task_solved" and case.form != "misspelt":
            ids = {name: str(given.get(name) or "").strip() or "none" for name in ("project_id", "task_id")}
            failed: dict[str, Any] = {
                **ids,
                "agent_type": "backend",
                "failure_description": "The total raises",
                "run_id": "1",
            }
            await door.services.events.task_failed(**failed)
        answer = await door.call(operation, given)
        if isinstance(answer, str):
            return answer
        stored = [await row(door.services, each, without={place}) for each in answer["entry_ids"]]
        return stored, answer["outcomes"], answer["degraded"]

    async with open_doors(knowledge) as doors:
        await compare(doors, operation, cases, required, result_of)


async def test_a_task_goes_by_either_name_everywhere(knowledge: Knowledge) -> None:
    async with open_doors(knowledge) as doors:
        for door in doors:
            await check_names(door)


async def check_names(door: Door) -> None:
    by_own = await door.call("build_context", {"description": "Sum up", "type": "bugfix", "agent_type": "a"})
    by_other = {"task_description": "Sum up", "task_type": "bugfix", "agent_type": "a"}
    assert (await door.call("build_context", by_other))["text"] == by_own["text"] == "Task: Sum up\nType: bugfix"
    both = by_other | {"type": "feature"}
    assert "another name of type" in await door.call("build_context", both)
    if "query_for_task" in door.operations:
        assert (await door.call("query_for_task", {"description": "Sum up", "type": "bugfix"}))["patterns"] == []


@over("verified_by", ["x" * 501, 7])
async def test_an_event_that_is_refused_has_changed_nothing(knowledge: Knowledge, verified_by: Any) -> None:
    """The failures that several runs told of were abandoned before their solution was refused."""
    task: dict[str, Any] = {"project_id": "p", "task_id": "T"}
    told = [
        await knowledge.events.task_failed(**task, run_id=run, agent_type="a", failure_description="It broke")
        for run in "12"
    ]
    gate: dict[str, Any] = {"project_id": "p", "task_id": "T", "gate_type": "review"}
    told += [
        await knowledge.events.gate_decided(**gate, run_id=run, accepted=False, human_feedback="No") for run in "12"
    ]
    with pytest.raises(InvalidInput, match=r"^verified_by: "):
        await knowledge.events.task_solved(**task, solution_steps="Mend it", verified_by=verified_by)
    with pytest.raises(InvalidInput, match=r"^verified_by: "):
        await knowledge.events.gate_decided(**gate, accepted=True, approach="Mend it", verified_by=verified_by)
    statuses = [(await knowledge.capture.get(entry_id)).status for each in told for entry_id in each.entry_ids]
    assert statuses == [EntryStatus.OPEN] * 4


def take_blanks(value: object) -> bool:
    """A mutant: blank texts are values."""
    return value is None


def suggest_nothing(name: str, known: Mapping[str, str]) -> list[str]:
    """A mutant: no name is likely meant."""
    return []


def take_no_text(value: object, at: str) -> object:
    """A mutant: a text is no boolean."""
    if not isinstance(value, bool):
        raise InvalidInput(at, "must be true or false, not a text")
    return value


@pytest.mark.parametrize("mutant", ["is_absent", "likely_names", "_coerce_flag"])
async def test_a_door_that_reads_otherwise_is_found(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    broken = {"is_absent": take_blanks, "likely_names": suggest_nothing, "_coerce_flag": take_no_text}
    monkeypatch.setattr(coercion, mutant, broken[mutant])
    monkeypatch.setattr(coercion, "shape_of", coercion._make_dataclass_shape)

    async def result_of(door: Door, case: Case) -> Any:
        answer = await door.call("capture", {**case.given, "task_id": f"{case.field}-{case.group}"})
        return answer if isinstance(answer, str) else await row(door.services, answer["entry_id"], {"task_id"})

    native = {name: value for name, value in FAILURE.items() if name not in {"idempotency_key", "run_id"}}
    cases = list(every_form(native, ["success_verified", "technology"]))
    with pytest.raises(AssertionError, match=r"technology|success_verified"):
        await compare([python_door("Python", knowledge, knowledge)], "capture", cases, (), result_of)
