"""The OpenAI Agents SDK with a scripted model: what its tools' runs teach, and what is told after a failure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    Usage,
    function_tool,
    set_trace_processors,
)
from agents.tracing import Span, Trace, TracingProcessor
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from hardwon.integrations.openai_agents import watch
from hardwon.models.ids import CONTEXT_OPENING
from tests.acceptance.integrations.conftest import FAILURE, Server, connect, settle

FIX = "return sum(price or 0 for price in prices)"
TEST = ("run_tests", {"path": "test_cart.py"})
WRITE = ("write_file", {"path": "cart.py", "content": FIX})
DEPLOY = ("deploy", {"target": "production"})
HIDDEN = "An error occurred while running the tool. Please try again."


class ScriptedModel(Model):
    """A model that makes the calls of a script, and keeps what it was asked."""

    def __init__(self, script: Sequence[tuple[str, dict[str, Any]]], run: str = "r") -> None:
        self.script = list(script)
        self.run = run
        self.done = 0
        self.requests: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:  # noqa: A002
        self.requests.append(input)
        output: Any
        if self.done == len(self.script):
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            output = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            name, arguments = self.script[self.done]
            output = ResponseFunctionToolCall(
                name=name,
                arguments=json.dumps(arguments),
                call_id=f"call-{self.run}-{self.done}",
                type="function_call",
            )
            self.done += 1
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        nothing: list[Any] = []
        for event in nothing:
            yield event

    @property
    def outputs(self) -> list[str]:
        """What the model was told of its calls, in its last request."""
        return [item["output"] for item in self.requests[-1] if item.get("type") == "function_call_output"]


class Spans(TracingProcessor):
    """What would be exported."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def on_trace_start(self, trace: Trace) -> None: ...

    def on_trace_end(self, trace: Trace) -> None: ...

    def on_span_start(self, span: Span[Any]) -> None: ...

    def on_span_end(self, span: Span[Any]) -> None:
        self.spans.append(span.export())

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@pytest.fixture(autouse=True)
def spans() -> Iterator[Spans]:
    """Keep spans here: nothing leaves the machine."""
    kept = Spans()
    set_trace_processors([kept])
    yield kept
    set_trace_processors([])


def shop(script: Sequence[tuple[str, dict[str, Any]]], run: str = "r", **options: Any) -> Agent[Any]:
    """Return an agent whose tests fail once."""
    failures = [FAILURE]

    @function_tool(**options)  # type: ignore[untyped-decorator]
    def run_tests(path: str) -> str:
        """Run the tests of a file."""
        if failures:
            raise RuntimeError(failures.pop())
        return "1 passed"

    @function_tool
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        return "wrote it"

    @function_tool(needs_approval=True)
    def deploy(target: str) -> str:
        """Deploy the shop, if a person agrees."""
        return "deployed"

    return Agent(name="dev", model=ScriptedModel(script, run), tools=[run_tests, write_file, deploy])


def model_of(agent: Agent[Any]) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def recorder_of(agent: Agent[Any]) -> Any:
    return agent.hooks._watcher.recorder  # type: ignore[union-attr]


@pytest.mark.long
async def test_a_fix_is_learned_and_the_next_run_has_it_in_its_next_request(server: Server, spans: Spans) -> None:
    agent = watch(shop([TEST, WRITE, TEST]), session="T-1", project="shop", **server.options)
    await Runner.run(agent, "Make the test of the cart pass")
    assert model_of(agent).outputs[0] == HIDDEN, "what the model reads is as without us"
    assert "test_total" not in json.dumps(spans.spans), "what is exported is as without us"
    settle(recorder_of(agent))
    assert server.learn() == 1
    (pattern,) = server.patterns()
    assert FIX in pattern["solution"]
    assert "TypeError" in pattern["problem"], "the words that the SDK shows to nobody"

    other = watch(shop([TEST, WRITE, TEST], "s"), session="T-2", project="books", **server.options)
    connect(recorder_of(other))
    await Runner.run(other, "Make the test of the invoice pass")
    assert model_of(other).outputs[0].startswith(HIDDEN)
    assert CONTEXT_OPENING in model_of(other).outputs[0]
    assert FIX in model_of(other).outputs[0]
    settle(recorder_of(other))
    assert server.learn() == 0
    assert server.open_entries("books") == []


@pytest.mark.parametrize("function", ["own", "none"])
async def test_a_tool_s_own_way_with_errors_stays(server: Server, function: str) -> None:
    own = (lambda _, error: f"failed: {type(error).__name__}") if function == "own" else None
    agent = watch(shop([TEST, WRITE, TEST], failure_error_function=own), project="shop", **server.options)
    if own is None:
        with pytest.raises(Exception, match="test_total"):
            await Runner.run(agent, "go")
    else:
        await Runner.run(agent, "go")
        assert model_of(agent).outputs[0] == "failed: RuntimeError"
    settle(recorder_of(agent))
    assert server.learn() == (own is not None)
    assert len(server.open_entries("shop")) == (own is None)


async def test_a_formatter_of_the_run_stays(server: Server) -> None:
    agent = watch(shop([TEST]), project="shop", **server.options)
    config = RunConfig(tool_error_formatter=lambda told: f"{told.kind}: try again")
    await Runner.run(agent, "go", run_config=config)
    assert model_of(agent).outputs == ["tool_exception: try again"]


async def test_the_recorded_run_leaves_an_open_failure_and_the_rejection(server: Server) -> None:
    """The case of ../shared/cases/agents/openai-agents, its answer given to a state that was stored meanwhile."""
    agent = watch(shop([TEST, TEST, DEPLOY]), session="T-17", project="shop", **server.options)
    result = await Runner.run(agent, "Make the test of the cart pass", session=SQLiteSession("T-17"))
    state = await RunState.from_string(agent, result.to_state().to_string())
    (item,) = state.get_interruptions()
    state.reject(item, rejection_message="No deploy on Friday; use staging")
    await Runner.run(agent, state)
    settle(recorder_of(agent))
    failure, rejection = sorted(server.open_entries("shop"), key=lambda entry: str(entry["entry_type"]))
    assert "TypeError" in failure["failure_description"]
    assert rejection["human_feedback"] == "No deploy on Friday; use staging"
    assert "production" in rejection["proposal"]
    assert server.learn() == 0


async def test_an_approved_call_and_a_rejection_without_a_word_teach_nothing(server: Server) -> None:
    for run, says_yes in (("a", True), ("b", False)):
        agent = watch(shop([DEPLOY], run), project="shop", **server.options)
        state = (await Runner.run(agent, "go")).to_state()
        (item,) = state.get_interruptions()
        if says_yes:
            state.approve(item)
        else:
            state.reject(item)
        await Runner.run(agent, state)
        settle(recorder_of(agent))
    assert server.open_entries("shop") == []


async def test_hooks_and_agents_that_were_there_go_on(server: Server) -> None:
    class Hooks(AgentHooks[Any]):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            self.seen.append(tool.name)

    hooks, second = Hooks(), shop([TEST, WRITE, TEST], "s")
    first = shop([WRITE, ("transfer_to_second", {})])
    second.name, first.hooks, first.handoffs = "second", hooks, [second]
    watch(first, session="T-1", project="shop", **server.options)
    await Runner.run(first, "go")
    assert hooks.seen == ["write_file"]
    settle(recorder_of(first))
    assert server.learn() == 1
