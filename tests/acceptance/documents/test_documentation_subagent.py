"""The documentation subagent of S2 on the real stores: its contract, its thresholds, its telemetry, its escalations."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import quantiles
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
import sqlalchemy as sa
from pydantic import SecretStr

from hardwon.errors import IndexUnavailable, NotFound, StorageUnavailable
from hardwon.models.answers import Event, EventId, Priority
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.documents.access import Principal
from knowledge.documents.answering.llm_draft import Draft
from knowledge.documents.answering.rendering import NOTHING_YET, STILL_INDEXING
from knowledge.documents.journal import MAX_OCCURRENCES, NewEscalation, one_business_day_after
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.qa import documentation
from orchestrator.qa.documentation import (
    COMPLETED,
    DOCUMENTATION_PROMPT,
    LATENCY_BUDGET_MS,
    STARTED,
    DocumentationQASubagent,
    DocumentationRequest,
)
from orchestrator.qa.planner import PlannerResults, PlannerSteps
from orchestrator.qa.telemetry import QUESTION_ANSWERED, Telemetry
from tests.acceptance.documents.test_document_tools import with_model
from tests.conftest import Opens, SetClock
from tests.support.answering import answered, quotes_line_with
from tests.support.cases import read_sample
from tests.support.clients import http_of
from tests.support.documents import ADMIN, add, put
from tests.support.openai_server import Misdeed, OpenAIServer, Status
from tests.support.sharing import OF_ONE_LOOP, opens, own, shared

__all__ = ["opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

QUOTES = read_sample("documentation_subagent_quotes.txt").encode()
QUESTION = "How do I convert a quote into a sales order?"
STEP = {
    "session_id": 4815162342,
    "step_id": "plan-step-2",
    "question": QUESTION,
    "context": {
        "conversation_tail": [
            {"role": "user", "content": "We sent a quote yesterday"},
            {"role": "assistant", "content": "Do you want to convert it?"},
        ],
        "focus": {"module": "quotes", "workflow": "quote_to_sales_order"},
    },
    "planner_payload": {"tool_name": "documentation_qa", "result_key": "quote_conversion_doc"},
}
FIELDS = {"step_id", "status", "answer", "citations", "reasoning", "metrics", "result_key"}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(says=quotes_line_with("Convert a quote")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def knowledge(opens: Opens, server: OpenAIServer) -> AsyncIterator[Knowledge]:
    async with opens(**with_model(server), chat_timeout_seconds=1) as opened:
        await add(opened, "quotes.md", QUOTES)
        room = await opened.documents.search.active_space()
        await opened.documents.quotes.keep_scale(room.space, 0.0, 0.2, 100)  # of the embedder of these tests
        yield opened


def subagent(knowledge: Knowledge) -> DocumentationQASubagent:
    return DocumentationQASubagent(
        knowledge.answering, Telemetry(knowledge.answering.journal, knowledge.answering.clock)
    )


async def call(knowledge: Knowledge, method: str, path: str, body: Any = None) -> Any:
    async with http_of(knowledge) as client:
        response = await client.request(method, path, json=body)
    assert response.status_code in {200, 204}, response.text
    return response.json() if response.content else None


async def status_of(knowledge: Knowledge, path: str, body: Any) -> int:
    async with http_of(knowledge) as client:
        content, headers = json.dumps(body), {"content-type": "application/json"}
        return (await client.post(path, content=content, headers=headers)).status_code


@pytest.mark.long
async def test_a2_02_a2_03_a2_04_a2_18_x_26_the_contract_of_the_planner(knowledge: Knowledge) -> None:
    told = await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
    assert told.keys() >= FIELDS
    assert "error" not in told
    assert (told["step_id"], told["result_key"], told["status"]) == ("plan-step-2", "quote_conversion_doc", "success")
    assert "Convert to Sales Order" in told["answer"]
    [citation] = told["citations"]
    assert citation["title"] == "Quotes"
    assert citation["path"] == "quotes.md"
    assert 0 < citation["score"] <= 1
    assert "Quotes to Sales Orders" in told["reasoning"]
    assert told["metrics"].keys() == {"latency_ms", "retrieval_count"}
    assert told["metrics"]["retrieval_count"] > 0


@pytest.mark.parametrize("session", [4815162342, "4815162342", None])
async def test_x_25_a_session_may_be_a_number_or_a_text(knowledge: Knowledge, session: object) -> None:
    told = await call(knowledge, "POST", "/subagents/documentation-qa", {**STEP, "session_id": session})
    assert told["status"] == "success"
    kept = await knowledge.answering.journal.events(name=COMPLETED)
    assert kept[0].session == (None if session is None else "4815162342")


async def test_a2_03_a2_11_x_11_seed_defect_no_answer_has_guidance_and_asks_no_model_where_nothing_is_near(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    told = await call(knowledge, "POST", "/subagents/documentation-qa", {**STEP, "question": "zebra?", "context": {}})
    assert told.keys() >= FIELDS
    assert (told["status"], told["citations"], told["step_id"]) == ("no_answer", [], "plan-step-2")
    assert told["result_key"] == "quote_conversion_doc"
    assert "ask support" in told["answer"]
    assert not server.chats


async def test_a2_11_a_no_answer_says_whether_anything_is_there_yet(opens: Opens) -> None:
    """What waits to be indexed is no gap in the documents, and no work for those who write them."""
    async with opens() as knowledge:
        empty = await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
        assert (empty["status"], empty["answer"]) == ("no_answer", NOTHING_YET)
        [escalation] = await call(knowledge, "GET", "/api/escalations")
        await put(knowledge, "quotes.md", QUOTES)
        waiting = await call(knowledge, "POST", "/subagents/documentation-qa", {**STEP, "session_id": 7})
        assert (waiting["status"], waiting["answer"]) == ("no_answer", STILL_INDEXING)
        assert await call(knowledge, "GET", "/api/escalations") == [escalation]


@pytest.mark.parametrize("question", ["zebra?", QUESTION])
async def test_a2_11_what_waits_beside_other_documents_is_waited_for(
    knowledge: Knowledge, server: OpenAIServer, question: str
) -> None:
    """Nothing was near, or nothing was quoted: the document that answers is not there yet, which is no gap."""
    server.says = lambda *_: answered(missing="how to convert a quote")
    await put(knowledge, "zebras.md", b"# Zebras\n\nA zebra converts a quote.\n")
    asked = {**STEP, "question": question, "context": {}}
    waiting = await call(knowledge, "POST", "/subagents/documentation-qa", asked)
    assert (waiting["status"], waiting["answer"]) == ("no_answer", STILL_INDEXING)
    assert bool(server.chats) is (question == QUESTION)
    assert await call(knowledge, "GET", "/api/escalations") == []
    await knowledge.documents.indexing.run()
    await call(knowledge, "POST", "/subagents/documentation-qa", {**asked, "session_id": 7})
    assert len(await call(knowledge, "GET", "/api/escalations")) == 1


@pytest.mark.long
async def test_a2_03_a2_13_seed_defect_a_failed_model_and_a_failed_search_are_errors_with_a_trace_id(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    """A2-04: what the planner gave comes back with an error, too."""
    server.always = Misdeed.RESET
    told = await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
    assert told.keys() >= FIELDS | {"error"}
    assert (told["status"], told["result_key"]) == ("error", "quote_conversion_doc")
    assert told["error"]["message"]
    assert len(told["error"]["trace_id"]) == 16

    class Down:
        async def search(self, *_: object) -> object:
            raise IndexUnavailable("the index is down")

    object.__setattr__(knowledge.answering.by_queries, "searcher", Down())
    told = await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
    assert (told["status"], told["error"]["message"]) == ("error", "the index is down")
    assert (told["step_id"], told["result_key"], told["answer"]) == ("plan-step-2", "quote_conversion_doc", "")
    events = await knowledge.answering.journal.events(name=COMPLETED)
    assert [event.payload["status"] for event in events] == ["error", "error"]
    assert all(event.payload.keys() >= {"coverage_score", "retrieval_count", "error"} for event in events)
    assert told["error"]["trace_id"] in {event.payload["trace_id"] for event in events}
    best_effort = {"question": QUESTION}
    assert await status_of(knowledge, "/subagents/documentation-qa:best-effort", best_effort) == 503, (
        "an operator is not told that the documentation does not answer"
    )


async def test_a2_10_a2_05_the_model_gets_the_rules_and_the_conversation(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
    [system, user] = (message["content"] for message in server.chats[-1]["messages"])
    assert DOCUMENTATION_PROMPT in system
    for rule in ("retrieved documentation only", "labels of the user interface exactly", "Refuse"):
        assert rule in system
    assert "We sent a quote yesterday" in user


async def test_a2_05_what_a_focus_leaves_empty_is_no_word_of_the_search(knowledge: Knowledge) -> None:
    focus = {"module": None, "page": "", "features": ["quote_lines", "orders"], "step": 3}
    await call(
        knowledge, "POST", "/subagents/documentation-qa", {"question": "Where is it?", "context": {"focus": focus}}
    )
    [completed] = await call(knowledge, "GET", f"/api/events?name={COMPLETED}")
    assert completed["payload"]["searched"] == ["Where is it?", "Where is it? quote lines orders 3"]
    assert completed["payload"]["focus"] == focus


async def test_seed_defect_only_what_is_cited_is_a_citation(knowledge: Knowledge, server: OpenAIServer) -> None:
    server.says = lambda *_: answered(("Press Delete on the quote.", [(2, "Press Delete on the quote.")]))
    told = await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
    assert len(told["citations"]) <= 1 < told["metrics"]["retrieval_count"]


async def test_a2_14_a2_20_a2_24_events_can_be_read_back_and_reviewed(knowledge: Knowledge) -> None:
    await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
    [started] = await call(knowledge, "GET", f"/api/events?name={STARTED}&session=4815162342")
    assert started["payload"] == {"question": QUESTION, "focus": STEP["context"]["focus"]}  # type: ignore[index]
    [completed] = await call(knowledge, "GET", f"/api/events?name={COMPLETED}&session=4815162342")
    assert completed["step"] == "plan-step-2"
    assert completed["payload"].keys() >= {
        "question",
        "focus",
        "coverage_score",
        "retrieval_count",
        "latency_ms",
        "status",
        "passages",
    }
    assert all(each.keys() >= {"id", "title", "section", "score"} for each in completed["payload"]["passages"])
    await call(knowledge, "POST", f"/api/events/{completed['event_id']}/review")
    [again] = await call(knowledge, "GET", f"/api/events?name={COMPLETED}")
    assert again["reviewed"] is True
    with pytest.raises(NotFound):
        await knowledge.answering.journal.review(UUID(int=7))  # type: ignore[arg-type]
    refused = [
        {**STEP, "question": " "},
        {**STEP, "context": {"conversation_tail": [{"role": "user", "content": "\ud800"}]}},
        {**STEP, "planner_payload": {"tool_name": "docker_build"}},
    ]
    for body in refused:
        assert await status_of(knowledge, "/subagents/documentation-qa", body) == 422
    assert len(await knowledge.answering.journal.events(name=STARTED)) == 1, "what is refused is not started either"


async def test_a2_15_a_sink_that_fails_never_fails_the_answer(knowledge: Knowledge) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            async def fails(*_: object, **__: object) -> None:
                raise StorageUnavailable("no journal") if name == "record" else OSError("no disk")

            return fails

    telemetry = Telemetry(Broken(), knowledge.answering.clock)
    for question in (QUESTION, "zebra?"):
        told = await DocumentationQASubagent(knowledge.answering, telemetry).answer(
            DocumentationRequest(question=question), ADMIN
        )
        assert told["status"] in {"success", "no_answer"}


async def test_a2_16_a4_21_f7_figures_are_made_of_events(
    knowledge: Knowledge, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call(knowledge, "POST", "/subagents/documentation-qa", STEP)
    await call(knowledge, "POST", "/subagents/documentation-qa", {**STEP, "question": "zebra?", "context": {}})
    figures = await call(knowledge, "GET", "/api/answer-metrics")
    assert (figures["answers"], figures["answered_rate"], figures["no_answer_rate"]) == (2, 0.5, 0.5)
    assert figures["over_budget_rate"] == 0.0
    completed = await knowledge.answering.journal.events(name=COMPLETED)
    coverage = [event.payload["coverage_score"] for event in completed]
    assert figures["mean_coverage"] == round(sum(coverage) / 2, 4) > 0
    monkeypatch.setattr(documentation, "LATENCY_BUDGET_MS", -1)
    server.says = lambda *_: answered(
        ("Press Delete on the quote.", [(2, "Press Delete on the quote.")]), ("Made up.", [(1, "Made up.")])
    )
    await call(knowledge, "POST", "/subagents/documentation-qa", {**STEP, "session_id": 3})
    figures = await call(knowledge, "GET", "/api/answer-metrics")
    assert figures["over_budget_rate"] == 0.3333
    assert figures["dropped_claims"] == 1


async def test_a2_23_a2_25_a2_26_f8_a_question_without_an_answer_becomes_work_with_a_due_date(
    knowledge: Knowledge, clock: SetClock
) -> None:
    asked = {**STEP, "question": "How do I archive a quote for good?"}
    await add(knowledge, "quotes.md", QUOTES + b"\n## Archiving\n\n" + b"How to archive a quote for good. " * 60)
    knowledge_server = {**asked, "context": {"conversation_tail": [{"role": "user", "content": "Hi"}]}}
    await _unanswered(knowledge, knowledge_server)
    [first] = await call(knowledge, "GET", "/api/escalations")
    assert first["transcript"] == [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "How do I archive a quote for good?"},
    ]
    [completed] = await call(knowledge, "GET", f"/api/events?name={COMPLETED}")
    shown = [each["id"] for each in completed["payload"]["passages"]]
    assert len(set(first["passage_ids"])) == len(first["passage_ids"]) > len(shown), "each chunk of those that touch"
    assert set(shown) <= set(first["passage_ids"])
    assert re.fullmatch(r"Answer it in the documentation; nearest is Quotes( > [\w ]+)?\.", first["suggested_fix"])
    assert (first["priority"], first["occurrences"]) == ("normal", 1)
    assert first["due_at"].startswith("2026-01-16")
    clock.move(timedelta(days=6))
    assert await call(knowledge, "GET", "/api/escalations?overdue=true")
    await _unanswered(knowledge, {**asked, "question": "how do I archive a quote for good"})
    [again] = await knowledge.answering.journal.escalations(clock.now(), overdue=True)
    assert (again.priority, again.occurrences) == (Priority.HIGH, 2)
    await call(knowledge, "POST", f"/api/escalations/{again.escalation_id}/close")
    assert await call(knowledge, "GET", "/api/escalations") == []


async def test_a2_26_the_same_question_after_more_than_a_week_does_not_raise_the_priority(
    knowledge: Knowledge, clock: SetClock
) -> None:
    asked = {**STEP, "question": "How do I archive a quote for good?"}
    await _unanswered(knowledge, asked)
    clock.move(timedelta(days=8))
    await _unanswered(knowledge, asked)
    [escalation] = await knowledge.answering.journal.escalations(clock.now(), overdue=True)
    assert (escalation.priority, escalation.occurrences) == (Priority.NORMAL, 1)


async def test_a_question_that_is_asked_without_end_keeps_its_last_times_only(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """Each time wrote a row anew that had grown by it."""
    journal = knowledge.answering.journal
    asked = NewEscalation(question="How?", transcript=[], passage_ids=[], suggested_fix="Write it down.")
    await journal.escalate(asked, clock.now())
    async with knowledge.engine.begin() as connection:
        many = sa.text("UPDATE escalations SET asked_at = array_fill(:at, ARRAY[CAST(:times AS int)])")
        many = many.bindparams(sa.bindparam("at", clock.now(), sa.DateTime(timezone=True)))
        await connection.execute(many, {"times": 2 * MAX_OCCURRENCES})
    clock.move(timedelta(days=1))
    again = await journal.escalate(asked, clock.now())
    assert (again.priority, again.occurrences) == (Priority.HIGH, MAX_OCCURRENCES)
    clock.move(timedelta(days=6.5))
    assert (await journal.escalate(asked, clock.now())).occurrences == 2, "the last times"


@pytest.mark.long
@pytest.mark.own_stores
async def test_what_was_told_of_documents_goes_after_a_year_and_what_is_open_stays(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """Events of each question were kept for good, and with them what people asked."""
    journal, answer = knowledge.answering.journal, uuid4()
    done, left = [
        await journal.escalate(
            NewEscalation(question=question, transcript=[], passage_ids=[], suggested_fix="Write it down."), clock.now()
        )
        for question in ("How?", "Why?")
    ]
    await journal.close(done.escalation_id, clock.now())
    await journal.record(Event(event_id=EventId(answer), name=QUESTION_ANSWERED, happened_at=clock.now(), payload={}))
    await journal.feedback(answer, up=True, comment="Thanks", now=clock.now())

    async def kept() -> tuple[int, bool, list[str]]:
        async with knowledge.engine.connect() as connection:
            questions = await connection.scalars(sa.text("SELECT question FROM escalations ORDER BY question"))
            return len(await journal.events()), await journal.feedback_of(answer) is not None, list(questions)

    clock.move(timedelta(days=365) - timedelta(seconds=1))
    await knowledge.pruning.prune()
    assert await kept() == (1, True, ["How?", "Why?"])
    clock.move(timedelta(seconds=2))
    await knowledge.pruning.prune(dry_run=True)
    assert await kept() == (1, True, ["How?", "Why?"])
    await knowledge.pruning.prune()
    assert await kept() == (0, False, ["Why?"])
    assert [each.escalation_id for each in await journal.escalations(clock.now())] == [left.escalation_id]


async def _unanswered(knowledge: Knowledge, asked: dict[str, Any]) -> None:
    drafter = knowledge.answering.answerer.drafter
    try:

        async def silent(scope: Any) -> Any:
            found: Any = await drafter(scope)

            class Silent(type(found)):  # type: ignore[misc]
                async def draft(self, asked: Any) -> Any:
                    return Draft()

            return Silent(found.language_model)

        object.__setattr__(knowledge.answering.answerer, "drafter", silent)
        told = await call(knowledge, "POST", "/subagents/documentation-qa", asked)
        assert told["status"] == "no_answer"
    finally:
        object.__setattr__(knowledge.answering.answerer, "drafter", drafter)


@pytest.mark.parametrize(
    ("asked", "due"),
    [("2026-01-15T12:00", "2026-01-16"), ("2026-01-16T12:00", "2026-01-19"), ("2026-01-17T12:00", "2026-01-19")],
)
def test_a2_25_an_escalation_is_due_a_business_day_later(asked: str, due: str) -> None:
    assert one_business_day_after(datetime.fromisoformat(asked)).date().isoformat() == due


async def test_a2_22_an_operator_gets_a_best_effort_with_its_caveats(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    server.says = lambda *_: answered(missing="an undo")
    told = await subagent(knowledge).best_effort("Is there an undo for deleted quotes?", ADMIN)
    assert told.startswith("Not a confirmed answer")
    assert "quotes.md" in told
    server.says = quotes_line_with("Convert a quote")
    told = await subagent(knowledge).best_effort(QUESTION, ADMIN)
    assert "Convert to Sales Order" in told
    assert told.endswith("\nFrom: Quotes (quotes.md)"), "with where it stands"


async def test_a2_30_steps_with_one_result_key_ask_once_in_a_session(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    """A2-30: over HTTP as in process; but never of documents as they were, nor for another asker."""
    results = PlannerResults()
    request = DocumentationRequest(
        question=QUESTION, session_id=1, step_id="a", result_key="key", focus={"workflow": "quote_to_sales_order"}
    )
    first = await results.answer(subagent(knowledge), request, ADMIN)
    assert first["status"] == "success"
    again = await results.answer(subagent(knowledge), replace(request, step_id="b"), ADMIN)
    assert (again["answer"], again["step_id"], len(server.chats)) == (first["answer"], "b", 1)
    beside = [replace(request, step_id=step, result_key="other") for step in ("c", "d")]
    told = await asyncio.gather(*(results.answer(subagent(knowledge), each, ADMIN) for each in beside))
    assert ([each["step_id"] for each in told], len(server.chats)) == (["c", "d"], 2), "steps side by side ask once"
    for other, who in (
        (replace(request, session_id=2), ADMIN),
        (replace(request, question=f"{QUESTION} Please."), ADMIN),
        (replace(request, result_key=None), ADMIN),
        (request, Principal(name="ann")),
    ):
        asked = len(server.chats)
        await results.answer(subagent(knowledge), other, who)
        assert len(server.chats) == asked + 1
    await add(knowledge, "quotes.md", QUOTES.replace(b"press Convert", b"choose Convert"))
    renewed = await results.answer(subagent(knowledge), request, ADMIN)
    assert "choose Convert to Sales Order" in renewed["citations"][0]["quote"]


async def test_a2_30_the_route_gives_a_result_key_its_first_answer_again(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    async with http_of(knowledge) as client:
        first = (await client.post("/subagents/documentation-qa", json=STEP)).json()
        again = (await client.post("/subagents/documentation-qa", json={**STEP, "step_id": "plan-step-9"})).json()
    assert again == {**first, "step_id": "plan-step-9"}
    assert len(server.chats) == 1


async def test_a2_17_a2_01_planners_have_it_where_the_flag_is_set_and_the_endpoint_always(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KnowledgeSettings().enable_documentation_qa_subagent is False
    monkeypatch.setenv("AI_ENABLE_DOCUMENTATION_QA_SUBAGENT", "true")
    assert KnowledgeSettings().enable_documentation_qa_subagent is True
    off, on = PlannerSteps.of(knowledge), PlannerSteps(subagent=subagent(knowledge), enabled=True)
    flagged = knowledge.settings.model_copy(update={"enable_documentation_qa_subagent": True})
    assert PlannerSteps.of(dataclasses.replace(knowledge, settings=flagged)).enabled
    assert await off.take(STEP, ADMIN) is None
    taken = await on.take(STEP, ADMIN)
    assert taken is not None
    assert (taken["status"], taken["result_key"], taken["step_id"]) == (
        "success",
        "quote_conversion_doc",
        "plan-step-2",
    )
    lookup = {**STEP, "planner_payload": {"lookup_type": "documentation_lookup"}}
    assert await on.take(lookup, ADMIN) is not None
    far = "Who feeds zebras in winter in Zurich?"
    silent = [{"role": "assistant", "content": None}, {"role": None}]
    assert await on.take({**STEP, "step_id": 7, "question": far, "context": {"conversation_tail": silent}}, ADMIN)
    [event] = [each for each in await knowledge.answering.journal.events(name=COMPLETED) if each.step == "7"]
    assert event.payload["searched"] == [far], "a turn without words has none"
    for other in ({"tool_name": "docker_build"}, {"lookup_type": "row_selection"}, {}):
        assert await on.take({**STEP, "planner_payload": other}, ADMIN) is None
    assert (await call(knowledge, "POST", "/subagents/documentation-qa", STEP))["status"] == "success"


@pytest.mark.parametrize("enabled", [False, True])
async def test_a2_17_the_main_agent_has_the_subagent_as_a_tool_where_the_flag_is_set(
    opens: Opens, server: OpenAIServer, *, enabled: bool
) -> None:
    quoting = quotes_line_with("Convert a quote")

    def converses(asked: dict[str, Any]) -> dict[str, Any]:
        if not asked.get("tools"):
            return {"content": quoting(*(message["content"] for message in asked["messages"]))}
        if asked["messages"][-1]["role"] == "tool":
            return {"content": "Press Convert to Sales Order."}
        names = [offered["function"]["name"] for offered in asked["tools"]]
        assert ("documentation_qa" in names) is enabled
        if not enabled:
            return {"content": "I cannot tell."}
        function = {"name": "documentation_qa", "arguments": json.dumps({"question": QUESTION, "focus": {"a": "b"}})}
        return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}

    server.converses = converses
    flagged: dict[str, Any] = {"enable_documentation_qa_subagent": enabled, "chat_timeout_seconds": 1}
    async with opens(**with_model(server), **with_model(server, "main"), **flagged) as knowledge:
        await add(knowledge, "quotes.md", QUOTES)
        told = await call(knowledge, "POST", "/api/agent", {"message": QUESTION})
        assert (told["tools"] == ["documentation_qa"]) is enabled
        assert bool(await knowledge.answering.journal.events(name=COMPLETED)) is enabled


@pytest.mark.long
async def test_a2_08_a2_29_x_20_our_own_part_of_an_answer_takes_little(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    """A2-29, X-20: 150 ms at the 95th percentile for our own part, of the 2 s that an answer has with a remote model.

    Measured is all of it, from the question to the last event of the journal, with a model that answers at once over
    HTTP: retrieval and verification, and the model's and the embedder's round trips besides. The best of three rounds
    counts, for what runs beside it can only add.
    """
    slowest = []
    for _ in range(3):
        asked, times = len(server.times), []
        for _ in range(41):
            began = time.perf_counter()
            told = await subagent(knowledge).answer(DocumentationRequest(question=QUESTION), ADMIN)
            times.append(time.perf_counter() - began)
            assert told["status"] == "success", "what is not answered is neither written nor verified"
        assert len(server.times) >= asked + len(times), "nothing was answered from memory"
        slowest.append(quantiles(times[1:], n=20)[18])
        if slowest[-1] < 0.15:
            break
    assert LATENCY_BUDGET_MS == 2_000, "what takes longer is told of by the figures"
    assert min(slowest) < 0.15, "0.10 s on two cores that had six other things to do"


@pytest.mark.own_stores
@pytest.mark.long
async def test_a2_08_a2_13_a4_13_a4_20_an_embedder_at_an_endpoint_is_waited_for_and_its_failures_are_told(
    opens: Opens, server: OpenAIServer
) -> None:
    """A2-08: others go on while a passage is retrieved. A2-13: a key it refuses is an error of the subagent's.

    A4-13, A4-20: where it limits the rate of calls, a lookup gives way to the plain search, whose question it knows.
    """
    quoting = quotes_line_with("Convert a quote")

    def looks_up_once(asked: dict[str, Any]) -> dict[str, Any]:
        if not asked.get("tools"):
            return {"content": quoting(*(message["content"] for message in asked["messages"]))}
        lookup = json.dumps({"document_names": ["Quotes"], "query": "orders of quotes"})
        function = {"name": "lookup_documents", "arguments": lookup}
        return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}

    with OpenAIServer() as endpoint:
        embedder = OpenAIEmbedder("some-model", base_url=endpoint.base_url, api_key=SecretStr(endpoint.key))
        models = {**with_model(server), **with_model(server, "main")}
        async with opens(embedder=embedder, **models, fallback_similarity_threshold=0.0) as knowledge:
            await add(knowledge, "quotes.md", QUOTES)
            room = await knowledge.documents.search.active_space()
            await knowledge.documents.quotes.keep_scale(room.space, -1.0, 0.0, 100)
            endpoint.seconds_per_call = 0.3
            asking = asyncio.create_task(
                call(knowledge, "POST", "/subagents/documentation-qa", {**STEP, "context": {}})
            )
            turns = 0
            while not asking.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert (await asking)["status"] == "success"
            assert turns > 10
            endpoint.seconds_per_call = 0.0
            endpoint.always = Status(401)
            refused = await call(
                knowledge, "POST", "/subagents/documentation-qa", {"session_id": 2, "question": "What is new?"}
            )
            assert refused["status"] == "error"
            completed = await knowledge.answering.journal.events(name=COMPLETED, session="2")
            assert [each.payload["status"] for each in completed] == ["error"]
            assert (await call(knowledge, "POST", "/api/ask", {"question": "What is old?"}))["status"] == "error"
            endpoint.always = None
            endpoint.misbehave(Status(429, headers={"Retry-After": "90"}))
            server.converses = looks_up_once
            picked = await call(knowledge, "POST", "/api/ask", {"question": QUESTION})
            assert (picked["lookups"], picked["fallback"], picked["status"]) == (1, True, "answered")


async def test_a2_28_workspaces_are_kept_apart(knowledge: Knowledge) -> None:
    other = knowledge.in_workspace("other")
    told = await subagent(other).answer(DocumentationRequest(question=QUESTION), ADMIN)
    assert told["status"] == "no_answer"
