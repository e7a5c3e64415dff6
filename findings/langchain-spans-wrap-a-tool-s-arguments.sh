#!/usr/bin/env bash
# One would guess: `gen_ai.tool.call.arguments` of a tool's span is the JSON of the arguments, as the GenAI conventions say,
# and OpenInference's `input.value` is JSON, too; so a reader parses it and has the arguments by name.
# True: Traceloop's instrumentation of LangChain writes an object of LangChain's own there: the arguments are in its `inputs`,
# and once more in `input_str` as a literal of Python (single quotes, True, None), beside tags, metadata and `kwargs`.
# OpenInference writes the bare value, without its name, where a tool has one argument, and JSON where it has two.
# Neither has an attribute with the call's id.
# A tool that ends well is a span without an error, also where its own output says "Exit code: 1".
# Matters for whoever pairs calls of tools by their arguments, or reads a shell tool's command from a trace.
# opentelemetry-instrumentation-langchain 0.62.4, openinference-instrumentation-langchain 0.1.80, langchain-core 1.8.3, 2026-11-28.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    opentelemetry-instrumentation-langchain==0.62.4 openinference-instrumentation-langchain==0.1.80 \
    langchain-core==1.8.3 opentelemetry-sdk==1.45.2
cat >"$folder/run.py" <<'PY'
import importlib
import json
import sys

from langchain_core.tools import tool
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
module, name, attribute = sys.argv[1:]
getattr(importlib.import_module(module), name)().instrument(tracer_provider=provider)


@tool
def shell(command: str) -> str:
    """Run a command."""
    return "Exit code: 1"


@tool
def write(path: str, text: str) -> str:
    """Write a file."""
    return "written"


shell.invoke({"type": "tool_call", "name": "shell", "id": "call_1", "args": {"command": "make test"}})
write.invoke({"type": "tool_call", "name": "write", "id": "call_2", "args": {"path": "a", "text": "b"}})
one, two = memory.get_finished_spans()
told = [span.attributes[attribute] for span in (one, two)]
print(module, one.status.status_code.name, told)
assert one.status.status_code.name != "ERROR", "the behaviour has changed"
assert not any("call_id" in key or "call.id" in key for key in one.attributes), "the behaviour has changed"
if attribute == "input.value":
    assert told[0] == "make test" and json.loads(told[1]) == {"path": "a", "text": "b"}, "the behaviour has changed"
else:
    wrapped = json.loads(told[0])
    assert wrapped["input_str"] == "{'command': 'make test'}", "the behaviour has changed"
    assert wrapped["inputs"] == {"command": "make test"}, "the behaviour has changed"
PY
"$folder/venv/bin/python" "$folder/run.py" opentelemetry.instrumentation.langchain LangchainInstrumentor gen_ai.tool.call.arguments
"$folder/venv/bin/python" "$folder/run.py" openinference.instrumentation.langchain LangChainInstrumentor input.value
