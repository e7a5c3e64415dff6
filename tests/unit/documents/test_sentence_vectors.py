"""Sentences that were read lately are not embedded again, and nothing of one workspace serves another."""

from __future__ import annotations

import numpy as np

from knowledge.documents.reading.embedding_cache import SentenceVectors
from tests.support.embedders import HashingEmbedder


async def test_a_sentence_is_embedded_once_in_each_workspace_and_space() -> None:
    embedder, vectors = HashingEmbedder(dims=8), SentenceVectors()
    first = await vectors.of(["one two", "three", "one two"], embedder, "a")
    assert (first.shape, embedder.texts) == ((3, 8), 2)
    again = await vectors.of(["three", "four", "one two"], embedder, "a")
    assert embedder.texts == 3
    assert np.array_equal(again[[2, 0]], first[[0, 1]])
    assert np.array_equal(
        again, (await HashingEmbedder(dims=8).embed(["three", "four", "one two"], "document")).vectors
    )
    await vectors.of(["three"], embedder, "b")
    assert embedder.texts == 4, "how soon it comes would tell what another workspace has"
    other = HashingEmbedder(dims=4, model="another")
    assert (await vectors.of(["three"], other, "a")).shape == (1, 4)
    assert (await vectors.of([], embedder, "a")).shape == (0, 8)


async def test_what_was_not_read_for_longest_goes_first_where_there_is_no_more_room() -> None:
    embedder, vectors = HashingEmbedder(dims=8), SentenceVectors(most_bytes=3 * 8 * 4)
    await vectors.of(["a", "b", "c"], embedder, "w")
    await vectors.of(["a", "d"], embedder, "w")
    assert embedder.texts == 4
    await vectors.of(["a", "c", "d"], embedder, "w")
    assert embedder.texts == 4
    await vectors.of(["b"], embedder, "w")
    assert embedder.texts == 5


async def test_more_than_there_is_room_for_is_answered_all_the_same() -> None:
    embedder, vectors = HashingEmbedder(dims=8), SentenceVectors(most_bytes=8 * 4)
    texts = [str(n) for n in range(9)]
    assert np.array_equal(await vectors.of(texts, embedder, "w"), (await embedder.embed(texts, "document")).vectors)
