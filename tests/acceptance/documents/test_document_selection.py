"""Documents that the model picks (S4), on the real stores: limits, fallbacks, and citations on every path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from hardwon.errors import EmbedderUnavailable, IndexUnavailable, InvalidSetting
from hardwon.models.documents import Document, NewDocument
from knowledge.documents.access import Permission, Principal
from knowledge.documents.answering.rendering import SELECTION_GUIDANCE
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.qa.document_selection import DocumentSelection
from orchestrator.qa.lookups import Documents, Lookups, get_tool_schema, validate_parameters
from orchestrator.qa.telemetry import Telemetry, metrics_of
from tests.acceptance.documents.test_document_tools import with_model
from tests.conftest import Opens
from tests.support.answering import quotes_line_with, sources_in
from tests.support.cases import case_by_case, over
from tests.support.clients import http_of
from tests.support.documents import ADMIN, GUIDE, add
from tests.support.openai_server import Misdeed, OpenAIServer, Status
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

LAWS = b"# Laws of Game 2024-25\n\n## Law 11\n\nA player in an offside position is not always penalised.\n"
VAR = b"# VAR Guidelines 2024\n\n## Reviews\n\nThe video referee reviews goals, penalties and red cards.\n"
OFFSIDE = "When is a player in an offside position penalised?"
LOW: dict[str, Any] = {"similarity_threshold": 0.0, "fallback_similarity_threshold": 0.0}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(says=quotes_line_with("offside")) as running:
        yield running


def looks_up(server: OpenAIServer, *rounds: list[dict[str, Any] | str]) -> list[Any]:
    """Have the endpoint ask for these lookups, round by round, then be done; answers come as quoted lines."""
    waiting = list(rounds)
    asked: list[Any] = []

    def converses(request: dict[str, Any]) -> dict[str, Any]:
        if "tools" not in request:
            system, user = (message["content"] for message in request["messages"][:2])
            return {"content": quotes_line_with("offside")(system, user)}
        asked.append(request)
        if not waiting or request["tool_choice"] == "none":
            return {"content": "done"}
        calls = [
            {
                "id": str(at),
                "type": "function",
                "function": {
                    "name": "lookup_documents",
                    "arguments": each if isinstance(each, str) else json.dumps(each),
                },
            }
            for at, each in enumerate(waiting.pop(0))
        ]
        return {"content": None, "tool_calls": calls}

    server.converses = converses
    return asked


def answers_to(asked: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(m["content"]) for m in asked[-1]["messages"] if m["role"] == "tool"]


def both(server: OpenAIServer) -> dict[str, Any]:
    return {**with_model(server), **with_model(server, "main"), "chat_timeout_seconds": 1}


async def ask(knowledge: Knowledge, question: str = OFFSIDE, **more: Any) -> dict[str, Any]:
    async with http_of(knowledge) as client:
        response = await client.post("/api/ask", json={"question": question, **more})
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def lookup(*names: str, **more: Any) -> dict[str, Any]:
    return {"document_names": list(names), "query": "offside position", **more}


@pytest.mark.long
async def test_a4_03_a4_05_a4_08_a4_19_a4_29_the_model_sees_all_documents_and_looks_into_what_it_picks(
    opens: Opens, server: OpenAIServer
) -> None:
    asked = looks_up(server, [lookup("Laws of Game 2024-25")])
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        await add(knowledge, "var.md", VAR)
        told = await ask(knowledge, conversation=[{"role": "user", "content": "I watch football"}])
    messages = asked[0]["messages"]
    assert messages[1]["content"] == "I watch football"
    addendum = messages[-1]["content"]
    for line in ("AVAILABLE DOCUMENTS:", "- Laws of Game 2024-25 (id:", "- VAR Guidelines 2024 (id:"):
        assert line in addendum
    assert 'Use the "lookup_documents" tool' in addendum
    assert "- top_k: Number of results to return (1 to 5)" in addendum
    assert "You can call this tool up to 5 times per request." in addendum
    assert "If you don't use the tool, the system will fall back to searching all documents." in addendum
    [result] = answers_to(asked)
    assert result.keys() == {"status", "documents_searched", "query", "results"}
    assert (result["status"], result["documents_searched"]) == ("success", ["Laws of Game 2024-25"])
    assert result["results"][0].keys() == {"document", "section", "similarity", "text"}
    assert {each["document"] for each in result["results"]} == {"Laws of Game 2024-25"}
    assert (told["status"], told["lookups"], told["fallback"]) == ("answered", 1, False)
    assert told["documents"] == ["Laws of Game 2024-25"]
    assert told["citations"][0]["title"] == "Laws of Game 2024-25"


async def scaled(knowledge: Knowledge) -> None:
    """Have relevance be the cosine: as it is shipped, it is 0 for most of what these tests embed."""
    room = await knowledge.documents.search.active_space()
    await knowledge.documents.quotes.keep_scale(room.space, 0.0, 1.0, 100)


async def test_a4_10_seed_defect_a4_19_a_tool_that_is_not_used_leaves_the_plain_search_with_citations(
    opens: Opens, server: OpenAIServer
) -> None:
    looks_up(server)
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        told = await ask(knowledge)
    assert (told["status"], told["lookups"], told["fallback"]) == ("answered", 0, True)
    assert told["citations"]


async def test_a_question_without_an_answer_is_told_what_to_do_and_no_more_than_is_done(
    opens: Opens, server: OpenAIServer
) -> None:
    """A4-10, X-11: below its own threshold nothing is found, which is an event, and no work of anybody."""
    looks_up(server)
    async with opens(**both(server), fallback_similarity_threshold=1.0) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        told = await ask(knowledge)
        assert told["answer"] == SELECTION_GUIDANCE
        assert "record" not in told["answer"]
        assert await knowledge.answering.journal.escalations(knowledge.answering.clock.now()) == []
        [event] = await knowledge.answering.journal.events()
        assert (event.name, event.payload["question"]) == ("question_answered", OFFSIDE)


@pytest.mark.long
async def test_a4_06_a4_20_f8_seed_defect_the_picked_one_of_a_hundred_documents_is_found(
    opens: Opens, server: OpenAIServer
) -> None:
    asked = looks_up(server, [lookup("Hidden rules")])
    async with opens(**both(server), **LOW) as knowledge:
        scope = await knowledge.documents.access.scope(ADMIN, "global", permission=Permission.WRITE)
        for number in range(100):
            text = f"# Rules {number}\n\nThe offside position of a player in an offside position, part {number}.\n"
            await knowledge.documents.library.add(NewDocument(uri=f"{number}.md", content=text.encode()), scope)
        hidden = (
            b"# Hidden rules\n\nWhat nobody told of flags: a player who is offside, in such a position, is penalised.\n"
        )
        await knowledge.documents.library.add(NewDocument(uri="hidden.md", content=hidden), scope)
        await knowledge.documents.indexing.run()
        told = await ask(knowledge)
    [result] = answers_to(asked)
    assert [each["document"] for each in result["results"]] == ["Hidden rules"]
    assert {each["title"] for each in told["citations"]} == {"Hidden rules"}
    assert asked[0]["messages"][-1]["content"].count("(id:") == 101


async def test_a4_07_a4_23_the_limit_is_one_of_the_request(opens: Opens, server: OpenAIServer) -> None:
    eight: list[dict[str, Any] | str] = [
        lookup("Laws of Game 2024-25", top_k=1 + n % 5, min_similarity=n / 100) for n in range(8)
    ]
    asked = looks_up(server, eight)
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        told = await ask(knowledge)
    assert told["lookups"] == 5
    assert sum("limit of 5" in str(answer) for answer in answers_to(asked)) == 3
    assert asked[-1]["tool_choice"] == "none"


async def test_a4_01_a4_02_seed_defect_every_setting_is_heeded(
    opens: Opens, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4-28, A4-03: in the schema and the addendum, in what is looked up, and in the plain search."""
    monkeypatch.setattr("orchestrator.qa.document_selection.LIST_TOKENS", 1)
    wide = lookup("Laws of Game 2024-25", top_k=5, min_similarity=0.0)
    asked = looks_up(server, [lookup("Laws of Game 2024-25")], [wide], [lookup("Laws of Game 2024-25", top_k=1)])
    settings: dict[str, Any] = {
        "max_document_lookups": 2,
        "lookup_max_chunks": 2,
        "similarity_threshold": 1.0,
        "fallback_similarity_threshold": 0.0,
        "top_k_retrievals": 1,
    }
    sections = b"".join(b"\n## Law %d\n\nAn offside position, part %d.\n" % (n, n) for n in range(5))
    async with opens(**both(server), **settings) as knowledge:
        await add(knowledge, "laws.md", LAWS + sections)
        picked = await ask(knowledge)
        first, *_ = asked
        looks_up(server)
        asked_before = len(server.chats)
        plain = await ask(knowledge)
        [*_, writing] = server.chats[asked_before:]
    offered = {each["function"]["name"]: each["function"]["parameters"] for each in first["tools"]}
    assert offered.keys() == {"lookup_documents", "list_documents"}
    told = offered["lookup_documents"]["properties"]
    assert (told["top_k"]["maximum"], told["top_k"]["default"], told["min_similarity"]["default"]) == (2, 2, 1.0)
    addendum = first["messages"][-1]["content"]
    assert "(1 to 2)" in addendum
    assert "up to 2 times per request" in addendum
    assert "and 1 more: see them with the list_documents tool" in addendum
    found = [answer["results"] for answer in answers_to(asked)]
    assert [len(each) for each in found] == [0, 2]
    assert (picked["lookups"], asked[-1]["tool_choice"]) == (2, "none")
    assert (plain["fallback"], len(sources_in(writing["messages"][1]["content"]))) == (True, 1)


async def test_a4_09_a_passage_that_two_lookups_find_is_as_near_as_the_nearer_says(
    opens: Opens, server: OpenAIServer
) -> None:
    far, near = lookup("Laws of Game 2024-25"), lookup("Laws of Game 2024-25")
    far["query"], near["query"] = "player", "A player in an offside position is not always penalised."
    asked = looks_up(server, [far], [near])
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        await scaled(knowledge)
        told = await ask(knowledge)
    similar = [answer["results"][0]["similarity"] for answer in answers_to(asked)]
    assert similar[0] < similar[1]
    assert [round(each["score"], 2) for each in told["citations"]] == [similar[1]], "it counts once"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"query": "offside"}, ["document_names is required"]),
        (lookup("Laws of Chess"), ["Laws of Chess", "Laws of Game"]),
    ],
    ids=["a parameter is missing", "no document has the name"],
)
async def test_a4_12_a4_16_seed_defect_a_wrong_call_is_told_what_is_wrong_and_made_again(
    opens: Opens, server: OpenAIServer, wrong: dict[str, Any], says: list[str]
) -> None:
    """A4-12: with the names that are valid."""
    asked = looks_up(server, [wrong], [lookup("Laws of Game 2024-25")])
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        told = await ask(knowledge)
    assert (told["status"], told["fallback"]) == ("answered", False)
    first = answers_to(asked)[0]
    assert first["status"] == "error"
    assert all(each in first["error"] for each in says)


async def test_a4_15_a_call_that_cannot_be_read_leaves_the_plain_search(opens: Opens, server: OpenAIServer) -> None:
    looks_up(server, ['{"document_names": ['])
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        told = await ask(knowledge)
    assert (told["status"], told["fallback"], told["reason"]) == ("answered", True, "MalformedCall")


async def test_a4_13_a_query_that_cannot_be_embedded_leaves_the_plain_search(
    opens: Opens, server: OpenAIServer
) -> None:
    looks_up(server, [lookup("Laws of Game 2024-25")])
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        searcher = knowledge.answering.direct.searcher

        class Failing:
            def __init__(self, *calls: int) -> None:
                self.calls, self.call = calls, 0

            async def search(self, query: Any, scope: Any) -> Any:
                self.call += 1
                if self.call in self.calls:
                    raise EmbedderUnavailable("429", retry_after_seconds=1)
                return await searcher.search(query, scope)

        object.__setattr__(knowledge.answering.direct, "searcher", Failing(1))
        told = await ask(knowledge)
        looks_up(server, [lookup("Laws of Game 2024-25")], [lookup("Laws of Game 2024-25", top_k=1)])
        object.__setattr__(knowledge.answering.direct, "searcher", Failing(2, 3))
        later = await ask(knowledge)
    assert (told["status"], told["fallback"], told["reason"]) == ("answered", True, "EmbedderUnavailable")
    assert (later["status"], later["fallback"], later["reason"]) == ("answered", False, "EmbedderUnavailable"), (
        "what a lookup before had found is answered from, though the plain search would fail as well"
    )


@pytest.mark.long
async def test_a4_17_a4_26_without_tools_without_a_model_or_switched_off_it_is_the_plain_search(
    opens: Opens, server: OpenAIServer
) -> None:
    asked = looks_up(server, [lookup("Laws of Game 2024-25")])
    async with opens(**both(server), **LOW, enable_document_selection=False) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        off = await ask(knowledge)
        assert (asked, off["reason"]) == ([], "selection is off")
        server.misbehave(Status(400, "tools are not supported by this model"))
    async with opens(**both(server), **LOW) as knowledge:
        no_tools = await ask(knowledge)
    async with opens(**LOW) as knowledge:
        no_model = await ask(knowledge)
    with OpenAIServer(always=Misdeed.RESET) as away:
        async with opens(**with_model(server), **with_model(away, "main"), chat_timeout_seconds=1, **LOW) as knowledge:
            down = await ask(knowledge, f"{OFFSIDE} Please.")
    assert [each["fallback"] for each in (off, no_tools, no_model, down)] == [True] * 4
    assert (down["status"], down["reason"]) == ("answered", "ChatUnavailable")
    assert no_tools["reason"] == "ToolsRefused"
    assert {off["status"], no_tools["status"]} == {"answered"}


async def test_a4_18_lookups_that_find_nothing_leave_the_plain_search(opens: Opens, server: OpenAIServer) -> None:
    looks_up(server, [lookup("VAR Guidelines 2024", min_similarity=1.0)])
    async with opens(**both(server), fallback_similarity_threshold=0.0) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        await add(knowledge, "var.md", VAR)
        told = await ask(knowledge)
    assert (told["status"], told["lookups"], told["fallback"]) == ("answered", 1, True)


async def test_a4_11_x_19_seed_defect_required_means_that_nothing_is_searched_unasked(
    opens: Opens, server: OpenAIServer
) -> None:
    asked = looks_up(server)
    async with opens(**both(server), **LOW, require_tool_use=True) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        told = await ask(knowledge)
    assert asked[0]["tool_choice"] == "required"
    assert (told["status"], told["fallback"]) == ("not_found", False)


async def test_x_17_t26_all_documents_are_those_the_caller_may_see(opens: Opens, server: OpenAIServer) -> None:
    asked = looks_up(server, [lookup("Laws of Game 2024-25")])
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS, "team", "x")
        await add(knowledge, "var.md", VAR)
        telemetry = Telemetry(knowledge.answering.journal, knowledge.answering.clock)
        selection = DocumentSelection(knowledge.answering, telemetry, knowledge.settings)
        told = await selection.ask(OFFSIDE, Principal(name="mallory"))
    shown = asked[0]["messages"][-1]["content"]
    assert "VAR" in shown
    assert shown.count("Laws of Game") == 1, "the example that the design has, and no document"
    assert answers_to(asked)[0]["status"] == "error"
    assert not told["citations"]


async def test_a4_20_x_21_a_repeated_name_stands_for_all_its_bearers_and_an_id_for_one(
    opens: Opens, server: OpenAIServer
) -> None:
    async with opens(**both(server), **LOW) as knowledge:
        one = await add(knowledge, "a/laws.md", LAWS)
        other = await add(knowledge, "b/laws.md", LAWS.replace(b"always", b"ever"))
        found, unknown = Documents([one, other]).get_documents_by_names(["laws of game  2024-25", "nothing"])
        assert ({each.uri for each in found}, unknown) == ({"a/laws.md", "b/laws.md"}, ["nothing"])
        found, _ = Documents([one, other]).get_documents_by_names([str(other.document_id)[:8]])
        assert [each.uri for each in found] == ["b/laws.md"]


async def test_a4_20_an_empty_list_of_documents_asks_no_model(opens: Opens, server: OpenAIServer) -> None:
    async with opens(**both(server)) as knowledge:
        told = await ask(knowledge)
    assert (told["status"], server.chats) == ("empty_scope", [])


async def test_x_18_a4_20_a_list_that_does_not_fit_is_paged_so_that_nothing_is_hidden(knowledge: Knowledge) -> None:
    known: list[Document] = [
        await add(knowledge, f"{number}.md", f"# {'Long name ' * 30}{number}\n\nText.\n".encode())
        for number in range(5)
    ]
    documents = Documents(known)
    assert all(len(name) <= 200 for name in documents.get_indexed_document_names())
    whole, complete = documents.format_document_list(max_tokens=4_000)
    assert (whole.count("\n") + 1, complete) == (5, True)
    part, complete = documents.format_document_list(max_tokens=100)
    assert "more: see them with the list_documents tool" in part
    assert not complete
    assert len(json.loads(documents.page({}))["documents"]) == 5
    assert json.loads(documents.page({"contains": "zebra"}))["documents"] == []


SETTINGS = KnowledgeSettings()


def test_a4_01_a4_02_the_settings_of_the_design_with_its_defaults() -> None:
    assert (SETTINGS.max_document_lookups, SETTINGS.lookup_max_chunks) == (5, 5)
    assert (SETTINGS.require_tool_use, SETTINGS.fallback_similarity_threshold) == (False, 0.7)
    assert (SETTINGS.top_k_retrievals, SETTINGS.similarity_threshold) == (5, 0.7)


@case_by_case
def test_a4_01_a_wrong_setting_stops_the_start_and_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=f"HARDWON_{name.upper()}"):
        KnowledgeSettings(**{name: value})


def test_a4_04_a4_24_a4_28_x_03_the_schema_has_numbers_where_the_design_has_placeholders() -> None:
    schema = get_tool_schema(SETTINGS)
    assert schema.name == "lookup_documents"
    assert schema.description == "Search relevant document sections for information"
    told = schema.parameters["properties"]
    assert (told["top_k"]["minimum"], told["top_k"]["maximum"], told["top_k"]["default"]) == (1, 5, 3)
    least = told["min_similarity"]
    assert (least["minimum"], least["maximum"], least["default"]) == (0.0, 1.0, 0.7)
    assert schema.parameters["required"] == ["document_names", "query"]


@pytest.mark.parametrize(
    ("arguments", "top_k", "least"),
    [
        ({}, 3, 0.7),
        ({"top_k": 99, "min_similarity": 7}, 5, 1.0),
        ({"top_k": -2, "min_similarity": -1}, 1, 0.0),
        ({"top_k": 2, "min_similarity": 0.0}, 2, 0.0),
        ({"top_k": "many", "min_similarity": "high"}, 3, 0.7),
        ({"top_k": True, "min_similarity": float("nan")}, 3, 0.7),
        ({"top_k": float("nan"), "min_similarity": 10**400}, 3, 1.0),
        ({"top_k": float("inf"), "min_similarity": -float("inf")}, 5, 0.0),
        ({"top_k": 2.9, "min_similarity": 1}, 2, 1.0),
    ],
)
def test_a4_14_seed_defect_numbers_are_clamped_and_zero_is_a_number(
    arguments: dict[str, Any], top_k: int, least: float
) -> None:
    read = validate_parameters({**lookup("A"), **arguments}, SETTINGS)
    assert (read.top_k, read.min_similarity) == (top_k, least)


async def test_a4_22_every_lookup_is_logged(opens: Opens, server: OpenAIServer) -> None:
    looks_up(server, [lookup("Laws of Chess")], [lookup("Laws of Game 2024-25")])
    async with opens(**both(server), **LOW) as knowledge:
        document = await add(knowledge, "laws.md", LAWS)
        with structlog.testing.capture_logs() as heard:
            await ask(knowledge)
        [event, *_] = await knowledge.answering.journal.events(name="question_answered")
    assert event.payload["documents"] == ["Laws of Game 2024-25"]
    assert (event.payload["lookups"], event.payload["lookups_ok"], event.payload["lookups_failed"]) == (1, 1, 1)
    [found] = [each for each in heard if each["event"] == "documents_looked_up"]
    assert found["documents"] == [str(document.document_id)]
    assert found["passages"]
    assert "offside" not in str(found), "ids, and no texts"
    [refused] = [each for each in heard if each["event"] == "tool_refused"]
    assert (refused["tool"], refused["error"]) == ("lookup_documents", "ValueError")


async def test_a4_21_the_figures_hold_the_time_and_the_failures_of_lookups(opens: Opens, server: OpenAIServer) -> None:
    """A4-21: the time of the model that picks counts, and so does a lookup that the model had to put right."""
    looks_up(server, [lookup("Laws of Chess")], [lookup("Laws of Game 2024-25")])
    server.seconds_per_call = 0.1
    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        told = await ask(knowledge)
        figures = metrics_of(await knowledge.answering.journal.events())
    assert (figures.lookup_success_rate, figures.mean_lookups, figures.tool_use_rate) == (0.5, 1.0, 1.0)
    assert figures.lookup_p50_ms == told["latency_ms"] > 400, "three calls to pick, one to answer"


async def test_a4_13_an_index_that_is_down_is_told_as_an_error_of_the_answer(
    opens: Opens, server: OpenAIServer
) -> None:
    """As without lookups: it was a failed request, and nobody heard of it from the figures."""
    looks_up(server, [lookup("Laws of Game 2024-25")])

    class Down:
        async def search(self, *_: object) -> object:
            raise IndexUnavailable("the index is down")

    async with opens(**both(server), **LOW) as knowledge:
        await add(knowledge, "laws.md", LAWS)
        object.__setattr__(knowledge.answering.direct, "searcher", Down())
        told = await ask(knowledge)
        figures = metrics_of(await knowledge.answering.journal.events())
    assert (told["status"], told["reason"], told["fallback"]) == ("error", "the index is down", True)
    assert (figures.error_rate, figures.lookup_success_rate) == (1.0, 0.0)


async def test_a4_23_the_list_of_documents_is_read_again_only_where_something_changed(
    opens: Opens, server: OpenAIServer
) -> None:
    """A4-23: and whoever may see less is shown no list of another's."""
    read = []

    class Counted:
        def __init__(self, quotes: Any) -> None:
            self.versions = quotes.versions
            self.quotes = quotes

        async def documents(self, scope: Any) -> Any:
            read.append(scope.principal)
            return await self.quotes.documents(scope)

    async with opens(**both(server), **LOW) as knowledge:
        lists = knowledge.answering.lists
        lists.quotes = Counted(lists.quotes)  # type: ignore[assignment]
        await add(knowledge, "laws.md", LAWS, "team", "x")
        every = await knowledge.answering.access.everything(ADMIN)
        for _ in range(2):
            assert [each.title for each in await lists.of(every)] == ["Laws of Game 2024-25"]
        assert len(read) == 1
        others = await knowledge.answering.access.everything(Principal(name="mallory"))
        assert not await lists.of(others)
        document = await add(knowledge, "var.md", VAR, "team", "x")
        assert len(await lists.of(every)) == 2
        scope = await knowledge.documents.access.scope(ADMIN, "team", "x", permission=Permission.WRITE)
        await knowledge.documents.library.delete(scope, [document.document_id])
        assert [each.title for each in await lists.of(every)] == ["Laws of Game 2024-25"]
        assert len(lists._cache) == 2, "of each scope the last one"
    assert len(read) == 4


def test_a4_24_the_methods_of_the_design_are_there_by_their_names() -> None:
    named = {
        Documents: ("get_indexed_document_names", "get_documents_by_names", "format_document_list"),
        Lookups: ("execute_lookup", "search_in_documents"),
        DocumentSelection: ("ask", "should_use_tool_calling"),
    }
    assert [name for kind, names in named.items() for name in names if not callable(getattr(kind, name, None))] == []


async def test_f7_x_27_one_base_is_asked_over_http_in_its_own_form(knowledge: Knowledge) -> None:
    await add(knowledge, "runbook.md", GUIDE, "user", "ann")
    async with http_of(knowledge) as client:
        asked = {"question": "Where do I look for ERR-4521 in the log of the connection pool?"}
        told = (await client.post("/api/kb/user/ann/ask", json=asked)).json()
        unknown = await client.post("/api/kb/wiki/x/ask", json=asked)
        empty = await client.post("/api/kb/global/-/ask", json={"question": "  "})
        few = (await client.post("/api/kb/user/ann/ask", json={**asked, "k": 1})).json()
        of_nothing = await client.post("/api/ask", json={**asked, "k": 1})
        paths = (await client.get("/openapi.json")).json()["paths"]
    designed = {
        "/api/kb/query": "post",
        "/subagents/documentation-qa": "post",
        "/api/ask": "post",
        "/api/agent": "post",
        "/api/kb/{kb}/{scope}/documents": "get post delete",
        "/api/cases/{case_id}/close": "post",
        "/api/users/{user_id}/kb": "delete",
        "/api/search": "get",
        "/api/events": "get",
        "/api/events/{event_id}/review": "post",
        "/api/escalations": "get",
        "/api/feedback": "post",
        "/healthz": "get",
    }
    assert {path: sorted(set(told.split()) - paths.get(path, {}).keys()) for path, told in designed.items()} == {
        path: [] for path in designed
    }
    assert told["status"] == "answered"
    assert "From your runbooks:" in told["answer"]
    assert (unknown.status_code, empty.status_code) == (422, 422)
    assert few["chunk_count"] == 1
    assert (of_nothing.status_code, of_nothing.json()["field"]) == (422, "k"), "where it would change nothing"


@over("kb", ["case", "user", "team"])
async def test_a_question_to_a_base_of_many_that_names_none_is_refused_as_elsewhere(
    knowledge: Knowledge, kb: str
) -> None:
    async with http_of(knowledge) as http:
        asked = await http.post(f"/api/kb/{kb}/-/ask", json={"question": "Where is the log?"})
        listed = await http.get(f"/api/kb/{kb}/-/documents")
    told = [(each.status_code, each.json()["field"], each.json()["detail"]) for each in (asked, listed)]
    assert told == [(422, "scope_id", f"the {kb} knowledge base needs the id of a {kb}")] * 2
