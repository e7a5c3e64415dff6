"""The pages of the map, of documents and of questions: the answers, by a key of theirs alone, and hostile text."""

from __future__ import annotations

import html
import re

import pytest

from hardwon.models.documents import DocumentStatus
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from tests.acceptance.pages.site_documents import RETENTION, fill_documents
from tests.acceptance.pages.site_server import HOSTILE, fill_hostile
from tests.support.clients import auth_of, client_of, http_of
from tests.support.entries import failure, learn
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP
MARK = re.compile(r'<a class="fix[^"]*" href="([^"]+)" aria-label="([^"]*); (\d+) of (\d+) worked">')


def _page(knowledge: Knowledge, path: str) -> str:
    return f"/w/{knowledge.workspace}/{path}"


@pytest.mark.long
async def test_the_map_says_what_is_there_before_it_is_made_and_marks_are_links_afterwards(
    knowledge: Knowledge,
) -> None:
    await learn(knowledge, *(failure(failure_description=f"Thing {n} is broken", task_id=f"T-{n}") for n in range(9)))
    async with http_of(knowledge) as client:
        before = await client.get(_page(knowledge, "map"))
        assert (before.status_code, "There is no map yet" in before.text) == (200, True)
        await knowledge.maps.project()
        shown = await client.get(_page(knowledge, "map"))
        marks = MARK.findall(shown.text)
        assert len(marks) == 9
        for address, *_ in marks[:3]:
            assert (await client.get(address)).status_code == 200
        assert "dim" not in shown.text[shown.text.index('class="map"') :].split("</svg>")[0]
        dimmed = await client.get(_page(knowledge, "map?kind=gate_rejection"))
        assert dimmed.text.count('<a class="fix dim"') == 9
        group = await client.get(_page(knowledge, "map?group=0"))
        assert 0 < len(MARK.findall(group.text)) <= 9
        for path, status in (("map?group=19", 404), ("map?group=x", 404), ("map?kind=y", 422)):
            assert (await client.get(_page(knowledge, path))).status_code == status, path


@pytest.mark.long
async def test_documents_say_why_one_cannot_be_read_and_are_retried_and_deleted_by_forms(knowledge: Knowledge) -> None:
    await learn(knowledge, failure())
    await fill_documents(knowledge)
    async with http_of(knowledge) as client:
        shown = await client.get(_page(knowledge, "documents"))
        assert "1 document cannot be read" in shown.text
        listed = {each.uri: each for each in await knowledge.kb.list_documents("global", None)}
        failed = listed["scan-contract-old.bin"]
        assert failed.status is DocumentStatus.FAILED
        assert failed.error is not None
        assert failed.error[:20] in shown.text
        retried = await client.post(_page(knowledge, "documents/retry"), data={"kb": "global"})
        assert (retried.status_code, "done=retried" in retried.headers["location"]) == (303, True)
        address = _page(knowledge, f"documents/{listed['pricing.md'].document_id}/delete")
        assert (await client.post(address, data={"kb": "global"})).status_code == 303
        assert (await client.post(address, data={"kb": "global"})).status_code == 404
        assert "pricing.md" not in (await client.get(_page(knowledge, "documents"))).text
        assert (await client.get(_page(knowledge, "documents?kb=case&scope=17"))).status_code == 200
        assert "Of which case?" in (await client.get(_page(knowledge, "documents?kb=case"))).text
        assert (await client.get(_page(knowledge, "documents?kb=nobody"))).status_code == 422


async def test_a1_24_an_answer_is_that_of_the_api_and_marks_its_sentence_in_the_source(knowledge: Knowledge) -> None:
    await learn(knowledge, failure())
    await fill_documents(knowledge)
    question = "For how many days are backups kept?"
    async with http_of(knowledge) as client, client_of(knowledge) as api:
        told = await api.answers.ask_base("global", None, question)
        shown = await client.get(_page(knowledge, "ask"), params={"q": question})
        assert told["status"] == "answered", told
        (marked,) = re.findall(r"<mark>(.*?)</mark>", shown.text, re.DOTALL)
        assert marked.strip() in RETENTION
        assert "35 days" in shown.text
        (citation,) = told["citations"]
        start, end = citation["marked"] or (0, 0)
        assert citation["quote"][start:end] == marked
        assert citation["quote"] in html.unescape(shown.text.replace("<mark>", "").replace("</mark>", ""))

        silent = await client.get(_page(knowledge, "ask"), params={"q": "Which discount do resellers of shoes get?"})
        assert "Not in the documents" in silent.text
        assert "Nothing found says <b>" in silent.text
        assert "<mark>" not in silent.text
        assert 'id="answer"' not in silent.text
        empty = await client.get(_page(knowledge, "ask"), params={"q": question, "kb": "case", "scope": "17"})
        assert "There is no document to ask" in empty.text
        wrong = await client.get(_page(knowledge, "ask"), params={"q": "x < y?", "kb": "case"})
        assert (wrong.status_code, "scope-error" in wrong.text, 'value="x &lt; y?"' in wrong.text) == (422, True, True)


@pytest.mark.long
async def test_hostile_documents_and_patterns_are_text(knowledge: Knowledge) -> None:
    await fill_hostile(knowledge)
    await fill_documents(knowledge, HOSTILE)
    async with http_of(knowledge) as client:
        for path in ("map", "documents", "ask?q=Invoices", "ask?q=<script>alert(1)</script>"):
            shown = await client.get(_page(knowledge, path))
            assert shown.status_code == 200, path
            body = shown.text
            assert re.findall(r"<script(?! src=)|<img|javascript:alert\(1\)\"|<style|onerror=\"|\son\w+=\"", body) == []
            assert "\u202e" not in body
            assert "\u200b" not in body
            assert len(body) < 200_000, path


async def test_a_key_of_another_workspace_sees_and_changes_nothing_here(knowledge: Knowledge) -> None:
    foreign = (await knowledge.keys.create(["admin"], workspace="elsewhere", name="foreign")).secret
    await learn(knowledge, failure(failure_description="A secret of ours"))
    await fill_documents(knowledge)
    (document, *_) = await knowledge.kb.list_documents("global", None)
    app = make_app(knowledge, auth=auth_of(knowledge))
    async with http_of(app, headers={"Authorization": f"Bearer {foreign}"}) as client:
        for path in ("map", "documents", "ask?q=backups"):
            refused = await client.get(_page(knowledge, path))
            assert (refused.status_code, "secret" in refused.text, "retention" in refused.text) == (403, False, False)
        address = _page(knowledge, f"documents/{document.document_id}/delete")
        assert (await client.post(address, data={"kb": "global"})).status_code == 403
    assert await knowledge.kb.list_documents("global", None)


async def test_a_key_without_documents_has_no_entry_of_theirs(knowledge: Knowledge) -> None:
    await learn(knowledge, failure())
    made = await knowledge.keys.create(["query"], workspace=knowledge.workspace, name="reader")
    app = make_app(knowledge, auth=auth_of(knowledge))
    async with http_of(app, headers={"Authorization": f"Bearer {made.secret}"}) as client:
        shown = await client.get(_page(knowledge, "map"))
        assert shown.status_code == 200
        assert ("documents" in re.findall(r'href="/w/[^"]*/(\w+)"', shown.text)) is False
        assert (await client.get(_page(knowledge, "documents"))).status_code == 403
        assert (await client.get(_page(knowledge, "ask?q=x"))).status_code == 403
