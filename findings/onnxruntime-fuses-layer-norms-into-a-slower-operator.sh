#!/usr/bin/env bash
# One would guess: onnxruntime's full graph optimisation, the default, makes a transformer encoder faster on a CPU, and at
# worst leaves it as fast as the basic one.
# True: at the extended level it replaces each `Add` + `LayerNormalization` by its own `SkipLayerNormalization`, which on a CPU
# takes longer than the two together for the shapes of a small encoder (256 tokens x 384). A chain of such blocks runs slower
# fully optimised than with basic optimisations; the results are the same to float32. So measure the levels before shipping.
# onnxruntime 1.31.1, onnx 1.23.2, x86-64, one thread, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onnxruntime==1.31.1 onnx==1.23.2 numpy==2.4.6
ORT_DISABLE_TELEMETRY=1 "$folder/venv/bin/python" - <<'PY'
import statistics
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, BLOCKS = 256, 384, 24
rng = np.random.default_rng(1)
scale = numpy_helper.from_array(np.ones(WIDTH, np.float32), "scale")
shift = numpy_helper.from_array(np.zeros(WIDTH, np.float32), "shift")
nodes, last = [], "x"
for block in range(BLOCKS):
    nodes.append(helper.make_node("Add", [last, "y"], [f"sum{block}"]))
    nodes.append(helper.make_node("LayerNormalization", [f"sum{block}", "scale", "shift"], [f"norm{block}"], axis=-1, epsilon=1e-5))
    last = f"norm{block}"
shape = ["batch", "tokens", WIDTH]
graph = helper.make_graph(
    nodes,
    "blocks",
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"],
    [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
    [scale, shift],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

print("onnxruntime", onnxruntime.__version__, "onnx", onnx.__version__)
feeds = {name: rng.standard_normal((1, TOKENS, WIDTH), np.float32) for name in "xy"}
levels = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
sessions, results, times = {}, {}, {name: [] for name in levels}
for name, level in levels.items():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    sessions[name] = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    results[name] = sessions[name].run(None, feeds)[0]
for _ in range(60):
    for name, session in sessions.items():
        began = time.process_time()
        session.run(None, feeds)
        times[name].append(time.process_time() - began)
seconds = {name: statistics.median(each) for name, each in times.items()}
ratio = seconds["all"] / seconds["basic"]
print({name: f"{1000 * each:.2f} ms" for name, each in seconds.items()}, f"all / basic = {ratio:.2f}")
assert np.allclose(results["all"], results["basic"], atol=1e-4), "the behaviour has changed"
assert ratio > 1.2, "the behaviour has changed"
PY
