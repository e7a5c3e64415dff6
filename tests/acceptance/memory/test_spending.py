"""What a workspace may send to endpoints a day: T12's budget of tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from hardwon.errors import BudgetSpent, EmbedderUnavailable
from knowledge.access.quota import MAX_TOKENS, estimate_tokens
from knowledge.documents.llm import ChatOptions, Message
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import services
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.client import KnowledgeClient
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.http.app import make_app
from tests.acceptance.memory.test_distillation import WRITTEN
from tests.conftest import SetClock
from tests.support.entries import capture, failure
from tests.support.openai_server import Misdeed, OpenAIServer, Status
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

BUDGET = 1_000
BATCH = 4


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "CHECKPOINT_BATCH", BATCH)


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


@asynccontextmanager
async def opened(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer, **more: Any
) -> AsyncIterator[Knowledge]:
    asked = {
        "embedding_model": "some-model",
        "embedding_base_url": endpoint.base_url,
        "embedding_api_key": SecretStr(endpoint.key),
        "embedding_dims": 64,
        "tokens_per_day": BUDGET,
    }
    async with open_knowledge(settings.model_copy(update=asked | more), clock=clock) as knowledge:
        yield knowledge


async def told(knowledge: Knowledge, number: int) -> None:
    """Capture failures of about 100 tokens each."""
    words = ("the build stops " * 25).strip()
    await knowledge.capture.capture_all(
        [failure(failure_description=f"Case {n}: {words}", task_id=f"T-{n}") for n in range(number)]
    )


async def spend_all(knowledge: Knowledge) -> None:
    """Have a checkpoint send what it may, and more wait for it."""
    await told(knowledge, 20)
    with pytest.raises(BudgetSpent):
        await knowledge.checkpoints.process_all()


@pytest.mark.long
async def test_t12_a_workspace_sends_no_more_than_its_budget_and_a_batch_at_ten_times_the_load(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await told(knowledge, 100)
        with pytest.raises(BudgetSpent, match=r"workspace default has used its 1,000 tokens .*HARDWON_TOKENS_PER_DAY"):
            await knowledge.checkpoints.process_all()
        batch = max(sum(map(endpoint._tokens, texts)) for texts in endpoint.batches)
        stats = await knowledge.stats()
        assert BUDGET <= endpoint.tokens <= BUDGET + batch
        assert stats.entries["staged"] + stats.entries["embedded"] == 100, "none is dead"
        assert stats.entries["embedded"] >= BUDGET // batch * BATCH
        assert (stats.tokens_today, stats.tokens_per_day) == (endpoint.tokens, BUDGET)
        before = endpoint.calls
        with pytest.raises(BudgetSpent):
            await knowledge.checkpoints.process_all()
        assert endpoint.calls == before, "nothing more is sent"
        clock.move(timedelta(days=1))
        with pytest.raises(BudgetSpent):
            await knowledge.checkpoints.process_all()
        assert 2 * BUDGET <= endpoint.tokens <= 2 * (BUDGET + batch), "the next day has a budget of its own"
        assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_t12_several_processes_share_the_budget(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await told(knowledge, 60)
        tried = [knowledge.checkpoints.process_all() for _ in range(8)]
        came = await asyncio.gather(*tried, return_exceptions=True)
        assert all(isinstance(each, BudgetSpent) for each in came)
        batch = max(sum(map(endpoint._tokens, texts)) for texts in endpoint.batches)
        assert endpoint.tokens <= BUDGET + batch


@pytest.mark.long
async def test_the_budget_of_one_workspace_holds_up_no_other(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await spend_all(knowledge.in_workspace("busy"))
        await told(knowledge.in_workspace("quiet"), 3)
        assert (await knowledge.in_workspace("quiet").checkpoints.process_all()).embedded == 3


@pytest.mark.long
async def test_a_context_without_budget_is_the_basic_one_and_captures_go_on(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await spend_all(knowledge)
        context = await OrchestratorContextBuilder(knowledge).build_context_for_task(
            {"description": "Mend the build"}, "coder"
        )
        assert context.degraded is not None
        assert "has used its 1,000 tokens" in context.degraded
        assert context.text == "Task: Mend the build"
        await capture(knowledge, failure(failure_description="Another one"))


@pytest.mark.long
async def test_t12_over_http_it_is_a_429_that_says_when(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await spend_all(knowledge)
        transport = httpx.ASGITransport(make_app(knowledge))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.post("/v1/queries/task", json={"task_description": "Mend the build"})
        assert answer.status_code == 429
        midnight = (clock.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        assert int(answer.headers["Retry-After"]) == (midnight - clock.now()).total_seconds()
        assert "tokens" in answer.json()["detail"]
        client = KnowledgeClient("http://localhost", transport=transport)
        async with client:
            with pytest.raises(Exception, match="has used its 1,000 tokens"):
                await client.queries.query_for_task("Mend the build")
            assert (await client.stats()).tokens_per_day == BUDGET


@pytest.mark.long
async def test_what_the_endpoint_refuses_costs_nothing(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint, embedding_timeout_seconds=1) as knowledge:
        await told(knowledge, 2)
        await knowledge.checkpoints.process_all()
        before = await knowledge.stats()
        assert before.tokens_today == endpoint.tokens
        endpoint.misbehave(*[Status(503)] * 20)
        with pytest.raises(EmbedderUnavailable):
            await knowledge.queries.query_for_task("Something new")
        assert (await knowledge.stats()).tokens_today == before.tokens_today


@pytest.mark.long
async def test_what_nobody_waits_for_any_more_costs_what_was_guessed(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await told(knowledge, 2)
        await knowledge.checkpoints.process_all()
        before = (await knowledge.stats()).tokens_today
        assert before is not None
        endpoint.misbehave(Misdeed.HANG)
        asked = "Something new"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(knowledge.queries.query_for_task(asked), timeout=1)
        assert (await knowledge.stats()).tokens_today == before + estimate_tokens([asked])


@pytest.mark.long
async def test_the_bundled_model_costs_nothing_and_without_a_budget_nothing_is_counted(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with open_knowledge(settings.model_copy(update={"tokens_per_day": 1}), clock=clock) as knowledge:
        await told(knowledge, 5)
        assert (await knowledge.checkpoints.process_all()).embedded == 5
        assert (await knowledge.stats()).tokens_today == 0
        assert (await knowledge.in_workspace("other").stats()).tokens_per_day == 1
    async with open_knowledge(settings, clock=clock) as knowledge:
        stats = await knowledge.stats()
        assert (stats.tokens_today, stats.tokens_per_day) == (None, None)


async def test_answers_of_a_model_cost_what_it_says_or_what_is_guessed(
    settings: KnowledgeSettings, clock: SetClock
) -> None:
    with OpenAIServer(says=lambda *_: "Yes.") as server:
        chat = {"main_model": "m", "main_base_url": server.base_url, "main_api_key": SecretStr(server.key)}
        async with open_knowledge(settings.model_copy(update=chat | {"tokens_per_day": 150}), clock=clock) as knowledge:
            model = await knowledge.answering.main()
            assert model is not None
            asked = [Message(role="user", content="Is the build green?")]
            server.misbehave(lambda reply: reply | {"usage": {"total_tokens": 140}})
            await model.say(asked, ChatOptions())
            assert (await knowledge.stats()).tokens_today == 140
            await model.say(asked, ChatOptions())
            guessed = estimate_tokens([asked[0].content, "Yes."])
            assert (await knowledge.stats()).tokens_today == 140 + guessed
            server.misbehave(*(lambda reply: reply | {"usage": {"total_tokens": 10**30}},) * 2)
            await model.say(asked, ChatOptions())
            assert (await knowledge.stats()).tokens_today == 140 + guessed + MAX_TOKENS
            with pytest.raises(BudgetSpent):
                await model.say(asked, ChatOptions())
            assert len(server.chats) == 3


@pytest.mark.long
async def test_distillation_ends_with_the_budget_and_says_so(settings: KnowledgeSettings, clock: SetClock) -> None:
    with OpenAIServer(says=lambda *_: json.dumps(WRITTEN)) as server:
        chat = {"chat_model": "m", "chat_base_url": server.base_url, "chat_api_key": SecretStr(server.key)}
        async with open_knowledge(settings.model_copy(update=chat | {"tokens_per_day": 1}), clock=clock) as knowledge:
            for case in ("The cart fails", "The mail is late"):
                await capture(knowledge, *(failure(failure_description=case, task_id=f"T-{n}") for n in range(3)))
            report = await knowledge.checkpoints.process_all(distill=True)
            assert report.embedded == 6, "the bundled model costs nothing"
            assert report.distillation is not None
            assert report.distillation.distilled == len(server.chats) == 1
            assert "has used its 1 tokens" in str(report.distillation.error)
