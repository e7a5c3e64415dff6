"""A workspace that is local only: nothing of it reaches an endpoint, and whatever would says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from hardwon.errors import BUNDLED_MODEL, LocalOnly
from hardwon.models.maintenance import ModelChoice
from knowledge.memory.checkpoint.summaries import CONCURRENCY
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.acceptance.memory.test_archive import OpensElsewhere, elsewhere, second_url
from tests.conftest import Opens, SetClock
from tests.support.archives import as_stream, whole
from tests.support.entries import CART, capture, failure
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by

__all__ = ["elsewhere", "second_url"]


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=1536) as server:
        yield server


@asynccontextmanager
async def opened(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer | None = None, **more: Any
) -> AsyncIterator[Knowledge]:
    """Open the test's stores with the bundled model, or with one at an endpoint."""
    remote = {
        "embedding_model": "text-embedding-3-small",
        "embedding_base_url": endpoint.base_url if endpoint else None,
        "embedding_api_key": SecretStr(endpoint.key) if endpoint else None,
    }
    async with open_knowledge(
        settings.model_copy(update=(remote if endpoint else {}) | more), clock=clock
    ) as knowledge:
        yield knowledge


@pytest.mark.long
async def test_a_checkpoint_sends_nothing_and_says_what_to_do(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        ours, theirs = knowledge.in_workspace("ours"), knowledge.in_workspace("theirs")
        await ours.upkeep.keep_local(on=True)
        await capture(ours, failure())
        with pytest.raises(LocalOnly) as refused:
            await ours.checkpoints.process_all()
        assert str(refused.value) == (
            "workspace ours is local only, and embedding with text-embedding-3-small would send its texts to an"
            " endpoint: use the bundled model (hardwon reembed --model all-MiniLM-L6-v2), or allow it (hardwon"
            " workspace local-only ours off)"
        )
        assert (await ours.stats()).entries == {"staged": 1}, "it waits, and nothing is lost"
        assert endpoint.calls == 0
        await capture(theirs, failure())
        assert (await theirs.checkpoints.process_all()).embedded == 1
        with pytest.raises(LocalOnly):
            await ours.checkpoints.process_all()
        await ours.upkeep.keep_local(on=False)
        assert (await ours.checkpoints.process_all()).embedded == 1


@pytest.mark.long
async def test_queries_and_repairs_send_nothing(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await capture(knowledge, failure())
        await knowledge.checkpoints.process_all()
        await knowledge.upkeep.keep_local(on=True)
        before = endpoint.calls
        for ask in (
            knowledge.queries.query_for_task("something new"),
            knowledge.queries.query_for_failure("something new"),
            knowledge.queries.query_for_gate("review", "something new"),
        ):
            with pytest.raises(LocalOnly):
                await ask
        assert (await knowledge.upkeep.verify()).sound, "what sends nothing goes on"
        assert (await knowledge.store_upkeep.rebuild()).embedded == 0
        assert endpoint.calls == before


async def test_a_store_does_not_change_to_an_endpoint_while_one_workspace_is_local_only(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock) as knowledge:
        await capture(knowledge, failure())
        await knowledge.checkpoints.process_all()
        await knowledge.upkeep.keep_local(on=True)
        choice = ModelChoice(model="text-embedding-3-small", base_url=endpoint.base_url, api_key=endpoint.key)
        with pytest.raises(LocalOnly):
            await knowledge.store_upkeep.reembed_to(choice, force=True)
        assert endpoint.calls == 0
        assert len(await knowledge.queries.query_for_failure(CART, min_relevance=0)) == 1, "the bundled model goes on"


@pytest.mark.long
async def test_a_store_can_leave_an_endpoint_for_the_bundled_model(
    settings: KnowledgeSettings, clock: SetClock, endpoint: OpenAIServer
) -> None:
    async with opened(settings, clock, endpoint) as knowledge:
        await capture(knowledge, failure())
        await knowledge.checkpoints.process_all()
        await knowledge.upkeep.keep_local(on=True)
        await knowledge.store_upkeep.reembed_to(ModelChoice(model=BUNDLED_MODEL), force=True)
        assert len(await knowledge.queries.query_for_failure(CART, min_relevance=0)) == 1


@pytest.mark.long
async def test_a_chat_model_is_not_asked(settings: KnowledgeSettings, clock: SetClock) -> None:
    asked: list[str] = []

    def says(*told: str) -> str:
        asked.extend(told)
        return "{}"

    with OpenAIServer(says=says) as server:
        chat: dict[str, Any] = {
            "chat_model": "some",
            "chat_base_url": server.base_url,
            "chat_api_key": SecretStr(server.key),
        }
        async with opened(settings, clock, **chat) as knowledge:
            await capture(knowledge, *(failure(task_id=f"T-{number}") for number in range(3)))
            await knowledge.upkeep.keep_local(on=True)
            report = await knowledge.checkpoints.process_all(distill=True)
    assert report.embedded == 3
    assert report.distillation is not None
    assert "local only, and distilling with some would send" in (report.distillation.error or "")
    assert asked == []


@pytest.mark.long
async def test_a_chat_model_at_work_is_asked_no_more_once_a_workspace_stays_here(opens: Opens) -> None:
    loop = asyncio.get_running_loop()

    def says(*_: str) -> str:
        """Answer the first of those that are asked at a time, once nothing may go out any more."""
        asyncio.run_coroutine_threadsafe(knowledge.upkeep.keep_local(on=True), loop).result(10)
        return "{}"

    with OpenAIServer(says=says) as server:
        async with opens(chat_model="some", chat_base_url=server.base_url, chat_api_key=SecretStr(server.key)) as found:
            knowledge = found
            told = [(case, run) for case in range(CONCURRENCY + 2) for run in range(3)]
            entries = (failure(failure_description=f"failure {case}", run_id=str(run)) for case, run in told)
            await capture(knowledge, *entries)
            report = await knowledge.checkpoints.process_all(distill=True)
    assert report.distillation is not None
    assert report.distillation.due == CONCURRENCY + 2
    assert "local only, and distilling with some would send" in (report.distillation.error or "")
    assert 1 <= len(server.chats) <= CONCURRENCY, "those that were asked at the time"


@pytest.mark.long
async def test_it_goes_along_in_an_archive_and_is_never_lifted_by_one(
    knowledge: Knowledge, elsewhere: OpensElsewhere
) -> None:
    await knowledge.upkeep.keep_local(on=True)
    await knowledge.in_workspace("free").upkeep.keep_local(on=False)
    archive = await whole(knowledge)
    async with elsewhere() as second:
        await second.in_workspace("free").upkeep.keep_local(on=True)
        first = await second.archives.import_archive(as_stream(archive))
        assert first.new["workspaces"] == 1, "the other one is here already, and stays as it is"
        again = await second.archives.import_archive(as_stream(archive))
        assert set(again.new.values()) == {0}
        assert await second.upkeep.local_only()
        assert await second.in_workspace("free").upkeep.local_only()


@pytest.mark.long
def test_the_command_says_and_changes_it(home: Path, database_url: str, endpoint: OpenAIServer) -> None:
    commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
    local, free = ({"workspace": "ours", "local_only": on} for on in (True, False))
    assert commands.json("workspace", "local-only", "ours", "on") == local
    assert commands.json("workspace", "local-only", "ours") == local
    assert commands.json("workspace", "local-only", "ours", "off") == free
