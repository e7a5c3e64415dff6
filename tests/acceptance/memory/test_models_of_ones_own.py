"""A model in a folder, and one at an endpoint that wants prefixes: set by variables, changed to by `reembed`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hardwon.errors import EmbedderUnavailable, SpaceMismatch
from knowledge.adapters.embedding.local import bundled_model
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import make_embedder, open_knowledge
from tests.acceptance.memory.test_the_loop import CART, fail
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry, lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the bundled weights under another name."""
    made = tmp_path / "our-model"
    made.mkdir()
    model = bundled_model()
    (made / "model.onnx").symlink_to(model.weights)
    (made / "tokenizer.json").symlink_to(model.tokenizer)
    return made


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=64) as server:
        yield server


@pytest.mark.long
async def test_a_model_in_a_folder_is_run_in_process(settings: KnowledgeSettings, folder: Path) -> None:
    settings = settings.model_copy(update={"embedding_model": str(folder)})
    async with open_knowledge(settings) as knowledge:
        await knowledge.upkeep.keep_local(on=True)
        await fail(knowledge)
        assert (await knowledge.checkpoints.process_all()).embedded == 1
        assert await knowledge.queries.query_for_failure(CART)
        assert (await knowledge.stats()).embedding_model == "our-model"
    async with open_knowledge(settings.model_copy(update={"embedding_model": "all-MiniLM-L6-v2"})) as knowledge:
        with pytest.raises(SpaceMismatch, match="set HARDWON_EMBEDDING_MODEL=/path/to/our-model to go on"):
            await knowledge.queries.query_for_failure(CART)


async def test_a_folder_that_is_not_there_is_named(settings: KnowledgeSettings, tmp_path: Path) -> None:
    embedder = make_embedder(settings.model_copy(update={"embedding_model": str(tmp_path / "none")}))
    with pytest.raises(EmbedderUnavailable, match=r"none/model\.onnx cannot be read.*HARDWON_EMBEDDING_MODEL"):
        await embedder.space()


@pytest.mark.long
def test_what_is_asked_and_what_is_stored_go_to_an_endpoint_with_their_prefixes(
    database_url: str, home: Path, endpoint: OpenAIServer, tmp_path: Path
) -> None:
    commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
    (tmp_path / "entries.jsonl").write_text(lines([entry(failure_description=CART)]))
    commands.json("capture", tmp_path / "entries.jsonl")
    commands.json("checkpoint")
    wanted = {"HARDWON_EMBEDDING_QUERY_PREFIX": "query: ", "HARDWON_EMBEDDING_DOCUMENT_PREFIX": "passage: "}
    told = commands.refused("query", "failure", CART, **wanted)
    assert "and unset HARDWON_EMBEDDING_QUERY_PREFIX and unset HARDWON_EMBEDDING_DOCUMENT_PREFIX to go on" in told
    with commands.serving():
        prefixes = ("--query-prefix", "query: ", "--document-prefix", "passage: ")
        changed = commands.run("reembed", "--model", "test-model", *prefixes, "--force")
        assert changed.returncode == 0, changed.stderr
        assert "HARDWON_EMBEDDING_QUERY_PREFIX='query: '" in changed.stderr
        assert commands.json("query", "failure", f"{CART}!")["patterns"]
    sent = [text for batch in endpoint.batches for text in batch]
    assert f"passage: {CART}" in sent
    assert f"query: {CART}!" in sent
    assert "HARDWON_EMBEDDING_DOCUMENT_PREFIX='passage: '" in commands.refused("query", "failure", CART)
    assert commands.json("query", "failure", CART, **wanted)["patterns"]
