"""The fused graph against the packaged file: the same vectors in float32, and close ones in int8."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from tokenizers import Tokenizer

from knowledge.adapters.embedding.fused_minilm import fuse
from knowledge.adapters.embedding.local import bundled_model
from knowledge.adapters.embedding.onnx_graph import OnnxModel

Vectors = npt.NDArray[np.float32]
_DOCS = Path(__file__).parents[2] / "docs"


@functools.cache
def token_ids() -> list[list[int]]:
    """Texts of one word up to 256 tokens: paragraphs, tables and listings of our own documents."""
    tokenizer = Tokenizer.from_file(str(bundled_model().tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    paragraphs = [each for file in sorted(_DOCS.glob("*.md")) for each in file.read_text().split("\n\n")]
    texts = ["word", "TypeError: 'NoneType' object is not subscriptable", *paragraphs[:: len(paragraphs) // 36]]
    return [tokenizer.encode(text).ids for text in texts]


def options() -> Any:
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = 1
    chosen.log_severity_level = 3
    return chosen


@functools.cache
def packaged_vectors() -> Vectors:
    session = onnxruntime.InferenceSession(str(bundled_model().weights), options())

    def run(ids: npt.NDArray[np.int64]) -> Any:
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        return session.run(None, inputs)[0][0].mean(axis=0)

    return vectors(run, token_ids())


@functools.cache
def fused(*, quantised: bool) -> OnnxModel:
    return fuse(bundled_model().weights.read_bytes(), quantised=quantised)


def fused_vectors(model: OnnxModel) -> Vectors:
    session = model.open(onnxruntime, options())
    return vectors(lambda ids: session.run(None, {"input_ids": ids})[0][0], token_ids())


def vectors(run: Callable[[npt.NDArray[np.int64]], Any], told: Sequence[list[int]]) -> Vectors:
    rows = np.array([run(np.array([ids], dtype=np.int64)) for ids in told], dtype=np.float32)
    made: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


@pytest.mark.long
def test_in_float32_the_vectors_are_those_of_the_packaged_file() -> None:
    assert len(token_ids()) > 30
    assert {len(ids) for ids in token_ids()} >= {3, 256}
    np.testing.assert_allclose(fused_vectors(fused(quantised=False)), packaged_vectors(), atol=1e-6)


def test_in_int8_the_vectors_are_close_to_those_of_the_packaged_file() -> None:
    cosines = np.sum(fused_vectors(fused(quantised=True)) * packaged_vectors(), axis=1)
    assert cosines.min() >= 0.995
    assert cosines.mean() >= 0.997


def test_a_scale_that_is_wrong_by_a_quarter_is_noticed() -> None:
    """The bounds above bite."""
    model = fused(quantised=True)
    broken = {**model.weights, "3.down.scales": model.weights["3.down.scales"] * np.float32(1.25)}
    cosines = np.sum(fused_vectors(OnnxModel(graph=model.graph, weights=broken)) * packaged_vectors(), axis=1)
    assert cosines.mean() < 0.997


@pytest.mark.long
def test_the_same_file_always_gives_the_same_graph_and_the_same_vectors() -> None:
    model, again = fused(quantised=True), fuse(bundled_model().weights.read_bytes())
    assert again.graph == model.graph
    np.testing.assert_array_equal(fused_vectors(again), fused_vectors(model))


@pytest.mark.long
def test_a_vector_does_not_depend_on_what_was_embedded_before() -> None:
    session = fused(quantised=True).open(onnxruntime, options())
    alone = [session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0] for ids in token_ids()]
    again = [session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0] for ids in reversed(token_ids())]
    np.testing.assert_array_equal(np.array(alone), np.array(again[::-1]))


@pytest.mark.parametrize("layer", range(6))
def test_no_processor_overflows_where_texts_would_have_it_overflow(layer: int) -> None:
    """AVX2 adds two products of an input of 0 to 255 and a weight in 16 bits."""
    weights = np.abs(fused(quantised=True).weights[f"{layer}.output.values"].astype(np.int64))
    pairs = weights[0::2] + weights[1::2]
    assert 255 * pairs.max() <= np.iinfo(np.int16).max


def test_a_graph_takes_one_text_at_a_time() -> None:
    """Two texts of a run would share one scale of int8: a vector would depend on its neighbour."""
    session = fused(quantised=True).open(onnxruntime, options())
    with pytest.raises(Exception, match="invalid dimensions"):
        session.run(None, {"input_ids": np.ones((2, 8), dtype=np.int64)})


def test_the_weights_are_copied_so_that_the_session_owns_them() -> None:
    model = fuse(bundled_model().weights.read_bytes())
    session = model.open(onnxruntime, options())
    ids = np.array([token_ids()[1]], dtype=np.int64)
    before = session.run(None, {"input_ids": ids})[0]
    for name, weight in model.weights.items():
        if weight.flags.writeable:
            weight[...] = 0
            assert not model.weights[name].any()
    np.testing.assert_array_equal(session.run(None, {"input_ids": ids})[0], before)
