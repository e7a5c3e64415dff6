"""One bad text never holds up the others, and an endpoint that fails whatever the text makes none of them refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from hardwon.errors import EmbedderRejected, EmbedderUnavailable, TextRejected
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.llm.endpoint import RetryPolicy
from tests.support.embedders import hashed_bag
from tests.support.endpoints.quirks import BAD, FAILING, REFUSING, real_texts_fail
from tests.support.openai_server import OpenAIServer

MODEL = "some-model"
QUICK = RetryPolicy(attempts=4, timeout_seconds=0.4, first_delay_seconds=0.005, longest_delay_seconds=0.02)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def open_embedder(server: OpenAIServer, **options: Any) -> OpenAIEmbedder:
    chosen: dict[str, Any] = {"dimensions": 64, "retry": QUICK, "api_key": SecretStr(server.key)} | options
    return OpenAIEmbedder(MODEL, base_url=server.base_url, **chosen)


async def embed_halving(embedder: OpenAIEmbedder, texts: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Embed as a checkpoint does; return vectors and reasons by text."""
    try:
        return dict(zip(texts, (await embedder.embed(texts, "document")).vectors, strict=True)), {}
    except TextRejected as refusal:
        if len(texts) == 1:
            return {}, {texts[0]: str(refusal)}
        first = await embed_halving(embedder, texts[: len(texts) // 2])
        second = await embed_halving(embedder, texts[len(texts) // 2 :])
        return first[0] | second[0], first[1] | second[1]


@pytest.mark.long
@pytest.mark.parametrize("places", [(0,), (7, 8, 23)], ids=str)
@pytest.mark.parametrize("quirk", REFUSING)
async def test_all_but_the_bad_texts_are_embedded_and_these_are_named(
    server: OpenAIServer, quirk: str, places: tuple[int, ...]
) -> None:
    make, words = REFUSING[quirk]
    server.quirk = make(server)
    texts = [f"{BAD} {n} of a case" if n in places else f"text {n} of a case" for n in range(24)]
    async with aclosing(open_embedder(server)) as embedder:
        vectors, refused = await embed_halving(embedder, texts)
    assert set(refused) == {texts[place] for place in places}
    for reason in refused.values():
        assert re.search(f"{server.base_url}.*(?:{words})", reason), reason
    for text, vector in vectors.items():
        np.testing.assert_allclose(vector, hashed_bag(text, dims=64, model=MODEL), atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 12])
@pytest.mark.parametrize("quirk", FAILING)
async def test_no_text_is_refused_while_the_endpoint_fails_whatever_the_text(
    server: OpenAIServer, quirk: str, number: int
) -> None:
    server.quirk = FAILING[quirk](server)
    texts = [f"text {n} of a case" for n in range(number)]
    retry = RetryPolicy(attempts=2, timeout_seconds=0.1, first_delay_seconds=0.001, longest_delay_seconds=0.002)
    async with aclosing(open_embedder(server, retry=retry)) as embedder:
        for _ in range(5):
            try:
                await embedder.embed(texts, "document")
            except TextRejected as refusal:
                pytest.fail(str(refusal))
            except (EmbedderUnavailable, EmbedderRejected):
                pass
        server.quirk = None
        assert len((await embedder.embed(texts, "document")).vectors) == number


async def test_an_overloaded_endpoint_that_answers_to_a_word_refuses_no_text(server: OpenAIServer) -> None:
    server.quirk = real_texts_fail(server)
    async with aclosing(open_embedder(server)) as embedder:
        try:
            await embedder.embed(["a longer text " * 50], "document")
        except TextRejected as refusal:
            pytest.fail(str(refusal))
        except EmbedderUnavailable:
            pass


async def test_the_good_path_costs_one_request(server: OpenAIServer) -> None:
    async with aclosing(open_embedder(server)) as embedder:
        await embedder.embed([f"text {n}" for n in range(256)], "document")
        await embedder.embed(["a query"], "query")
    assert server.calls == 2


@pytest.mark.parametrize("long", ["a context in a 500", "a context in a reset"])
async def test_a_long_text_is_cut_whatever_the_way_in_which_it_fails(server: OpenAIServer, long: str) -> None:
    server.quirk = REFUSING[long][0](server)
    async with aclosing(open_embedder(server)) as embedder:
        embedded = await embedder.embed(["before", "some words of a report " * 200, "after"], "document")
    assert embedded.truncated == (1,)


async def test_an_endpoint_that_takes_no_batches_is_asked_one_by_one_from_then_on(server: OpenAIServer) -> None:
    server.quirk = REFUSING["no batches"][0](server)
    async with aclosing(open_embedder(server)) as embedder:
        await embedder.embed([f"text {n}" for n in range(12)], "document")
        calls = server.calls
        await embedder.embed([f"another text {n}" for n in range(12)], "document")
    assert server.calls - calls == 12


async def test_a_query_that_is_refused_says_so_at_once(server: OpenAIServer) -> None:
    server.quirk = REFUSING["500 for ever"][0](server)
    async with aclosing(open_embedder(server)) as embedder:
        with pytest.raises(TextRejected, match=r"unsupported value: NaN.*for this text, and embeds others"):
            await embedder.embed([f"{BAD} of a query"], "query")
    assert server.calls <= QUICK.attempts + 1
