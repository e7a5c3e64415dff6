"""What every embedder does: one suite over the bundled model, an endpoint, and the double that other tests use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from pydantic import SecretStr

from hardwon.errors import EmbedderUnavailable, TextRejected
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.embedding_space import fingerprint
from knowledge.ports import Embedder
from tests.support.embedders import HashingEmbedder
from tests.support.openai_server import OpenAIServer

Make = Callable[[], Embedder]

TEXTS = [
    "the connection to the database was refused",
    "database connection refused",
    "a recipe for apple cake",
    "ModuleNotFoundError: No module named 'yaml'",
    "Ünïcödé, 漢字 and \U0001f600",
    "NUL \x00 inside",
]


@pytest.fixture(params=["local", "openai", "hashing"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    with ExitStack() as stack:
        if request.param == "local":
            yield LocalEmbedder
        elif request.param == "hashing":
            yield HashingEmbedder
        else:
            server = stack.enter_context(OpenAIServer(bytes_per_token=2))
            yield lambda: OpenAIEmbedder("some-model", base_url=server.base_url, api_key=SecretStr(server.key))


@pytest.fixture
async def embedder(make: Make) -> AsyncIterator[Embedder]:
    made = make()
    yield made
    await made.aclose()


async def test_vectors_are_float32_of_length_one_in_the_dimensions_of_the_space(embedder: Embedder) -> None:
    embedded = await embedder.embed(TEXTS, "document")
    assert embedded.vectors.dtype == np.float32
    assert embedded.vectors.shape == (len(TEXTS), (await embedder.space()).dims)
    np.testing.assert_allclose(np.linalg.norm(embedded.vectors, axis=1), 1, atol=1e-6)
    assert embedded.tokens >= len(TEXTS)
    assert embedded.truncated == ()


@pytest.mark.parametrize("kind", ["query", "document"])
async def test_a_text_has_the_same_vector_alone_and_among_others(embedder: Embedder, kind: str) -> None:
    together = (await embedder.embed(TEXTS, kind)).vectors  # type: ignore[arg-type]
    for position in reversed(range(len(TEXTS))):
        alone = (await embedder.embed([TEXTS[position]], kind)).vectors[0]  # type: ignore[arg-type]
        np.testing.assert_array_equal(alone, together[position])


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    embedded = await embedder.embed([], "query")
    assert embedded.vectors.shape == (0, (await embedder.space()).dims)
    assert embedded.tokens == 0


async def test_like_texts_lie_nearer_than_unlike_ones(embedder: Embedder) -> None:
    query = (await embedder.embed(["database connection refused"], "query")).vectors[0]
    like, unlike = (await embedder.embed([TEXTS[0], TEXTS[2]], "document")).vectors @ query
    assert like > unlike + 0.2


async def test_two_embedders_of_one_model_make_one_space(make: Make, embedder: Embedder) -> None:
    other = make()
    assert await other.space() == await embedder.space()
    np.testing.assert_array_equal(
        (await other.embed(TEXTS, "document")).vectors, (await embedder.embed(TEXTS, "document")).vectors
    )
    await other.aclose()


async def test_the_fingerprint_of_a_space_is_of_every_other_field(embedder: Embedder) -> None:
    space = await embedder.space()
    assert space.fingerprint == fingerprint(space)
    assert fingerprint(replace(space, fingerprint="another")) == space.fingerprint
    others = [
        replace(space, provider="p"),
        replace(space, model="m"),
        replace(space, revision="r"),
        replace(space, dims=space.dims + 1),
        replace(space, max_tokens=1),
        replace(space, query_prefix="q"),
        replace(space, document_prefix="d"),
    ]
    assert len({fingerprint(each) for each in [space, *others]}) == 8
    assert all(len(fingerprint(each)) == 16 for each in others)


async def test_only_a_text_that_is_too_long_is_reported_as_cut(embedder: Embedder) -> None:
    """D27: a long text is cut visibly, and its neighbours are whole."""
    long = " ".join(f"word{n}" for n in range(30_000))
    embedded = await embedder.embed(["short", long, "also short"], "document")
    assert embedded.truncated == (1,)
    np.testing.assert_array_equal(embedded.vectors[2], (await embedder.embed(["also short"], "document")).vectors[0])
    again = await embedder.embed([long], "query")
    assert again.truncated == (0,)
    assert (await embedder.embed([long], "query")).truncated == (0,)


async def test_of_a_text_that_is_too_long_both_ends_are_read(embedder: Embedder) -> None:
    """Of a log, what matters stands first or last; two logs that ended otherwise were the same to a model."""
    between = " ".join(f"word{n}" for n in range(30_000))
    told = [f"{first} {between} {last}" for first in ("red", "blue") for last in ("cat", "dog")]
    vectors = (await embedder.embed(told, "document")).vectors
    assert len({vector.tobytes() for vector in vectors}) == 4


@pytest.mark.parametrize("text", ["", " \n\t", "half a pair: \ud83d"])
async def test_what_is_no_text_is_rejected_and_named(embedder: Embedder, text: str) -> None:
    """D27: a blank text is refused before it costs a call."""
    with pytest.raises(TextRejected, match="Text 2 of 3"):
        await embedder.embed(["before", text, "after"], "document")
    assert (await embedder.embed(["before"], "document")).vectors.shape[0] == 1


async def test_many_calls_at_once_each_get_their_own_vectors(embedder: Embedder) -> None:
    groups = [[f"{text} {n}" for text in TEXTS[:3]] for n in range(12)]
    found = await asyncio.gather(
        *(embedder.embed(group, "query" if n % 2 else "document") for n, group in enumerate(groups))
    )
    for group, embedded in zip(groups, found, strict=True):
        np.testing.assert_array_equal(embedded.vectors, (await embedder.embed(group, "document")).vectors)


async def test_a_cancelled_call_leaves_the_embedder_at_work(embedder: Embedder) -> None:
    for seconds in (0, 0.005, 0.03):
        call = asyncio.create_task(embedder.embed([f"text {n} {seconds}" for n in range(200)], "document"))
        await asyncio.sleep(seconds)
        call.cancel()
        await asyncio.wait([call], timeout=5)
        assert call.done()
    async with asyncio.timeout(5):
        assert (await embedder.embed(TEXTS, "document")).vectors.shape[0] == len(TEXTS)


async def test_changing_a_result_changes_no_later_one(embedder: Embedder) -> None:
    first = (await embedder.embed(["a query"], "query")).vectors
    expected = first.copy()
    first[:] = 0
    np.testing.assert_array_equal((await embedder.embed(["a query"], "query")).vectors, expected)


async def test_closing_twice_is_fine_and_a_closed_embedder_says_so(embedder: Embedder) -> None:
    await embedder.embed(["a query"], "query")
    await embedder.aclose()
    await embedder.aclose()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["a query"], "query")


async def test_closing_under_a_call_ends_it_with_a_word(embedder: Embedder) -> None:
    await embedder.space()
    call = asyncio.create_task(embedder.embed([f"text {n}" for n in range(300)], "document"))
    await asyncio.sleep(0.002)
    await embedder.aclose()
    await asyncio.wait([call], timeout=10)
    if error := call.exception():  # a quick embedder may have been done
        assert isinstance(error, EmbedderUnavailable)
        assert "closed" in str(error)
