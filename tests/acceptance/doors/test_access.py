"""Who may do what, in process: the guard refuses before anything is asked of a store."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import pytest
import sqlalchemy as sa

from hardwon.errors import AccessDenied, HardwonError
from hardwon.models.access import Scope
from jobs.scheduler import list_jobs
from jobs.table import run_job
from knowledge.access.permissions import operations
from knowledge.access.principals import ANYONE, OWNER, Principal, Trust
from knowledge.adapters.postgres.engine.database import CompiledQuery
from knowledge.models import NewEntry
from knowledge.wiring.open import SERVICES, Knowledge
from orchestrator.evaluation import doctor
from tests.support.processes import entry

IN_PROCESS = {"upkeep.refill", "upkeep.backfill", "store_upkeep.reembed", "deeds.perform_due", "reviews.approve_seen"}
"""What services ask of each other, or what takes an open embedder: nobody's to ask for."""
OF_DOORS = {"run_job", "list_jobs", "progress", "runs.learn"}
"""What is no service's method: functions of `jobs`, and what the HTTP door alone does."""
DOCUMENTS = {"documents.for_principal", "documents.manage", "answering.ask"}
"""Behind these the access policy of documents decides, by whom the key is named after."""
ALL_SCOPES = [frozenset(chosen) for size in range(len(Scope) + 1) for chosen in combinations(Scope, size)]


def who(scopes: frozenset[Scope], workspace: str | None = "default") -> Principal:
    return Principal(trust=Trust.KEY, scopes=scopes, workspace=workspace, key_id="0" * 12)


def a_failure() -> NewEntry:
    told: dict[str, Any] = entry()
    return NewEntry(**told)


def public(service: object) -> Iterator[str]:
    for name, _ in inspect.getmembers(type(service), inspect.isroutine):
        if not name.startswith("_"):
            yield name


@contextmanager
def io_counted(knowledge: Knowledge) -> Iterator[list[str]]:
    """Note every statement that is sent to Postgres."""
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        sent.append(statement)

    arguments = CompiledQuery.arguments

    def note_direct(query: CompiledQuery, *given: Any) -> Any:  # what goes past SQLAlchemy
        sent.append(query.text)
        return arguments(query, *given)

    sa.event.listen(knowledge.engine.sync_engine, "before_cursor_execute", note)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CompiledQuery, "arguments", note_direct)
        try:
            yield sent
        finally:
            sa.event.remove(knowledge.engine.sync_engine, "before_cursor_execute", note)


def test_the_table_names_every_operation_and_nothing_else(knowledge: Knowledge) -> None:
    services = {f"{name}.{method}" for name in (*SERVICES, "keys") for method in public(getattr(knowledge, name))}
    facade = {"holds_anything", "stats", "workspaces"}
    assert set(operations()) == (services - IN_PROCESS) | facade | DOCUMENTS | OF_DOORS
    assert set(public(knowledge)) == facade | {
        "count_entries",
        "in_workspace",
        "for_principal",
        "report_as",
        "warm_up",
        "ready",
    }


async def ask(knowledge: Knowledge, operation: str) -> None:
    """Ask for an operation with arguments that are good enough to get past a guard."""
    if operation == "run_job":
        await run_job(knowledge, "sweep", once_per_slot=False)
        return
    if operation == "list_jobs":
        await list_jobs(knowledge)
        return
    if operation in DOCUMENTS:
        await ask_documents(knowledge, operation)
        return
    service, _, method = operation.rpartition(".")
    if not service:
        await getattr(knowledge, method)()
        return
    asked = getattr(getattr(knowledge, service), method)
    inspect.signature(asked)  # what the guard gives is the method itself
    if operation == "capture.capture":
        await asked(a_failure())


async def ask_documents(knowledge: Knowledge, operation: str) -> None:
    if operation == "documents.for_principal":
        assert knowledge.kb is not None
    elif operation == "documents.manage":
        await knowledge.kb.calibrate()
    else:
        assert knowledge.answering.journal is not None


@pytest.mark.long
async def test_t6_every_operation_with_every_set_of_scopes_is_refused_before_any_io(knowledge: Knowledge) -> None:
    """T6. Nothing is disallowed and succeeds; nothing that is refused has reached a store."""
    allowed = refused = 0
    for scopes in ALL_SCOPES:
        for operation in operations():
            if operation in {"progress", "runs.learn"}:  # of the HTTP door alone
                continue
            principal = who(scopes, None)
            acting = knowledge.for_principal(principal)
            with io_counted(knowledge) as sent:
                try:
                    await ask(acting, operation)
                except AccessDenied:
                    assert not principal.may(operation), operation
                    assert sent == [], operation
                    refused += 1
                except HardwonError:
                    assert principal.may(operation), operation
                    allowed += 1
                else:
                    assert principal.may(operation), operation
                    allowed += 1
    assert allowed + refused == 2 ** len(Scope) * (len(operations()) - 2)
    assert min(refused, allowed) > 250


@pytest.mark.parametrize("hidden", ["stores", "refill", "_add", "__dict__", "redaction"])
def test_what_a_service_stands_on_is_out_of_reach(knowledge: Knowledge, hidden: str) -> None:
    acting = knowledge.for_principal(who(frozenset(Scope), None))
    for name in ("capture", "upkeep", "queries"):
        with pytest.raises((AccessDenied, AttributeError)):
            getattr(getattr(acting, name), hidden)


async def test_a_principal_of_one_workspace_enters_no_other(knowledge: Knowledge) -> None:
    acting = knowledge.for_principal(who(frozenset(Scope)))
    with io_counted(knowledge) as sent:
        with pytest.raises(AccessDenied):
            acting.in_workspace("theirs")
        with pytest.raises(AccessDenied):
            knowledge.in_workspace("theirs").for_principal(who(frozenset(Scope)))
        with pytest.raises(AccessDenied):
            acting.for_principal(OWNER)
        with pytest.raises(AccessDenied):
            await acting.workspaces()
    assert sent == []


async def test_a_principal_stays_itself_in_another_workspace(knowledge: Knowledge) -> None:
    agent = knowledge.for_principal(who(frozenset({Scope.CAPTURE}), None)).in_workspace("theirs")
    assert (agent.principal.key_id, agent.workspace) == ("0" * 12, "theirs")
    await agent.capture.capture(a_failure())
    with pytest.raises(AccessDenied):
        await agent.stats()
    assert await knowledge.workspaces() == ["theirs"]


async def test_the_doctor_asks_with_any_key_that_may_query(knowledge: Knowledge) -> None:
    clocks = await doctor.compare_clocks(knowledge.for_principal(who(frozenset({Scope.QUERY}))))
    assert clocks == "not compared, as this key may not prune"
    assert await doctor.compare_clocks(knowledge) == "this machine and Postgres have the same time"


def test_the_owner_and_a_server_without_keys_have_the_services_as_they_are(knowledge: Knowledge) -> None:
    assert knowledge.for_principal(OWNER) is knowledge
    assert knowledge.for_principal(ANYONE).principal is ANYONE
