"""Pages attacked: by an agent's word, by other sites, by parameters, and by what is stored."""

from __future__ import annotations

import time

import pytest

from hardwon.client.transport import REPORTER_HEADER
from knowledge.access.principals import Principal, Scope, Trust
from knowledge.models import EntryStatus
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.http.middleware.admission import Admission
from orchestrator.http.middleware.page_sessions import COOKIE
from orchestrator.http.pages.rendering.markdown import highlight_code, render_markdown
from tests.acceptance.pages.site_documents import fill_documents
from tests.acceptance.pages.test_page_access import address, hold_back, http_of_browser, signed_in
from tests.support.cases import over
from tests.support.clients import auth_of, http_of


async def test_a_request_that_passes_on_an_agents_word_decides_nothing_on_a_page(knowledge: Knowledge) -> None:
    held = await hold_back(knowledge)
    made = await knowledge.keys.create(["admin"], workspace=knowledge.workspace)
    headers = {"Authorization": f"Bearer {made.secret}"}
    async with http_of_browser(knowledge) as client:
        target = address(knowledge, f"waiting/{held}/approve")
        refused = await client.post(target, headers=headers | {REPORTER_HEADER: "bot"})
        assert refused.status_code == 403
        assert await knowledge.deeds.list() == []
        assert (await client.get(address(knowledge), headers=headers | {REPORTER_HEADER: "bot"})).status_code == 403
        assert (await client.get(address(knowledge), headers=headers | {REPORTER_HEADER: "no name"})).status_code == 422
        assert (await client.post(target, headers=headers)).status_code == 303
    assert (await knowledge.capture.get(held)).status is EntryStatus.QUARANTINED


async def test_no_other_site_ends_a_session(knowledge: Knowledge) -> None:
    async with signed_in(knowledge, ["query"]) as client:
        for origin in ("https://evil.example", "null"):
            refused = await client.post("/session/end", headers={"Origin": origin})
            assert (refused.status_code, COOKIE in client.cookies) == (403, True)
        assert "set-cookie" not in refused.headers


@pytest.mark.parametrize("name", ["path", "workspace", "self"])
async def test_no_parameter_of_an_address_is_taken_for_a_part_of_it(knowledge: Knowledge, name: str) -> None:
    async with http_of(knowledge) as client:
        for page in ("contexts", "patterns", "map"):
            answer = await client.get(address(knowledge, f"{page}?{name}=x"))
            assert answer.status_code == 200, answer.text


@pytest.mark.long
async def test_who_may_review_a_workspace_sees_its_pages(knowledge: Knowledge) -> None:
    there = knowledge.in_workspace("there")
    held = await hold_back(there)
    async with signed_in(there, ["review"]) as client, signed_in(there, ["query"]) as asker:
        for page in ("undo/0", "patterns/0"):  # not there, instead of not with this key
            assert (await client.get(address(there, page))).status_code == 404
        waiting = await client.get(address(there, "waiting"))
        assert (waiting.status_code, f"e-{held}" in waiting.text) == (200, True)
        assert (await client.get(address(there, "audit"))).status_code == 403
        assert (await client.get(address(knowledge, "waiting"))).status_code == 403
        assert (await asker.get(address(there, "health"))).status_code == 200
    async with signed_in(there, ["capture"]) as agent:
        assert (await agent.get(address(there, "ask"))).status_code == 403
    reviewer = there.for_principal(
        Principal(trust=Trust.KEY, scopes=frozenset({Scope.REVIEW}), workspace="there", key_id="ann")
    )
    assert [each.entry_id for each in await reviewer.reviews.waiting()] == [held]


@pytest.mark.parametrize(
    "text", ["&#8238;gnp.exe", "&#x200B;", "&shy;", "[a](http://x.example '&#8238;z')", "|a|\n|-|\n|&lrm;|"]
)
def test_a_hidden_character_that_is_written_as_an_entity_has_a_name(text: str) -> None:
    shown = render_markdown(text)
    assert "U+" in shown
    assert not set(shown) & set("\u202e\u200b\xad\u200e")


@pytest.mark.parametrize("language", ["c", "java", "perl", "typescript", "console", "yaml"])
def test_no_stored_code_holds_up_the_server(language: str) -> None:
    for code in ("a" * 16_000, " " * 16_000 + "x", "a " * 8_000, '"a\\' * 5_000, "\n" * 16_000):
        began = time.perf_counter()
        assert highlight_code(code, language) == code.replace('"', "&#34;")
        assert time.perf_counter() - began < 1
    short = "```c\n" + "a " * 99 + "\n```\n"
    assert (highlight_code("a a", "autohotkey"), render_markdown(short * 70).count('class="n"')) == ("a a", 7 * 99)
    assert 'class="' in highlight_code('int main() { return "x"; }', "c")


async def test_questions_and_jobs_of_pages_wait_with_the_long_work(knowledge: Knowledge) -> None:
    admission = Admission(make_app(knowledge, auth=auth_of(knowledge)), concurrent=1, waiting=1)
    long = admission.queue("POST", "/api/ask")
    for method, path in (("GET", "ask"), ("POST", "health/jobs/prune"), ("POST", "audit/verify")):
        assert admission.queue(method, address(knowledge, path)) is long
    assert admission.queue("GET", address(knowledge, "patterns")) is not long


_QUESTION = "For how many days are backups kept?"
_LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
_PARTS = {
    "picture": {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "frame": {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    "script": {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
}


@pytest.mark.long
@over("part", list(_PARTS))
async def test_no_other_site_has_a_question_asked_or_anything_loaded(knowledge: Knowledge, part: str) -> None:
    await fill_documents(knowledge)
    asks = [address(knowledge, "ask"), address(knowledge, "patterns"), "/api/search"]
    async with http_of_browser(knowledge) as client:
        for site in ("cross-site", "same-site"):
            for path in asks:
                foreign = await client.get(
                    path, params={"q": _QUESTION}, headers=_PARTS[part] | {"Sec-Fetch-Site": site}
                )
                assert (foreign.status_code, "35 days" in foreign.text) == (403, False), (path, site)
        own = await client.get(
            asks[0], params={"q": _QUESTION}, headers=_PARTS[part] | {"Sec-Fetch-Site": "same-origin"}
        )
        assert (own.status_code, "<mark>" in own.text) == (200, True)


@pytest.mark.long
async def test_a_link_of_another_site_opens_pages_and_asks_nothing(knowledge: Knowledge) -> None:
    await fill_documents(knowledge)
    async with http_of_browser(knowledge) as client:
        assert (await client.get(address(knowledge, "patterns"), headers=_LINK)).status_code == 200
        followed = await client.get(address(knowledge, "ask"), params={"q": _QUESTION}, headers=_LINK)
        assert (followed.status_code, "<mark>" in followed.text) == (200, False)
        assert f'value="{_QUESTION}"' in followed.text
        assert "Press Ask to have it answered" in followed.text
        typed = await client.get(
            address(knowledge, "ask"), params={"q": _QUESTION}, headers=_LINK | {"Sec-Fetch-Site": "none"}
        )
        assert "<mark>" in typed.text


@pytest.mark.long
async def test_a_picture_on_a_neighbouring_site_asks_nothing_with_somebodys_session(knowledge: Knowledge) -> None:
    """`SameSite=Strict` lets the cookie along from another port of the same host, or another name of its domain."""
    await fill_documents(knowledge)
    async with signed_in(knowledge, ["query", "documents"]) as client:
        target = address(knowledge, "ask")
        foreign = await client.get(
            target, params={"q": _QUESTION}, headers=_PARTS["picture"] | {"Sec-Fetch-Site": "same-site"}
        )
        assert (foreign.status_code, "35 days" in foreign.text) == (403, False)
        assert (await client.get(target, params={"q": _QUESTION})).status_code == 200
