"""G22, D42. Another model that answers under the name of the one the store was embedded with mixes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hardwon.errors import ModelReplaced
from knowledge.adapters.embedding import model_check
from knowledge.adapters.embedding.model_check import PROBES
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.acceptance.memory.test_the_loop import CART, fail
from tests.support.documents import add, put
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry, lines

NEW = "the model that is served since"


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


@pytest.fixture
def remote(settings: KnowledgeSettings, endpoint: OpenAIServer) -> KnowledgeSettings:
    return endpoint.serving(settings, "test-model")


async def learn_one(knowledge: Knowledge) -> None:
    await fail(knowledge)
    assert (await knowledge.checkpoints.process_all()).embedded == 1


async def test_a_process_that_starts_with_another_model_under_the_name_embeds_and_finds_nothing(
    remote: KnowledgeSettings, endpoint: OpenAIServer
) -> None:
    """Entries stay staged, and are embedded once the old model answers again."""
    async with open_knowledge(remote) as knowledge:
        await learn_one(knowledge)
    endpoint.serves = NEW
    async with open_knowledge(remote) as knowledge:
        await fail(knowledge, failure_description="the queue is full", task_id="2")
        with pytest.raises(ModelReplaced, match="reembed --model test-model --revision WORD"):
            await knowledge.checkpoints.process_all()
        with pytest.raises(ModelReplaced):
            await knowledge.queries.query_for_failure(CART)
        stats = await knowledge.stats()
        assert (stats.entries["staged"], stats.entries["embedded"]) == (1, 1)
        endpoint.serves = None
        assert (await knowledge.checkpoints.process_all()).embedded == 1
        assert await knowledge.queries.query_for_failure(CART)


@pytest.mark.long
async def test_a_model_that_is_exchanged_while_a_process_runs_is_noticed_within_the_hour(
    remote: KnowledgeSettings, endpoint: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_knowledge(remote) as knowledge:
        await learn_one(knowledge)
        asked = [batch for batch in endpoint.batches if PROBES[0] in batch]
        for number in range(3):
            assert await knowledge.queries.query_for_failure(f"{CART} {number}")
        assert [batch for batch in endpoint.batches if PROBES[0] in batch] == asked, "once an hour is enough"
        endpoint.serves = NEW
        monkeypatch.setattr(model_check, "AGAIN_SECONDS", {"query": 0.0, "document": 0.0})  # an hour later
        with pytest.raises(ModelReplaced):
            await knowledge.queries.query_for_failure("the queue is full")


@pytest.mark.long
async def test_documents_are_not_indexed_with_another_model_under_the_name_and_wait(
    remote: KnowledgeSettings, endpoint: OpenAIServer
) -> None:
    async with open_knowledge(remote) as knowledge:
        await add(knowledge, "restore.md", b"Backups are kept for 30 days.")
    endpoint.serves = NEW
    async with open_knowledge(remote) as knowledge:
        await put(knowledge, "fees.md", b"A late payment costs 2 euros.")
        with pytest.raises(ModelReplaced):
            await knowledge.documents.indexing.run()
        endpoint.serves = None
        assert (await knowledge.documents.indexing.run()).indexed == 1


@pytest.mark.long
def test_an_operator_changes_over_to_what_answers_now_by_naming_it_and_back(
    database_url: str, home: Path, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
    with commands.serving():
        (tmp_path / "entries.jsonl").write_text(lines([entry(failure_description=CART)]))
        commands.json("capture", tmp_path / "entries.jsonl")
        commands.json("checkpoint")
    endpoint.serves = NEW
    with commands.serving():
        assert "another model answers by that name" in commands.refused("query", "failure", CART)
        changed = commands.run("reembed", "--model", "test-model", "--revision", "autumn", "--force")
        assert changed.returncode == 0, changed.stderr
        assert "HARDWON_EMBEDDING_MODEL=test-model HARDWON_EMBEDDING_REVISION=autumn" in changed.stderr
        assert commands.json("query", "failure", CART)["patterns"]
    sentence = commands.refused("query", "failure", CART)
    assert "set HARDWON_EMBEDDING_MODEL=test-model and HARDWON_EMBEDDING_REVISION=autumn" in sentence
    assert commands.json("query", "failure", CART, HARDWON_EMBEDDING_REVISION="autumn")["patterns"]
    endpoint.serves = None
    assert commands.json("reembed", "--model", "test-model")["switched"]
    told = commands.refused("query", "failure", CART, HARDWON_EMBEDDING_REVISION="autumn")
    assert "and unset HARDWON_EMBEDDING_REVISION" in told
    assert commands.json("query", "failure", CART)["patterns"]


@pytest.mark.long
def test_a_change_back_to_a_model_that_is_not_served_any_more_is_refused(
    database_url: str, home: Path, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    """Its vectors are still there, and one entry that lacks one would get it of another model."""
    commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
    (tmp_path / "entries.jsonl").write_text(lines([entry(failure_description=CART)]))
    commands.json("capture", tmp_path / "entries.jsonl")
    commands.json("checkpoint")
    endpoint.serves = NEW
    assert commands.json("reembed", "--model", "test-model", "--revision", "autumn", "--force")["switched"]
    autumn = {"HARDWON_EMBEDDING_REVISION": "autumn"}
    assert "another model answers" in commands.refused("reembed", "--model", "test-model", "--force")
    (tmp_path / "entries.jsonl").write_text(lines([entry(failure_description="the queue is full", task_id="2")]))
    commands.json("capture", tmp_path / "entries.jsonl")
    assert commands.json("checkpoint", **autumn)["embedded"] == 1
    assert "another model answers" in commands.refused("reembed", "--model", "test-model", "--force")
    assert commands.json("query", "failure", "the queue is full", **autumn)["patterns"]


@pytest.mark.long
async def test_the_first_question_of_a_process_waits_for_one_round_trip_alone(
    remote: KnowledgeSettings, endpoint: OpenAIServer
) -> None:
    async with open_knowledge(remote) as knowledge:
        await learn_one(knowledge)
    endpoint.seconds_per_call, endpoint.most_running = 0.2, 0
    async with open_knowledge(remote) as knowledge:
        assert await knowledge.queries.query_for_failure(f"{CART}!")
        assert endpoint.most_running == 2, "the model is recognised meanwhile"
