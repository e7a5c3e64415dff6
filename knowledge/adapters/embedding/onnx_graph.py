"""ONNX graphs without the package `onnx`, which is 27 MB more to install; protobuf comes with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Array = npt.NDArray[Any]
Shape = tuple[int | str, ...]
"""Lengths; one that differs from run to run is a name."""

CONTRIB: Final = "com.microsoft"
"""The domain of onnxruntime's own operators."""

# The part of the ONNX format that is read and written here: numbers and types of fields as in onnx.proto.

_OPSET: Final = 18
_IR_VERSION: Final = 8
FLOAT: Final = 1
_INT8, _INT64, _BOOL = 3, 7, 9
_TYPES: Final[Mapping[int, npt.DTypeLike]] = {FLOAT: np.float32, _INT8: np.int8, _INT64: np.int64, _BOOL: np.bool_}
_EXTERNAL: Final = 1
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {  # *: repeated
    "Entry": {"key": (1, "STRING"), "value": (2, "STRING")},
    "Tensor": {
        "dims": (1, "INT64*"),
        "data_type": (2, "INT32"),
        "name": (8, "STRING"),
        "raw_data": (9, "BYTES"),
        "external_data": (13, "Entry*"),
        "data_location": (14, "INT32"),
    },
    "Attribute": {"name": (1, "STRING"), "f": (2, "FLOAT"), "i": (3, "INT64"), "type": (20, "INT32")},
    "Node": {
        "input": (1, "STRING*"),
        "output": (2, "STRING*"),
        "name": (3, "STRING"),
        "op_type": (4, "STRING"),
        "attribute": (5, "Attribute*"),
        "domain": (7, "STRING"),
    },
    "Dimension": {"dim_value": (1, "INT64"), "dim_param": (2, "STRING")},
    "Shape": {"dim": (1, "Dimension*")},
    "TensorType": {"elem_type": (1, "INT32"), "shape": (2, "Shape")},
    "Type": {"tensor_type": (1, "TensorType")},
    "Value": {"name": (1, "STRING"), "type": (2, "Type")},
    "Graph": {
        "node": (1, "Node*"),
        "name": (2, "STRING"),
        "initializer": (5, "Tensor*"),
        "input": (11, "Value*"),
        "output": (12, "Value*"),
    },
    "Opset": {"domain": (1, "STRING"), "version": (2, "INT64")},
    "Model": {"ir_version": (1, "INT64"), "graph": (7, "Graph"), "opset_import": (8, "Opset*")},
}


@cache
def _model_class() -> Any:
    """Return the message class of a whole model."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="hardwon/onnx.proto", package="hardwon.onnx", syntax="proto2")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, told) in fields.items():
            kind = told.removesuffix("*")
            added = described.field.add(name=name, number=number)
            added.label = field_type.LABEL_OPTIONAL if kind == told else field_type.LABEL_REPEATED
            if kind in _MESSAGES:
                added.type, added.type_name = field_type.TYPE_MESSAGE, f".{file.package}.{kind}"
            else:
                added.type = field_type.Type.Value(f"TYPE_{kind}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.Model"))


def read_tensors(source: bytes) -> dict[str, Array]:
    """Return the weights of a model by name, in the order of the file."""
    model = _model_class().FromString(source)
    return {
        tensor.name: np.frombuffer(tensor.raw_data, dtype=_TYPES[tensor.data_type]).reshape(tensor.dims)
        for tensor in model.graph.initializer
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """A graph, and its weights beside it: onnxruntime takes half the memory for them when they are not in the graph."""

    graph: bytes
    weights: Mapping[str, Array]

    def open(self, onnxruntime: Any, options: Any) -> Any:
        """Return an onnxruntime session, which copies the weights.

        The graph runs as it is: the optimisers above the basic ones would replace Add and LayerNormalization by
        SkipLayerNormalization, which takes 0.5 ms for 256 tokens where the two take 0.1 (onnxruntime 1.31).
        """
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(weight) for weight in self.weights.values()]
        options.add_external_initializers(list(self.weights), values)
        return onnxruntime.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])


@dataclass(slots=True, kw_only=True)
class GraphBuilder:
    """A graph in the making; operators and weights are added in the order in which they run."""

    model: Any = field(default_factory=lambda: _model_class()(ir_version=_IR_VERSION))
    weights: dict[str, Array] = field(default_factory=dict)

    def node(self, operator: str, inputs: list[str], domain: str = "", **attributes: float) -> str:
        """Add an operator of one output; return the output's name."""
        return self.nodes(operator, inputs, 1, domain, **attributes)[0]

    def nodes(self, operator: str, inputs: list[str], outputs: int, domain: str = "", **attributes: float) -> list[str]:
        """Add an operator; return the names of its outputs."""
        name = f"{len(self.model.graph.node)}.{operator}"
        names = [f"{name}.{number}" for number in range(outputs)]
        added = self.model.graph.node.add(name=name, op_type=operator, domain=domain, input=inputs, output=names)
        for key, number in attributes.items():
            if isinstance(number, int):
                added.attribute.add(name=key, i=number, type=2)
            else:
                added.attribute.add(name=key, f=number, type=1)
        return names

    def weight(self, name: str, values: Array) -> str:
        """Add a weight, which is kept outside of the graph; return its name."""
        self.weights[name] = np.ascontiguousarray(values)
        declared = self._declare(name, values)
        declared.data_location = _EXTERNAL
        declared.external_data.add(key="location", value="in memory")
        return name

    def constant(self, name: str, numbers: list[int]) -> str:
        """Add integers that onnxruntime reads when it checks shapes; return their name."""
        if all(each.name != name for each in self.model.graph.initializer):
            values = np.array(numbers, dtype=np.int64)
            self._declare(name, values).raw_data = values.tobytes()
        return name

    def _declare(self, name: str, values: Array) -> Any:
        kinds = {np.dtype(dtype): kind for kind, dtype in _TYPES.items()}
        return self.model.graph.initializer.add(name=name, dims=values.shape, data_type=kinds[values.dtype])

    def close(self, inputs: Mapping[str, Shape], output: str, shape: Shape) -> OnnxModel:
        """Return the graph with its inputs, which are integers, and its output."""
        for name, each in inputs.items():
            self._add_value(self.model.graph.input, name, _INT64, each)
        self._add_value(self.model.graph.output, output, FLOAT, shape)
        self.model.graph.name = "hardwon"
        self.model.opset_import.add(domain="", version=_OPSET)
        self.model.opset_import.add(domain=CONTRIB, version=1)
        return OnnxModel(graph=self.model.SerializeToString(deterministic=True), weights=self.weights)

    @staticmethod
    def _add_value(values: Any, name: str, kind: int, shape: Shape) -> None:
        tensor_type = values.add(name=name).type.tensor_type
        tensor_type.elem_type = kind
        for length in shape:
            dimension = {"dim_param": length} if isinstance(length, str) else {"dim_value": length}
            tensor_type.shape.dim.add(**dimension)
