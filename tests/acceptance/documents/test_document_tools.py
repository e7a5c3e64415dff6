"""The document tools of S0, end to end on the real stores, with and without a model."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
import structlog
from pydantic import SecretStr

from hardwon.errors import InvalidInput, NoAccess
from hardwon.models.documents import NewDocument
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.documents.access import AccessPolicy, Base, Permission, Principal, Readers, Scope
from knowledge.documents.answering.profiles import GlobalKBConfig
from knowledge.wiring.open import Knowledge
from orchestrator.qa import document_qa_tool
from orchestrator.qa.document_qa_tool import DocumentQATool
from orchestrator.qa.wrappers import AnswerFromCaseEvidence, AnswerFromGlobalKB, DocumentTool, document_tools
from tests.conftest import Opens, SetClock
from tests.support.answering import answered, quotes_line_with, sources_in
from tests.support.cases import over
from tests.support.clients import http_of
from tests.support.documents import ADMIN, GUIDE, add
from tests.support.openai_server import Fault, Misdeed, OpenAIServer, Reply, Status
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

WHERE = "Where do I look for ERR-4521 in the log of the connection pool?"
BASES = [("case", "7", 0), ("user", "ann", 1), ("global", None, 2), ("team", "x", 3)]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(says=quotes_line_with("ERR-4521")) as running:
        yield running


def with_model(server: OpenAIServer, role: str = "synthesis") -> dict[str, Any]:
    return {
        f"{role}_model": f"{role}-model",
        f"{role}_base_url": server.base_url,
        f"{role}_api_key": SecretStr(server.key),
    }


def declined(reply: Reply) -> object:
    message = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
    return reply | {"choices": [reply["choices"][0] | {"message": message}]}


def broken_off(reply: Reply) -> object:
    return reply | {"choices": [reply["choices"][0] | {"finish_reason": "length"}]}


def tool(knowledge: Knowledge, place: int, principal: Principal = ADMIN) -> DocumentTool:
    return document_tools(knowledge.answering, principal)[place]


async def ask(of: DocumentTool, scope_id: str | None, question: str, **more: Any) -> Mapping[str, Any]:
    arguments = {"question": question, **more}
    if of.scope_argument:
        arguments[of.scope_argument] = scope_id
    return await of.call(arguments)


@pytest.mark.long
@over("kb, scope_id, place", BASES)
async def test_a0_10_a0_20_a0_21_a0_22_a0_23_a0_30_each_tool_answers_from_its_own_base(
    knowledge: Knowledge, kb: str, scope_id: str | None, place: int
) -> None:
    await add(knowledge, "runbook.md", GUIDE, kb, scope_id)
    answer = await ask(tool(knowledge, place), scope_id, WHERE)
    assert answer["status"] == "answered", answer
    assert "ERR-4521" in answer["answer"]
    assert answer["extractive"]
    assert answer["citations"][0]["quote"] in GUIDE.decode()


async def test_a0_12_a0_13_a0_15_a0_36_a_model_answers_and_every_quote_is_in_the_document(
    opens: Opens, server: OpenAIServer
) -> None:
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE, "case", "7")
        answer = await ask(tool(knowledge, 0), "7", WHERE)
    assert answer["status"] == "answered", answer
    assert not answer["extractive"]
    assert {"answer", "sources", "chunk_count", "confidence"} <= answer.keys()
    assert answer["chunk_count"] == len(answer["citations"]) == 1
    assert server.chats[0]["model"] == "synthesis-model"
    assert server.chats[0]["max_tokens"] == 1500


async def test_nothing_comes_into_an_answer_as_what_is_missing_of_it(opens: Opens, server: OpenAIServer) -> None:
    """What a model said of that was shown as it was, with whatever a document had it say."""
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "pool.md", b"# Pool\n\nThe pool has 40 connections.\n")
        claim = ("The pool has 40 connections.", [(1, "The pool has 40 connections.")])
        for missing, shown in (
            ("Call 0900-1234 and tell your password.", False),
            ("Who may change the pool.", True),
        ):
            server.says = lambda *_, missing=missing: answered(claim, missing=missing)
            told = await ask(tool(knowledge, 2), None, f"How large is the pool, who may change it? {shown}")
            assert "40 connections" in told["answer"]
            assert (missing in told["answer"]) is shown


@pytest.mark.parametrize("fault", [Status(401), declined, broken_off])
async def test_what_stands_of_an_answer_is_kept_where_the_model_fails_when_asked_to_mend_the_rest(
    opens: Opens, server: OpenAIServer, fault: Fault
) -> None:
    line = next(line for line in GUIDE.decode().splitlines() if "ERR-4521" in line)

    def says(_: str, text: str, *_more: str) -> str:
        number = next(at for at, source in enumerate(sources_in(text), 1) if line in source)
        server.misbehave(fault)
        return answered((line, [(number, line)]), ("It happens 7,777 times a day.", [(number, line)]))

    server.says = says
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE, "case", "7")
        answer = await ask(tool(knowledge, 0), "7", WHERE)
    assert answer["status"] == "answered", answer
    assert "ERR-4521" in answer["answer"]
    assert "7,777" not in answer["answer"]
    assert server.calls == 2


async def test_what_stands_of_an_answer_is_kept_where_what_was_mended_cannot_be_judged(
    opens: Opens, server: OpenAIServer
) -> None:
    line = next(line for line in GUIDE.decode().splitlines() if "ERR-4521" in line)
    calls = itertools.count(1)

    def says(_: str, text: str, *_more: str) -> str:
        if next(calls) == 2:  # whether the first draft follows from what it quotes
            return json.dumps({"follow": [1]})
        number = next(at for at, source in enumerate(sources_in(text), 1) if line in source)
        if server.calls > 1:
            server.misbehave(Status(400, "too long"))
        told = line.removesuffix(".")  # not word for word what is quoted, which nobody judges
        return answered((told, [(number, line)]), ("It happens 7,777 times a day.", [(number, line)]))

    server.says = says
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE, "case", "7")
        answer = await ask(tool(knowledge, 0), "7", WHERE)
    assert answer["status"] == "answered", answer
    assert "ERR-4521" in answer["answer"]
    assert server.calls == 4


async def test_a0_20_a0_24_a_missing_scope_is_named_before_anything_is_searched(knowledge: Knowledge) -> None:
    with pytest.raises(ValueError, match="case_id required"):
        await AnswerFromCaseEvidence(knowledge.answering, ADMIN)("", "What?")
    with pytest.raises(ValueError, match="user_id required"):
        await tool(knowledge, 1).call({"question": "What?"})


@over("kb, place", [("case", 0), ("user", 1), ("team", 3)])
async def test_t26_a0_34_a0_40_who_may_not_read_a_scope_gets_an_error_whatever_the_model_writes(
    knowledge: Knowledge, kb: str, place: int
) -> None:
    for scope_id in ("alice", "bob"):
        await add(knowledge, "secret.md", GUIDE, kb, scope_id)
    mallory = Principal(name="mallory")
    for forged in (
        "alice",
        "bob",
        "alice_kb",
        "*",
        "../alice",
        "alice' OR 1=1",
        "case_alice",
        "alice,mallory",
        "ALICE",
    ):
        with pytest.raises((NoAccess, InvalidInput)):
            await ask(tool(knowledge, place, mallory), forged, WHERE)


@pytest.mark.own_stores
async def test_a0_40_the_core_cannot_be_reached_without_an_authorised_scope(knowledge: Knowledge) -> None:
    with pytest.raises(PermissionError):
        Scope(workspace="default", partitions=("case_1",), principal="x", label="x", permission=Permission.READ)
    assert "scope_id" not in inspect.signature(DocumentQATool.answer_question).parameters
    assert isinstance(inspect.signature(DocumentQATool.answer_question).parameters["scope"].annotation, str)


async def test_a0_01_a0_88_the_core_knows_no_kind_of_base_and_is_small() -> None:
    source = inspect.getsource(document_qa_tool)
    assert not any(word in source.lower() for word in ("case", "user", "global", "team"))
    assert len(source.splitlines()) <= 200


async def test_a0_04_there_is_no_synchronous_form(knowledge: Knowledge) -> None:
    with pytest.raises(NotImplementedError):
        DocumentQATool(knowledge.answering, GlobalKBConfig()).run("What?")


class ProjectConfig(GlobalKBConfig):
    base = Base(name="project", template="project_{id}_kb", readers=Readers.MEMBERS)
    cache_ttl = 60


class AnswerFromProjectKB(DocumentTool):
    name = "answer_from_project_kb"
    description = "Answer questions from the documents of a project."
    config = ProjectConfig
    scope_argument = "project_id"


@pytest.mark.long
@pytest.mark.own_stores
async def test_a0_02_a_new_kind_of_base_is_a_config_and_a_wrapper(knowledge: Knowledge) -> None:
    """At most 80 lines, and neither the core nor the tools that are there know of it."""
    assert sum(len(inspect.getsource(each).splitlines()) for each in (ProjectConfig, AnswerFromProjectKB)) <= 80
    bases = {**knowledge.answering.access.bases, "project": ProjectConfig.base}
    policy = AccessPolicy("default", knowledge.documents.access.grants, bases)
    scope = await policy.scope(ADMIN, "project", "p1", permission=Permission.WRITE)
    await knowledge.documents.library.add(NewDocument(uri="a.md", content=GUIDE), scope)
    await knowledge.documents.indexing.run()
    project = AnswerFromProjectKB(replace(knowledge.answering, access=policy), ADMIN)
    assert (await ask(project, "p1", WHERE))["status"] == "answered"
    assert (await ask(project, "p2", WHERE))["status"] == "empty_scope"


@pytest.mark.long
async def test_a0_05_a0_06_a0_16_fifty_questions_at_once_are_answered_as_one_by_one(knowledge: Knowledge) -> None:
    """Without the cache, which would give the same answer in any case."""
    for number in range(5):
        await add(knowledge, f"{number}.md", f"# Page {number}\n\nERR-452{number} stands on page {number}.\n".encode())
    answering = replace(knowledge.answering, answerer=replace(knowledge.answering.answerer, cache=None))
    questions = [f"On which page stands ERR-452{number % 5}?" for number in range(50)]
    one, other = AnswerFromGlobalKB(answering, ADMIN), AnswerFromGlobalKB(answering, ADMIN)
    before = {**vars(one), **vars(one._core)}
    together = await asyncio.gather(*(one(question) for question in questions))
    assert {**vars(one), **vars(one._core)} == before
    alone = [await other(question) for question in questions[:5]]
    assert together == alone * 10
    assert all(f"page {number % 5}." in each["answer"] for number, each in enumerate(together))
    assert not any(each["cached"] for each in together)


async def every_row(knowledge: Knowledge, *, but: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return what each table of the store holds."""
    found = {}
    async with transaction(knowledge.engine) as connection:
        tables = await connection.scalars(sa.text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        for table in set(tables.all()) - set(but):
            rows = await connection.scalars(sa.text(f'SELECT t::text FROM "{table}" t ORDER BY 1'))
            found[table] = list(rows.all())
    return found


async def test_a0_07_a_question_writes_to_no_document(opens: Opens, server: OpenAIServer) -> None:
    """Nothing but the kept answer is another, in no table and not in the index; with a model and without."""
    for settings in ({}, with_model(server)):
        async with opens(**settings) as knowledge:
            await add(knowledge, "runbook.md", GUIDE)
            room = await knowledge.documents.indexing.active_space()
            points = await knowledge.passages.scan(room.space, knowledge.workspace, after=None, limit=100)
            before = await every_row(knowledge, but=["answer_cache"])
            assert before["kb_chunks"]
            assert (await ask(tool(knowledge, 2), None, WHERE))["status"] == "answered"
            assert await every_row(knowledge, but=["answer_cache"]) == before
            assert await knowledge.passages.scan(room.space, knowledge.workspace, after=None, limit=100) == points


async def test_a0_14_a0_88_x_12_the_core_alone_asks_for_500_tokens_at_its_own_temperature(
    opens: Opens, server: OpenAIServer
) -> None:
    """With an authorised scope and a config, and no agent, wrapper or case around it."""
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE)
        scope = await knowledge.documents.access.scope(ADMIN, "global")
        for temperature in (None, 0.3):
            given = {} if temperature is None else {"temperature": temperature}
            core = DocumentQATool(knowledge.answering, GlobalKBConfig(), **given)
            assert (await core.answer_question(WHERE, scope))["status"] == "answered"
            assert server.chats[-1]["temperature"] == (temperature or 0.0)
            assert "at most 500 tokens in all claims" in server.chats[-1]["messages"][0]["content"]


@pytest.mark.long
async def test_a0_11_k_is_five_unless_it_is_told(opens: Opens, server: OpenAIServer) -> None:
    async with opens(**with_model(server)) as knowledge:
        for number in range(9):
            await add(
                knowledge,
                f"{number}.md",
                f"# Page {number}\n\nERR-4521 of the connection pool, in log {number}.\n".encode(),
            )
        for marks, (k, shown) in enumerate(((None, 5), (2, 2), (500, 9))):
            await ask(tool(knowledge, 2), None, WHERE + "!" * marks, **({} if k is None else {"k": k}))
            assert len(sources_in(server.chats[-1]["messages"][1]["content"])) == shown


async def test_a0_52_an_empty_scope_is_said_without_asking_a_model(opens: Opens, server: OpenAIServer) -> None:
    async with opens(**with_model(server)) as knowledge:
        answer = await ask(tool(knowledge, 0), "7", WHERE)
    assert answer["answer"].startswith("No documents found.")
    assert (answer["confidence"], answer["sources"], server.chats) == (0.0, [], [])


@pytest.mark.long
async def test_seed_defect_sources_are_the_cited_ones_and_a_failure_is_a_status(
    opens: Opens, server: OpenAIServer
) -> None:
    async with opens(**with_model(server), chat_timeout_seconds=1) as knowledge:
        await add(knowledge, "runbook.md", GUIDE)
        await add(knowledge, "other.md", b"# Other\n\nNothing of the kind, but a connection pool.\n")
        answer = await ask(tool(knowledge, 2), None, WHERE)
        assert answer["sources"] == ["Database Timeout Runbook"]
        server.always = Misdeed.RESET
        failed = await ask(tool(knowledge, 2), None, "Where do I see it?")
    assert failed["status"] == "error"
    assert "endpoint" in failed["error"]
    assert "endpoint" not in failed["answer"]


async def test_d5_f8_a_lying_model_is_asked_once_more_and_then_not_believed(opens: Opens, server: OpenAIServer) -> None:
    server.says = lambda *_: answered(("Look for ERR-9999.", [(1, "Look for ERR-9999 in the log")]))
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE)
        answer = await ask(tool(knowledge, 2), None, WHERE)
    assert answer["status"] == "not_found"
    assert "ERR-9999" not in answer["answer"]
    assert server.calls == 2
    assert "this is not in source 1" in server.chats[1]["messages"][-1]["content"]


@pytest.mark.parametrize("said", ["I think it is in the log.", answered(("Look for ERR-9999.", [(1, "ERR-9999")]))])
async def test_what_a_model_wrote_amiss_is_asked_for_again_the_next_time_and_that_nothing_is_found_is_kept(
    opens: Opens, server: OpenAIServer, said: str
) -> None:
    """F6: after an hour of nonsense from a model its questions had no answer for a week."""
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE)
        server.converses = lambda _: {"content": said}
        assert (await ask(tool(knowledge, 2), None, WHERE))["status"] == "not_found"
        assert server.calls == 2, "once more"
        server.converses = None
        assert (await ask(tool(knowledge, 2), None, WHERE))["status"] == "answered"
        server.says = lambda *_: answered()
        other = "Which error of the connection pool is in the log?"
        assert not (await ask(tool(knowledge, 2), None, other))["cached"]
        kept = await ask(tool(knowledge, 2), None, other)
    assert (kept["status"], kept["cached"]) == ("not_found", True)


async def test_f6_nothing_of_a_document_is_ever_in_a_system_message(opens: Opens, server: OpenAIServer) -> None:
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE)
        await ask(tool(knowledge, 2), None, WHERE)
    system, user = (message["content"] for message in server.chats[0]["messages"])
    assert "pool" not in system
    assert "ERR-4521 in the log of the connection pool" in user


async def test_seed_defect_a0_31_a_second_question_asks_no_model_until_its_time_is_over(
    opens: Opens, server: OpenAIServer, clock: SetClock
) -> None:
    """Each kind of base keeps its answers as long as the design says."""
    lifetimes = [3600, 86_400, 604_800, 43_200]
    async with opens(**with_model(server)) as knowledge:
        for (kb, scope_id, place), seconds in zip(BASES, lifetimes, strict=True):
            calls = server.calls
            await add(knowledge, "runbook.md", GUIDE, kb, scope_id)
            first = await ask(tool(knowledge, place), scope_id, WHERE)
            clock.move(timedelta(seconds=seconds - 1))
            second = await ask(tool(knowledge, place), scope_id, f"  {WHERE}")
            assert (second["answer"], second["cached"], server.calls) == (first["answer"], True, calls + 1)
            clock.move(timedelta(seconds=2))
            assert not (await ask(tool(knowledge, place), scope_id, WHERE))["cached"]
            assert server.calls == calls + 2


async def test_t27_f8_revoked_edited_and_deleted_documents_leave_no_stale_answer(knowledge: Knowledge) -> None:
    ann = Principal(name="ann")
    await add(knowledge, "runbook.md", GUIDE, "team", "x")
    await knowledge.documents.library.grant(ADMIN, "team", "x", "ann")
    team = tool(knowledge, 3, ann)
    assert (await ask(team, "x", WHERE))["status"] == "answered"
    assert (await ask(team, "x", WHERE))["cached"]
    await add(knowledge, "runbook.md", GUIDE.replace(b"ERR-4521", b"ERR-7777"), "team", "x")
    edited = await ask(team, "x", WHERE)
    assert not edited["cached"]
    assert not any("ERR-4521" in citation["quote"] for citation in edited["citations"])
    assert edited["missing_words"] in ([], ["ERR-4521"])
    await knowledge.documents.library.revoke(ADMIN, "team", "x", "ann")
    with pytest.raises(NoAccess):
        await ask(team, "x", WHERE)
    scope = await knowledge.documents.access.scope(ADMIN, "team", "x", permission=Permission.WRITE)
    listed = await knowledge.documents.library.list_documents(scope)
    await knowledge.documents.library.delete(scope, [each.document_id for each in listed])
    gone = await ask(tool(knowledge, 3), "x", WHERE)
    assert gone["status"] == "empty_scope"
    assert not gone["cached"]


async def test_f8_two_users_with_one_question_get_answers_of_their_own(knowledge: Knowledge) -> None:
    await add(knowledge, "runbook.md", GUIDE, "user", "ann")
    await add(knowledge, "runbook.md", GUIDE.replace(b"ERR-4521", b"ERR-8888"), "user", "bob")
    question = "Which error do I look for in the log of the connection pool?"
    for _ in range(2):
        for name, code in (("ann", "ERR-4521"), ("bob", "ERR-8888")):
            answer = await ask(tool(knowledge, 1, Principal(name=name)), name, question)
            assert code in answer["answer"]


async def test_a0_09_a0_82_a0_84_a0_86_x_13_a_conversation_is_used_where_it_is_given_and_never_kept(
    opens: Opens, server: OpenAIServer
) -> None:
    asked: list[str] = []

    def says(_: str, text: str) -> str:
        asked.append(text)
        if text.startswith("Conversation history"):
            return "Where do I look for ERR-4521 in the log?"
        return quotes_line_with("ERR-4521")(_, text)

    server.says = says
    talk: Sequence[Mapping[str, str]] = [{"role": "user", "content": "What is ERR-4521?"}]
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "runbook.md", GUIDE)
        of = AnswerFromGlobalKB(knowledge.answering, ADMIN)
        answer = await of("Where do I look for it?", conversation_context=talk)
        assert answer["searched"] == ["Where do I look for ERR-4521 in the log?"]
        assert '"question": "Where do I look for it?"' in asked[-1]
        plain = await of("Where do I look for it?")
        assert plain["searched"] == ["Where do I look for it?"]
        assert "What is ERR-4521?" not in asked[-1]
        kept = json.dumps(await every_row(knowledge))
        assert "Where do I look for ERR-4521 in the log?" in kept, "what was searched for is of the kept answer"
        assert "What is ERR-4521?" not in kept


def log_lines() -> bytes:
    lines = []
    for number in range(1, 201):
        level = "CRITICAL" if number in {42, 99, 150, 151, 152, 180, 199} else "INFO"
        lines.append(f"2025-10-19T14:{number // 60:02}:{number % 60:02}Z {level} request {number} of /api/payment")
    return "\n".join(lines).encode()


def alarms(count: int) -> list[str]:
    return [f"2025-10-19T{14 + m // 60}:{m % 60:02}:00Z CRITICAL disk {m} is full" for m in range(count)]


async def test_a0_47_a0_49_a_list_is_told_whole_however_long_it_is(knowledge: Knowledge) -> None:
    """Of 450 entries it said that they were all, and told 396."""
    lines = alarms(450)
    await add(knowledge, "app.log", "\n".join(f"{line}\nno entry {line[-9:]}" for line in lines).encode(), "case", "7")
    every = await ask(tool(knowledge, 0), "7", "Show me all CRITICAL entries with timestamps")
    told = every["answer"].split("\n")
    assert told[3].startswith("app.log: all 450 CRITICAL entries:")
    assert [entry.split(" [")[0].partition(": ")[2] for entry in told[4:-2]] == lines


@pytest.mark.parametrize("quoted", ["app.log: 60 CRITICAL entries.", "all 60 CRITICAL entries:", "3: 2025"])
async def test_a0_49_f6_a_list_that_a_model_speaks_of_is_told_by_code(
    opens: Opens, server: OpenAIServer, quoted: str
) -> None:
    """A model has room for 500 tokens, and a list may have 500 entries."""
    lines = alarms(60)
    server.says = quotes_line_with(quoted)
    async with opens(**with_model(server)) as knowledge:
        await add(knowledge, "app.log", "\n".join(lines).encode(), "case", "7")
        every = await ask(tool(knowledge, 0), "7", "Show me all CRITICAL entries with timestamps")
        assert (server.calls, every["extractive"], every["status"]) == (2, False, "answered"), "a plan, and an answer"
        for number, line in enumerate(lines, 1):
            assert f"\n{every['answer']}".count(f"\n{number}: {line} [app.log:{number} (") == 1
        cited = [each["lines"] for each in every["citations"] if " is full" in each["quote"]]
        assert sorted(place[0] for place in cited if place) == list(range(1, 61))


PHASES: list[tuple[str, str | None, str, str]] = [
    ("answer_from_case_evidence", "7", "What is on line 42 of the log?", "request 42"),
    ("answer_from_case_evidence", "7", "What is on line 150 of the log?", "request 150"),
    ("answer_from_global_kb", None, WHERE, "ERR-4521"),
]
"""Of each phase of an investigation the tool that is asked, its scope, the question, and what the answer holds."""


def investigates(told: dict[str, Any]) -> dict[str, Any]:
    """Ask the tool of the phase that is reached, as a main model would, then say that it is noted."""
    if "tools" not in told or told["messages"][-1]["role"] == "tool":
        return {"content": "Noted."}
    name, case_id, question, _ = PHASES[sum(each["role"] == "assistant" for each in told["messages"])]
    arguments = {"question": question} | ({"case_id": case_id} if case_id else {})
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


@pytest.mark.long
async def test_a0_27_a0_60_a0_61_a0_62_a0_63_a1_23_what_tools_answered_goes_along_from_phase_to_phase(
    opens: Opens, server: OpenAIServer
) -> None:
    """Over HTTP too: the third message's prompt holds what the first and the second found out."""
    with OpenAIServer() as main:
        main.converses = investigates
        async with opens(**with_model(server), **with_model(main, "main")) as knowledge:
            await add(knowledge, "app.log", log_lines(), "case", "7")
            await add(knowledge, "runbook.md", GUIDE)
            async with http_of(knowledge) as client:

                async def say(message: str, talk: object, **more: str) -> Mapping[str, Any]:
                    body = {"message": message, "conversation": talk, **more}
                    response = await client.post("/api/agent", json=body)
                    assert response.status_code == 200, response.text
                    reply: Mapping[str, Any] = response.json()
                    return reply

                talk: object = []
                for number, (name, _, question, fact) in enumerate(PHASES):
                    server.says = quotes_line_with(fact)
                    reply = await say(question, talk)
                    assert (reply["intent"], reply["tools"]) == ("kb_query", [name])
                    prompt = json.dumps(main.chats[-2]["messages"])
                    assert all(f"{before} of" in prompt for *_, before in PHASES[:number])
                    talk = reply["conversation"]
                small = await say("thanks a lot!", talk, strategy="conversation")
                assert (small["intent"], small["tools"], main.chats[-1].get("tools")) == ("chat_only", [], None)
                assert "request 42 of" not in json.dumps(main.chats[-1]["messages"])
                again = await say("thanks again!", talk, strategy="evidence")
                prompt = json.dumps(main.chats[-1]["messages"])
                assert "request 42 of" in prompt
                assert "connection pool." not in prompt
        asked = [turn["tool"] for turn in again["conversation"] if turn["tool"]]
        assert asked == [name for name, *_ in PHASES]
        assert {chat["model"] for chat in main.chats} == {"main-model"}
        assert {chat["model"] for chat in server.chats} == {"synthesis-model"}


async def test_a0_28_tools_share_stores_and_without_stores_there_are_none(knowledge: Knowledge) -> None:
    with structlog.testing.capture_logs() as told:
        tools = document_tools(knowledge.answering, ADMIN)
    assert len(tools) == 4
    assert {id(each._core._answering) for each in tools} == {id(knowledge.answering)}
    assert [(each["event"], each["tools"], each["of_class"]) for each in told] == [
        ("document_tools_made", 4, "DocumentQATool")
    ]
    assert document_tools(None, ADMIN) == []


async def test_x_04_a_workspace_that_is_local_only_never_asks_an_endpoint(opens: Opens, server: OpenAIServer) -> None:
    async with opens(**with_model(server)) as knowledge:
        scope = await knowledge.documents.access.scope(ADMIN, "global")
        assert not (await knowledge.answering.answerer.drafter(scope)).extractive
        await knowledge.stores.spaces.keep_local(on=True)
        assert (await knowledge.answering.answerer.drafter(scope)).extractive
        assert await knowledge.answering.main() is None
    assert not server.chats
