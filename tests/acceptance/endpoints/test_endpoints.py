"""The loop behind endpoints with quirks, on real Postgres and the real engine: one text never starves the others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest
from pydantic import SecretStr

from hardwon.errors import EmbedderRejected, EmbedderUnavailable, HardwonError
from hardwon.models.documents import DocumentStatus
from knowledge import KnowledgeSettings, Task
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator import OrchestratorContextBuilder
from tests.acceptance.memory.test_the_loop import fail
from tests.conftest import Opens
from tests.support.documents import add, find
from tests.support.endpoints.quirks import BAD, FAILING, REFUSING
from tests.support.openai_server import OpenAIServer

QUICK = RetryPolicy(attempts=3, timeout_seconds=0.4, first_delay_seconds=0.005, longest_delay_seconds=0.02)
WORDS = ["cart", "invoice", "session", "cache", "queue", "worker", "lock", "stock", "login", "mail", "search", "feed"]
QUICK_ONES = {"500 for ever", "null for a vector", "reset", "no batches", "400", "429", "behind a cache", "half of all"}
"""The others are driven in the contract of the adapter, and here only with the long tests."""


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def behind(opens: Opens, server: OpenAIServer) -> AbstractAsyncContextManager[Knowledge]:
    """Open the stores with the endpoint's vectors."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Knowledge]:
        embedder = OpenAIEmbedder(
            "some-model", base_url=server.base_url, api_key=SecretStr(server.key), dimensions=64, retry=QUICK
        )
        async with opens(embedder=embedder) as knowledge:
            yield knowledge

    return opened()


async def capture_all(knowledge: Knowledge) -> str:
    """Capture a lesson for each word, and a bad one; return the id of that."""
    for word in WORDS:
        await fail(knowledge, failure_description=f"the {word} breaks at night", solution_steps=f"mend the {word}")
    return str(await fail(knowledge, failure_description=f"{BAD} of 12 nodes", solution_steps="mend the nodes"))


def quirks(names: Iterable[str]) -> list[object]:
    return [pytest.param(name, marks=[] if name in QUICK_ONES else [pytest.mark.long]) for name in names]


@pytest.mark.long
@pytest.mark.parametrize("quirk", quirks(REFUSING))
async def test_all_but_the_bad_text_are_embedded_by_one_checkpoint_and_it_is_dead_and_named(
    opens: Opens, server: OpenAIServer, quirk: str
) -> None:
    make, words = REFUSING[quirk]
    async with behind(opens, server) as knowledge:
        bad = await capture_all(knowledge)
        server.quirk = make(server)
        report = await knowledge.checkpoints.process_all()
        assert (report.embedded, report.dead) == (len(WORDS), 1)
        (dead,) = await knowledge.upkeep.dead()
        assert str(dead.entry_id) == bad
        assert re.search(words, dead.reason), dead.reason
        task = Task(description="the queue breaks at night", type="bugfix", technology="python")
        context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
        assert "mend the queue" in context.text
        server.quirk = None
        assert await knowledge.upkeep.retry_dead() == 1
        assert (await knowledge.checkpoints.process_all()).embedded == 1


@pytest.mark.long
@pytest.mark.parametrize("quirk", quirks(FAILING))
async def test_an_endpoint_that_fails_makes_no_entry_dead(opens: Opens, server: OpenAIServer, quirk: str) -> None:
    async with behind(opens, server) as knowledge:
        await capture_all(knowledge)
        server.quirk = FAILING[quirk](server)
        for _ in range(2):
            with suppress(EmbedderUnavailable, EmbedderRejected):
                await knowledge.checkpoints.process_all()
        assert not await knowledge.upkeep.dead()
        server.quirk = None
        await knowledge.checkpoints.process_all()
        assert (await knowledge.stats()).entries == {"embedded": len(WORDS) + 1}


@pytest.mark.long
@pytest.mark.parametrize("quirk", quirks(["500 for ever", "null for a vector", "403 of a firewall"]))
async def test_a_bad_passage_is_noted_and_the_others_of_its_document_are_found(
    opens: Opens, server: OpenAIServer, quirk: str
) -> None:
    make, words = REFUSING[quirk]
    server.quirk = make(server)
    sections = [f"# The {word}\n\nThe {word} is mended by the team of the {word}.\n\n" for word in WORDS]
    text = "".join([*sections[:6], f"# Nodes\n\n{BAD} of 12 nodes.\n\n", *sections[6:]])
    async with behind(opens, server) as knowledge:
        document = await add(knowledge, "handbook.md", text.encode())
        assert document.status is DocumentStatus.INDEXED
        (note,) = document.notes
        assert re.fullmatch(rf"Not searched: lines 2[0-9] to 2[0-9]\. .*(?:{words}).*", note), note
        for word in WORDS:
            found = await find(knowledge, f"who mends the {word}?")
            assert any(f"team of the {word}" in passage.text for passage in found.passages)
    server.quirk = None
    async with behind(opens, server) as knowledge:
        assert (await add(knowledge, "handbook.md", text.encode() + b"\n")).notes == ()


async def test_a_document_of_bad_passages_alone_fails_with_the_endpoints_words(
    opens: Opens, server: OpenAIServer
) -> None:
    server.quirk = REFUSING["500 for ever"][0](server)
    async with behind(opens, server) as knowledge:
        with pytest.raises(AssertionError):
            await add(knowledge, "nodes.md", f"{BAD} of 12 nodes.\n".encode())


@pytest.mark.long
async def test_the_texts_that_a_model_is_recognised_by_make_no_entry_dead(
    settings: KnowledgeSettings, server: OpenAIServer
) -> None:
    """They are sent with those of the first checkpoint."""
    server.poison = "backups"
    async with open_knowledge(server.serving(settings, "some-model")) as knowledge:
        await capture_all(knowledge)
        with pytest.raises(HardwonError, match="by which the model is recognised are refused"):
            await knowledge.checkpoints.process_all()
        assert not await knowledge.upkeep.dead()
    server.poison = BAD
    async with open_knowledge(server.serving(settings, "some-model")) as knowledge:
        report = await knowledge.checkpoints.process_all()
        assert (report.embedded, report.dead) == (len(WORDS), 1)
