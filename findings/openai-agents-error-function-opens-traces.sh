#!/usr/bin/env bash
# One would guess: a `failure_error_function` that returns the very text of the default one changes nothing.
# True: what the model reads is the same, but the span of the tool, which is exported, holds the exception's own words then;
# with the default it says that they are redacted. A formatter of the run (`RunConfig.tool_error_formatter`) sees the
# exception and leaves the span redacted.
# Matters to whoever wraps `failure_error_function` to see errors: it sends them to where traces go.
# openai-agents 0.24.0, 2026-11-28.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openai-agents==0.24.0
"$folder/venv/bin/python" - <<'PY'
import asyncio
import json
from importlib.metadata import version

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool, set_trace_processors
from agents.tracing import TracingProcessor
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

print("openai-agents", version("openai-agents"))
HIDDEN = "An error occurred while running the tool. Please try again."


class Spans(TracingProcessor):
    def __init__(self):
        self.spans = []

    def on_span_end(self, span):
        self.spans.append(span.export())

    def on_trace_start(self, trace): ...
    def on_trace_end(self, trace): ...
    def on_span_start(self, span): ...
    def shutdown(self): ...
    def force_flush(self): ...


class Script(Model):
    def __init__(self):
        self.read = None

    async def get_response(self, system_instructions, input, *args, **more):
        outputs = [item["output"] for item in input if item.get("type") == "function_call_output"]
        if outputs:
            self.read = outputs[0]
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            said = ResponseFunctionToolCall(name="check", arguments="{}", call_id="1", type="function_call")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args, **more):
        raise NotImplementedError


def run(config=None, **options):
    def check() -> str:
        raise RuntimeError("the words of the error")

    spans, model = Spans(), Script()
    set_trace_processors([spans])
    agent = Agent(name="a", model=model, tools=[function_tool(check, **options)])
    asyncio.run(Runner.run(agent, "go", run_config=config))
    return model.read, "the words of the error" in json.dumps(spans.spans)


formatted = RunConfig(tool_error_formatter=lambda told: HIDDEN)
seen = {
    "the default": run(),
    "a function that returns the same": run(failure_error_function=lambda context, error: HIDDEN),
    "a formatter of the run that returns the same": run(formatted),
}
for case, (read, told) in seen.items():
    print(f"{case}: the model reads {read!r}; the span has the error's words: {told}")
assert {read for read, _ in seen.values()} == {HIDDEN}, "the behaviour has changed"
assert [told for _, told in seen.values()] == [False, True, False], "the behaviour has changed"
PY
