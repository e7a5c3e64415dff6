"""Ids told as texts, and values of other types than were asked for: the same in process and over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import numpy as np
import pytest
from pydantic import SecretStr

from hardwon.client.documents import RemoteKnowledgeBases
from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.client.transport import path_segment
from hardwon.errors import InvalidInput, NotFound
from hardwon.models.access import EntryFilter
from hardwon.models.documents import DocumentId, NewDocument
from knowledge.documents.service import LOCAL, KnowledgeBases
from knowledge.models import ContextId, EntryStatus, PatternId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from orchestrator.cli.reports.answer_report import LocalAnswers
from orchestrator.connection import AnyKnowledge
from tests.support.cases import over
from tests.support.clients import client_of
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

FAILURE = "Cart total raises TypeError when a product has no price"
SOLUTION = "Treat a missing price as zero and log the product"


@pytest.fixture
def settings(database_url: str, home: Path) -> KnowledgeSettings:
    """Settings with time for a context on a machine that is busy with other tests."""
    return KnowledgeSettings(home=home, database_url=SecretStr(database_url), query_deadline_ms=10_000)


@pytest.fixture(params=["in process", "over HTTP"])
async def opened(
    request: pytest.FixtureRequest, knowledge: Knowledge, settings: KnowledgeSettings
) -> AsyncIterator[AnyKnowledge]:
    """The services, in process and over HTTP."""
    if request.param == "in process":
        yield knowledge
        return
    async with client_of(knowledge) as client:
        yield client


def bases(opened: AnyKnowledge) -> KnowledgeBases | RemoteKnowledgeBases:
    """Return the knowledge bases, as who may do everything has them."""
    return opened.kb if isinstance(opened, KnowledgeClient) else opened.documents.for_principal(LOCAL)


def kept(*ids: UUID) -> list[Any]:
    """Return ids as whoever kept them in a file reads them back."""
    told: list[Any] = json.loads(json.dumps([str(each) for each in ids]))
    return told


async def fails(opened: AnyKnowledge, failure: str = FAILURE, **told: Any) -> Any:
    return await opened.capture.capture_failure_solution(
        project_id="first", agent_type="backend", failure_description=failure, **told
    )


@pytest.mark.long
async def test_an_orchestrator_may_keep_ids_as_texts(opened: AnyKnowledge) -> None:
    (entry_id,) = kept(await fails(opened))
    await opened.capture.resolve_failure(entry_id, solution_steps=SOLUTION, verified_by="pytest")
    assert (await opened.capture.get(entry_id)).status is EntryStatus.STAGED
    report = await opened.checkpoints.process_checkpoint("first", "manual")
    assert (await opened.checkpoints.get(*kept(report.checkpoint_id))).embedded == 1

    task = {"description": FAILURE, "project_id": "second", "task_id": "T-1"}
    context = await OrchestratorContextBuilder(opened).build_context_for_task(task, "backend")
    context_id, pattern_id = kept(context.context_id, context.patterns[0].pattern_id)
    assert str(await opened.outcomes.record_outcome(context_id, pattern_id, worked=True)) == pattern_id
    pattern = await opened.queries.get(pattern_id)
    assert (pattern.success_count, pattern.attempt_count, pattern.project_count) == (2, 2, 2)

    await opened.capture.delete(entry_id)
    assert await opened.queries.query_for_failure(FAILURE) == []


async def test_what_waits_is_listed_from_behind_the_text_of_an_id(opened: AnyKnowledge) -> None:
    for failure in (FAILURE, "The report cannot be opened"):
        await fails(opened, failure)
    first, second = await opened.capture.unresolved()
    (last,) = kept(first.entry_id)
    assert await opened.capture.unresolved(limit=1, after=last) == [second]


@over(
    "field, told",
    [("limit", told) for told in ("five", 2.5, True, 0)] + [("after", told) for told in ("x", 5, b"x")],
)
async def test_a_page_of_another_type_is_refused_by_its_name(opened: AnyKnowledge, field: str, told: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}: must be "):
        await opened.capture.unresolved(**{field: told})


@pytest.mark.long
async def test_patterns_are_joined_and_split_by_the_texts_of_their_ids(opened: AnyKnowledge) -> None:
    other = "The nightly export stops with PermissionError on the report folder"
    for failure, solution in ((FAILURE, SOLUTION), (other, "Give the folder to the group of the export")):
        await fails(opened, failure, solution_steps=solution, success_verified=True, verified_by="pytest")
    await opened.checkpoints.process_checkpoint("first", "manual")
    keep, absorbed = await opened.lists.patterns()
    (told,) = kept(keep.pattern_id)
    with pytest.raises(InvalidInput, match=r"^other: is the pattern to keep"):
        await opened.grouping.join(told, keep.pattern_id)
    joined = await opened.grouping.join(*kept(keep.pattern_id, absorbed.pattern_id))
    assert set(joined.entry_ids) == {*keep.entry_ids, *absorbed.entry_ids}
    split = await opened.grouping.split(kept(*absorbed.entry_ids))
    assert split.entry_ids == absorbed.entry_ids
    assert (await opened.grouping.show(told)).pattern.entry_ids == keep.entry_ids


Call = Callable[[AnyKnowledge, Any], Awaitable[object]]
TAKES_AN_ID: list[tuple[str, Call]] = [
    ("entry_id", lambda opened, told: opened.capture.get(told)),
    ("entry_id", lambda opened, told: opened.capture.delete(told)),
    ("entry_id", lambda opened, told: opened.capture.resolve_failure(told, solution_steps="x", verified_by="x")),
    ("entry_id", lambda opened, told: opened.capture.resolve_gate_rejection(told, revision_approach="x")),
    ("pattern_id", lambda opened, told: opened.capture.delete_pattern(told)),
    ("checkpoint_id", lambda opened, told: opened.checkpoints.get(told)),
    ("pattern_id", lambda opened, told: opened.queries.get(told)),
    ("context_id", lambda opened, told: opened.outcomes.record_outcome(told, PatternId(uuid4()), worked=True)),
    ("pattern_id", lambda opened, told: opened.outcomes.record_outcome(ContextId(uuid4()), told, worked=True)),
    ("pattern_id", lambda opened, told: opened.grouping.show(told)),
    ("other", lambda opened, told: opened.grouping.join(PatternId(uuid4()), told)),
    ("entry_ids", lambda opened, told: opened.grouping.split([told])),
    ("entry_id", lambda opened, told: opened.reviews.show(told)),
    ("entry_id", lambda opened, told: opened.reviews.approve(told)),
    ("entry_id", lambda opened, told: opened.reviews.reject(told)),
]


@over("told", ["x", "", "\ud800", "../patterns", 5, None, b"x", ["x"]])
async def test_what_is_no_id_is_refused_by_its_name(opened: AnyKnowledge, told: Any) -> None:
    for field, call in TAKES_AN_ID:
        with pytest.raises(InvalidInput, match=rf"^{field}: (is required$|must be an id \(a UUID\), not )"):
            await call(opened, told)


TAKES_A_SCOPE: list[Call] = [
    lambda opened, told: bases(opened).list_documents("case", told),
    lambda opened, told: bases(opened).add("case", told, NewDocument(uri="a.md", content=b"x")),
    lambda opened, told: bases(opened).delete("user", told, [DocumentId(uuid4())]),
    lambda opened, told: bases(opened).grantees("team", told),
    lambda opened, told: bases(opened).grant("team", told, "ann"),
    lambda opened, told: bases(opened).close_case(told),
    lambda opened, told: bases(opened).delete_user(told),
    lambda opened, told: bases(opened).sync("case", told),
]


@over("told", ["a/b", "..", ".", "", "../../v1/stats", 5, UUID(int=1), b"x", ["x"]])
async def test_what_can_be_no_scope_is_refused_by_its_name(opened: AnyKnowledge, told: Any) -> None:
    for call in TAKES_A_SCOPE:
        with pytest.raises(InvalidInput, match=r"^scope_id: (?!there is nothing at)"):
            await call(opened, told)


def _document(**told: Any) -> NewDocument:
    given: dict[str, Any] = {"uri": "a.md", "content": b"x"}
    return NewDocument(**given | told)


LIMITS: list[Any] = [0, -1, "5", 2.0, True, 10**30]
SPANS: list[Any] = [None, 5, timedelta(-1), timedelta(days=10**6)]
OF_ANOTHER_TYPE: list[tuple[str, Callable[[Knowledge, Any], Awaitable[object]], list[Any]]] = [
    ("question", lambda opened, told: opened.kb.search(told), [5, None, b"x"]),
    ("k", lambda opened, told: opened.kb.search("x", k=told), ["5", 1.5, None, 0]),
    ("kb", lambda opened, told: opened.kb.search("x", kb=told), [5, ["global"]]),
    ("min_relevance", lambda opened, told: opened.kb.search("x", min_relevance=told), ["x", float("nan"), None]),
    ("documents", lambda opened, told: opened.kb.search("x", documents=told), ["x", ["x"], [5]]),
    ("content", lambda opened, told: opened.kb.add("global", None, _document(content=told)), ["text", None]),
    ("uri", lambda opened, told: opened.kb.add("global", None, _document(uri=told)), [5, b"a.md"]),
    ("tags", lambda opened, told: opened.kb.add("global", None, _document(tags=told)), ["text", (5,)]),
    ("limit", lambda opened, told: opened.kb.list_documents("global", None, limit=told), ["5", 1.5, -1]),
    ("after", lambda opened, told: opened.kb.list_documents("global", None, after=told), [5, b"x"]),
    ("document_ids", lambda opened, told: opened.kb.delete("global", None, told), ["x", ["x"], [5]]),
    ("source_id", lambda opened, told: opened.kb.forget_source("global", None, told), ["x", 5, None]),
    ("principal", lambda opened, told: opened.kb.grant("team", "t", told), [5]),
    ("limit", lambda opened, told: opened.audits.list(limit=told), ["5", 1.5, None, True, 0, 1001]),
    ("after", lambda opened, told: opened.audits.list(after=told), ["5", 1.5, 2**70, -1]),
    ("head", lambda opened, told: opened.audits.verify(head=told), [5]),
    ("limit", lambda opened, told: opened.keys.list(limit=told), ["5", 1.5, None, 0]),
    ("limit", lambda opened, told: opened.upkeep.dead(told), LIMITS),
    ("limit", lambda opened, told: opened.workspaces(limit=told), LIMITS),
    ("limit", lambda opened, told: opened.reviews.waiting(limit=told), LIMITS),
    ("limit", lambda opened, told: opened.grouping.suggest(limit=told), LIMITS),
    ("limit", lambda opened, told: opened.revocations.affected(EntryFilter(key_id="k"), limit=told), LIMITS),
    ("limit", lambda opened, told: opened.answering.journal.events(limit=told), LIMITS),
    ("staged_for", lambda opened, told: opened.checkpoints.sweep(staged_for=told), SPANS),
    ("overlap", lambda opened, told: opened.keys.rotate("0" * 12, overlap=told), SPANS),
    ("after", lambda opened, told: opened.keys.list(after=told), [5]),
    ("workspace", lambda opened, told: opened.keys.create(["query"], workspace=told), [5]),
    ("name", lambda opened, told: opened.keys.create(["query"], workspace=None, name=told), [5]),
    ("expires", lambda opened, told: opened.keys.create(["query"], workspace=None, expires_in=told), [5, "1 day"]),
    ("kb", lambda opened, told: LocalAnswers(opened).ask_base(told, None, "x"), ["nonsense", 5]),
    ("question", lambda opened, told: LocalAnswers(opened).ask_base("global", None, told), [5, None]),
    ("k", lambda opened, told: LocalAnswers(opened).ask_base("global", None, "x", told), ["5", 0]),
]


async def test_an_argument_of_another_type_is_refused_by_its_name_in_process(knowledge: Knowledge) -> None:
    """Errors of Python and of the database came through, and some calls answered as if nothing were wrong."""
    for field, call, values in OF_ANOTHER_TYPE:
        for told in values:
            with pytest.raises(InvalidInput, match=rf"^{field}: "):
                await call(knowledge, told)
    for none in (5, None):
        key_id: Any = none
        with pytest.raises(NotFound, match=f"there is no key {none} here"):
            await knowledge.keys.revoke(key_id)


async def test_a_base_that_is_one_takes_an_empty_scope_for_none(opened: AnyKnowledge) -> None:
    assert await bases(opened).list_documents("global", "") == await bases(opened).list_documents("global", None)


@over("told", ["", "..", "x/y", "../../v1/prune", 5, None])
async def test_what_is_no_id_is_refused_before_it_is_part_of_an_address(told: Any) -> None:
    """`revoke("../prune")` was asked of another route than the one that is named."""

    def sent(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    async with KnowledgeClient("http://hardwon", transport=httpx.MockTransport(sent)) as remote:
        for call in (
            remote.journal.review,
            remote.journal.close,
            lambda answer: remote.journal.feedback(answer, up=True),
            remote.keys.revoke,
            remote.keys.rotate,
        ):
            with pytest.raises(InvalidInput):
                await call(told)


@pytest.mark.parametrize("told", ["a/b", "..", ".", ""])
async def test_what_no_path_can_hold_is_not_sent(told: str) -> None:
    for field in ("kb", "principal", "job"):
        with pytest.raises(InvalidInput, match=rf"^{field}: .*without a slash"):
            path_segment(field, told)


ASKED: list[tuple[str, list[Any]]] = [
    ("max_results", ["five", 1.5, True]),
    ("min_relevance", ["half", 1.5, -1, True, float("nan")]),
    ("agent_type", [5, ["backend"], uuid4(), "\0", "x" * 70_000]),
    ("task_type", [5, "\0", "x" * 70_000]),
    ("technology", [5, "\0", "x" * 70_000]),
    ("facts", ["python", ["python"], 5]),
]


@over("field, values", ASKED)
async def test_a_question_with_a_value_of_another_type_is_refused_by_its_name(
    opened: AnyKnowledge, field: str, values: list[Any]
) -> None:
    for told in values:
        with pytest.raises(InvalidInput, match=rf"^{field}: "):
            await opened.queries.query_for_task("Show the total", **{field: told})
        with pytest.raises(InvalidInput, match=rf"^{field}: "):
            await opened.queries.query_for_failure("The total is wrong", **{field: told})


async def test_numbers_of_numpy_are_numbers(knowledge: Knowledge) -> None:
    await fails(knowledge, solution_steps=SOLUTION, success_verified=True, verified_by="pytest")
    await knowledge.checkpoints.process_checkpoint("first", "manual")
    for most, least in ((np.int64(3), np.float32(0.5)), (np.uint8(1), np.float64(0)), (3, np.int64(0))):
        told: dict[str, Any] = {"max_results": most, "min_relevance": least}
        assert len(await knowledge.queries.query_for_failure(FAILURE, **told)) == 1
        assert len(await knowledge.queries.query_for_task(FAILURE, **told)) == 1


@over("field", ["max_results", "min_relevance"])
@over("told", [np.bool_(1), np.float32(1.5), np.float32("nan"), np.array([1, 1]), np.int64(-1)])
async def test_what_of_numpy_is_no_such_number_is_refused(knowledge: Knowledge, field: str, told: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}: must be "):
        await knowledge.queries.query_for_failure(FAILURE, **{field: told})


async def test_a_flag_of_numpy_is_told_from_true_and_false(knowledge: Knowledge) -> None:
    told: Any = np.bool_(1)
    with pytest.raises(InvalidInput, match=r"^worked: must be true or false, not a value of another kind"):
        await knowledge.outcomes.record_outcome(ContextId(uuid4()), PatternId(uuid4()), worked=told)


@over("told", ["no", 1, None])
async def test_whether_it_worked_is_said_with_true_or_false(opened: AnyKnowledge, told: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^worked: "):
        await opened.outcomes.record_outcome(ContextId(uuid4()), PatternId(uuid4()), worked=told)


@over("told", [uuid4(), b"x", {1}])
async def test_what_json_has_no_form_for_is_refused_by_its_name(opened: AnyKnowledge, told: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^solution_steps: "):
        await opened.capture.resolve_failure(await fails(opened), solution_steps=told, verified_by="pytest")
    with pytest.raises(InvalidInput, match=r"^error_message: "):
        await opened.queries.query_for_failure("The total is wrong", told)
