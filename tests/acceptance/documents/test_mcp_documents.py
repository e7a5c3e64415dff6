"""The document tools of an agent over MCP: what HTTP answers, to whom it answers, in the words it refuses with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from knowledge.access.principals import Scope
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.mcp.http import serve_mcp
from orchestrator.qa.wrappers import TOOLS as FUNCTION_TOOLS
from tests.acceptance.documents.test_document_tools import WHERE
from tests.acceptance.doors.test_mcp import DOCUMENTS, HEADERS, as_caller, done, principal, refused
from tests.support.clients import auth_of, http_of
from tests.support.documents import GUIDE, add

READABLE = [
    ("answer_from_case_evidence", {"case_id": "7"}, "case/7"),
    ("answer_from_user_kb", {"user_id": "ann"}, "user/ann"),
    ("answer_from_global_kb", {}, "global/-"),
    ("answer_from_team_kb", {"team_id": "x"}, "team/x"),
]
"""What ann may ask: tool, the argument that names the base, and the base in a path."""
FOREIGN = [
    ("answer_from_case_evidence", {"case_id": "8"}, "case/8"),
    ("answer_from_user_kb", {"user_id": "bob"}, "user/bob"),
    ("answer_from_team_kb", {"team_id": "y"}, "team/y"),
]
OPERATOR = "an-operators-key-of-more-than-thirty-two-characters"


class Asks:
    """Whoever has a key, or none, at one app: over MCP and by the routes."""

    def __init__(self, http: httpx.AsyncClient, key: str | None) -> None:
        self._http = http
        self._headers = {**HEADERS, **({"Authorization": f"Bearer {key}"} if key else {})}

    async def shown(self) -> set[str]:
        """Return the tools that are listed."""
        return {tool["name"] for tool in (await self._say("tools/list"))["tools"]}

    async def calls(self, tool: str, **arguments: Any) -> Mapping[str, Any]:
        """Return the result of a call, an error's too."""
        return await self._say("tools/call", name=tool, arguments=arguments)

    async def is_refused(self, tool: str, **arguments: Any) -> str:
        """Return the sentence of a tool's error."""
        told = await self.calls(tool, **arguments)
        assert told["isError"], told
        return str(told["content"][0]["text"])

    async def routed(self, base: str, **body: Any) -> httpx.Response:
        """Return the response to the same question by its route."""
        return await self._http.post(f"/api/kb/{base}/ask", json=body, headers=self._headers)

    async def _say(self, method: str, **params: Any) -> Mapping[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self._http.post("/mcp", json=body, headers=self._headers)
        assert answer.status_code == 200, answer.text
        result: Mapping[str, Any] = answer.json()["result"]
        return result


@asynccontextmanager
async def asking(app: FastAPI, key: str | None) -> AsyncIterator[Asks]:
    async with serve_mcp(app), http_of(app) as http:
        yield Asks(http, key)


@asynccontextmanager
async def as_ann(knowledge: Knowledge, *scopes: Scope) -> AsyncIterator[Asks]:
    """Give who has a key that is named after ann, of a server with keys."""
    made = await knowledge.keys.create(scopes, workspace="default", name="ann")
    async with asking(make_app(knowledge, auth=auth_of(knowledge, operator_key=OPERATOR)), made.secret) as asks:
        yield asks


@pytest.fixture
async def written(knowledge: Knowledge) -> Knowledge:
    """Documents in each base that ann may ask, and in each that she may not."""
    for _, _, base in READABLE + FOREIGN:
        kb, _, scope_id = base.partition("/")
        await add(knowledge, "runbook.md", GUIDE, kb, None if scope_id == "-" else scope_id)
    await knowledge.kb.grant("case", "7", "ann")
    await knowledge.kb.grant("team", "x", "ann")
    return knowledge


async def test_a0_20_a0_21_a0_22_a0_23_a0_26_they_are_the_function_tools_by_name_and_argument(
    knowledge: Knowledge,
) -> None:
    async with as_caller(knowledge, principal(Scope.DOCUMENTS)) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(listed) == DOCUMENTS == {tool.name for tool in FUNCTION_TOOLS}
    for function in FUNCTION_TOOLS:
        tool, told = listed[function.name], function.schema()
        assert (tool.description, tool.input_schema) == (told.description, told.parameters)
        assert tool.output_schema is not None
        assert {"answer", "confidence", "sources", "citations", "status"} <= set(tool.output_schema["required"])
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


@pytest.mark.long
async def test_f7_a_key_of_the_scope_documents_is_answered_as_by_the_route(written: Knowledge) -> None:
    async with as_ann(written, Scope.DOCUMENTS) as ann:
        assert await ann.shown() == DOCUMENTS
        for tool, scope, base in READABLE:
            for k in ({}, {"k": 2}):
                by_route = (await ann.routed(base, question=WHERE, **k)).json()
                told = await ann.calls(tool, **scope, question=WHERE, **k)
                assert told["structuredContent"] == by_route | {"cached": True}, tool
                assert by_route["status"] == "answered"
                assert by_route["citations"][0]["quote"] in GUIDE.decode()


@pytest.mark.long
async def test_f7_without_keys_whoever_is_on_the_machine_asks_every_base(written: Knowledge) -> None:
    async with asking(make_app(written), None) as anyone:
        assert await anyone.shown() >= DOCUMENTS
        for tool, scope, _ in READABLE + FOREIGN:
            told = await anyone.calls(tool, **scope, question=WHERE)
            assert "ERR-4521" in told["structuredContent"]["answer"], told


@pytest.mark.long
async def test_t26_a0_34_who_may_not_read_a_base_is_refused_in_the_words_of_the_route(written: Knowledge) -> None:
    async with as_ann(written, Scope.DOCUMENTS) as ann:
        for tool, scope, base in FOREIGN:
            by_route = await ann.routed(base, question=WHERE)
            assert by_route.status_code == 403
            assert by_route.json()["detail"] == f"No access to {base.replace('/', ' ')}"
            said = await ann.is_refused(tool, **scope, question=WHERE)
            assert said == by_route.json()["detail"]
        hers = {"team_id": "x", "question": WHERE}
        assert (await ann.calls("answer_from_team_kb", **hers))["isError"] is False
        await written.kb.revoke("team", "x", "ann")
        assert await ann.is_refused("answer_from_team_kb", **hers) == "No access to team x"
    async with as_ann(written, Scope.CAPTURE, Scope.QUERY) as ann:
        assert not await ann.shown() & DOCUMENTS
        for tool, scope, base in READABLE:
            by_route = await ann.routed(base, question=WHERE)
            assert by_route.status_code == 403
            assert await ann.is_refused(tool, **scope, question=WHERE) == by_route.json()["detail"]
            assert "scope documents" in by_route.json()["detail"]


async def test_a0_24_what_is_wrong_with_a_call_is_told_by_the_name_of_its_argument(knowledge: Knowledge) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"case_id": None}, "case_id: the case knowledge base needs the id of a case"),
        ({"case_id": 7}, "case_id: must be a text, not a number"),
        ({"question": " "}, "question: is required"),
        ({"k": 0}, "k: must be at least 1"),
        ({"user_id": "ann"}, "user_id: is not known here"),
    ]
    async with as_caller(knowledge, principal(Scope.ADMIN)) as client:
        for told, said in wrong:
            arguments = {"case_id": "7", "question": WHERE, **told}
            assert await refused(client, "answer_from_case_evidence", **arguments) == said
        assert await refused(client, "answer_from_case_evidence", question=WHERE) == wrong[0][1]
        assert await refused(client, "answer_from_global_kb") == "question: is required"
        said = await refused(client, "answer_from_global_kb", question=WHERE, scope_id="x")
        assert said == "scope_id: is not known here"
        empty = await done(client, "answer_from_case_evidence", case_id="7", question=WHERE)
    assert (empty["status"], empty["citations"]) == ("empty_scope", [])
