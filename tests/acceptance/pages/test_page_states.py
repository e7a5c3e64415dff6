"""Pages in states that a full store does not show: empty, too few outcomes, the server's own key, no Postgres."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from pydantic import SecretStr

from knowledge.models import Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.http.app import make_app
from orchestrator.http.middleware.page_sessions import SessionSealer
from orchestrator.http.pages.rendering.charts import draw_strip
from orchestrator.http.pages.rendering.markdown import render_markdown
from orchestrator.http.pages.rendering.plain_text import first_line, name_hidden, show_text
from orchestrator.http.pages.rendering.words import likely_share
from orchestrator.http.pages.shell import POLICY
from tests.support.clients import auth_of, http_of
from tests.support.embedders import HashingEmbedder
from tests.support.entries import CART, failure, learn
from tests.support.postgres import over_tcp, socket_of
from tests.support.relay import Relay, Wire


@pytest.mark.long
async def test_an_empty_workspace_teaches_three_steps_and_names_those_that_hold_something(knowledge: Knowledge) -> None:
    await learn(knowledge.in_workspace("full"), failure())
    async with http_of(knowledge) as client:
        page = (await client.get("/w/default/")).text
        assert page.count("<li><h3>") == 3
        assert 'href="/w/full/"' in page


@pytest.mark.long
async def test_the_overview_claims_no_lift_without_a_hold_out_and_says_when_tasks_are_too_few(
    knowledge: Knowledge,
) -> None:
    await learn(knowledge, failure())
    builder = OrchestratorContextBuilder(knowledge)
    for number in range(3):
        task = Task(description=CART, type="bugfix", technology="python", project_id="p", task_id=f"t{number}")
        context = await builder.build_context_for_task(task, "backend")
        assert context.patterns
        await knowledge.outcomes.record_outcome(context.context_id, context.patterns[0].pattern_id, worked=number > 0)
    async with http_of(knowledge) as client:
        page = (await client.get(f"/w/{knowledge.workspace}/")).text
    assert "2 of 3 tasks with a hint passed at the first attempt" in page
    assert "Too few to tell" in page
    assert "No lift is claimed" in page
    assert "with memory, " not in page.lower()


@pytest.mark.long
async def test_the_servers_own_key_signs_in_and_another_ends_its_sessions(knowledge: Knowledge) -> None:
    await learn(knowledge, failure())
    origin = {"Origin": "https://hardwon"}
    app = make_app(knowledge, auth=auth_of(knowledge, operator_key="the operator's own key"))
    async with http_of(app, base_url="https://hardwon") as client:
        signed_in = await client.post("/session", data={"key": "the operator's own key"}, headers=origin)
        assert signed_in.status_code == 303
        assert (await client.get(f"/w/{knowledge.workspace}/patterns")).status_code == 200
        cookies = dict(client.cookies)
    changed = make_app(knowledge, auth=auth_of(knowledge, operator_key="another key of the operator"))
    async with http_of(changed, base_url="https://hardwon", cookies=cookies) as client:
        assert (await client.get(f"/w/{knowledge.workspace}/patterns")).status_code == 401


async def test_a_session_is_over_after_its_time(knowledge: Knowledge) -> None:
    now = knowledge.stores.clock.now()
    sealer = SessionSealer(
        pepper=knowledge.authenticator.pepper, now=lambda: now, operator_id="operator", operator_key=None
    )
    cookie = sealer.seal("0123456789ab")
    opened = sealer.open(cookie)
    assert opened is not None
    assert opened.key_id == "0123456789ab"
    now += timedelta(hours=13)
    assert sealer.open(cookie) is None


async def test_a_store_that_is_down_has_a_page_that_says_what_to_do(
    settings: KnowledgeSettings, postgres_dsn: str, database_url: str
) -> None:
    with Relay(str(socket_of(postgres_dsn))) as relay:
        through = settings.model_copy(update={"database_url": SecretStr(over_tcp(database_url, relay.port))})
        async with open_knowledge(through, embedder=HashingEmbedder()) as knowledge:
            app = make_app(knowledge, auth=auth_of(knowledge, host="hardwon"))
            async with http_of(app) as client:
                assert (await client.get("/w/default/patterns")).status_code == 200
                relay.be(Wire.REFUSE)
                for path in ("patterns", "waiting", "health"):
                    page = await client.get(f"/w/default/{path}")
                    assert page.status_code == 503, path
                    assert page.headers["content-security-policy"] == POLICY
                    assert int(page.headers["retry-after"]) >= 1
                    assert "A store does not answer" in page.text
                    assert "hardwon doctor" in page.text


@pytest.mark.parametrize(
    "text", ["[" * 8000, "*" * 8000, "> " * 4000, "`" * 8000, "- " * 4000, "_a_" * 2600, "[a](" * 2000, "|a" * 4000]
)
def test_markdown_that_was_made_to_be_slow_takes_no_longer_than_other_text(text: str) -> None:
    began = time.process_time()
    render_markdown(text)
    assert time.process_time() - began < 1.5


def test_markdown_has_no_raw_html_no_images_and_no_links_but_of_the_web() -> None:
    shown = render_markdown(
        "# A\n### B\n<b>x</b> ![i](http://h/i.png) [j](javascript:1) [d](data:text/html,x) [w](https://w.example) <http://a.example>"
    )
    assert "<h4>" in shown
    assert "&lt;b&gt;" in shown
    assert "<img" not in shown
    assert 'javascript:1"' not in shown
    assert 'href="data:' not in shown
    assert 'href="https://w.example" rel="nofollow noopener noreferrer"' in shown


def test_hidden_characters_have_names_and_emoji_stay_whole() -> None:
    assert name_hidden("a\u202eb\x00") == "a\u27e8U+202E\u27e9b\u27e8U+0000\u27e9"
    assert "RIGHT-TO-LEFT OVERRIDE" in show_text("a\u202eb")
    assert name_hidden("fine \u2764\ufe0f\ttext\n") == "fine \u2764\ufe0f\ttext\n"
    assert first_line("\n## **Deadlock** in `book`\nmore") == "Deadlock in book"
    sections = "## What it does\nChecks for `x`.\n\n## Why is this bad?\nIt is slow."
    assert (first_line(sections), first_line("## A\n## B")) == ("Checks for x.", "A")
    assert first_line("# Title\n## What it does\nx\n## Why\ny") == "Title"


def test_a_strip_names_its_record_and_draws_few_attempts_one_by_one() -> None:
    assert "not tried yet" in draw_strip("", successes=0, attempts=0)
    assert "dotted" in draw_strip("", successes=0, attempts=0)
    assert draw_strip("w", successes=1, attempts=1).count("M0 1h") == 1
    twelve = draw_strip("fwwwwfwwwwww", successes=10, attempts=12)
    assert 'aria-label="10 of 12 attempts worked"' in twelve
    assert twelve.count("z") == 12
    many = draw_strip("w" * 30, successes=143, attempts=151)
    assert 'aria-label="143 of 151 attempts worked"' in many
    assert many.count("<rect") == 2


def test_the_share_of_a_pattern_has_an_interval_that_narrows() -> None:
    mean, low, high = likely_share(10, 12)
    assert (round(mean), round(low), round(high)) == (79, 55, 95)
    assert likely_share(0, 0) == (50.0, 0.0, 100.0)
    assert likely_share(100, 120)[2] - likely_share(100, 120)[1] < high - low
