"""The recorded runs of three frameworks (`../shared/cases/agents`) teach the same when real ones play them again."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, interrupt
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from hardwon.integrations.langgraph import ToolNode
from hardwon.integrations.openai_agents import watch
from hardwon.integrations.pydantic_ai import Hardwon
from tests.acceptance.integrations.conftest import Server, settle
from tests.acceptance.integrations.test_langgraph import graph_of, run
from tests.acceptance.integrations.test_openai_agents import ScriptedModel

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "agents"
pytestmark = pytest.mark.skipif(not CASES.exists(), reason="the recorded runs lie beside the checkout, not in it")


@pytest.mark.long
def test_langgraph(server: Server) -> None:
    store = sqlite3.connect(f"file:{CASES / 'langgraph' / 'checkpoints.sqlite3'}?mode=ro&immutable=1", uri=True)
    load = JsonPlusSerializer().loads_typed
    last = "SELECT type, checkpoint FROM checkpoints ORDER BY checkpoint_id DESC LIMIT 1"
    messages = load(store.execute(last).fetchone())["channel_values"]["messages"]
    answers = store.execute("SELECT channel, type, value FROM writes WHERE channel IN ('__interrupt__', '__resume__')")
    told = {channel: load((kind, value)) for channel, kind, value in answers}
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    (asked,) = told["__interrupt__"]
    (answer,) = told["__resume__"] if isinstance(told["__resume__"], list) else [told["__resume__"]]

    def run_tests(path: str) -> str:
        """Run the tests of a file."""
        result = results.pop(0)
        if result.status == "error":
            raise RuntimeError(result.content)
        return str(result.content)

    def deploy(target: str) -> str:
        """Deploy, if a person agrees."""
        return f"turned down: {interrupt(asked.value)}"

    tools = [StructuredTool.from_function(run_tests), StructuredTool.from_function(deploy)]
    node = ToolNode(tools, handle_tool_errors=True, project="shop", **server.options)
    graph = graph_of(node, [(call["name"], call["args"]) for call in calls])
    run(graph, "T-17")
    run(graph, "T-17", Command(resume=answer))
    settle(node.recorder)
    failure, rejection = entries(server)
    assert "TypeError" in failure["failure_description"]
    assert "deploy to production" in rejection["proposal"]
    assert rejection["human_feedback"] == "No deploy on Friday; use staging"


async def test_openai_agents(server: Server) -> None:
    lines = (CASES / "openai-agents" / "trace-and-session.txt").read_text().splitlines()
    items = [json.loads(line.split(" ", 2)[2]) for line in lines if line.startswith("MSG ")]
    spans = [json.loads(line.removeprefix("span ")) for line in lines if line.startswith("span ")]
    calls = [item for item in items if item.get("type") == "function_call"]
    outputs = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    failed = [span["error"] is not None for span in spans if span["span_data"]["type"] == "function"]

    def run_tests(path: str) -> str:
        """Run the tests of a file."""
        if failed.pop(0):
            raise RuntimeError("FAILED (errors=1)")  # its words are in none of the files
        return str(outputs[calls[1]["call_id"]])

    def deploy(target: str) -> str:
        """Deploy, if a person agrees."""
        raise AssertionError("nobody agreed")

    tools: list[Any] = [function_tool(run_tests), function_tool(deploy, needs_approval=True)]
    script = [(call["name"], json.loads(call["arguments"])) for call in calls]
    agent: Agent[Any] = Agent(name="dev", model=ScriptedModel(script), tools=tools)
    watch(agent, session="T-17", project="shop", **server.options)
    state = (await Runner.run(agent, "Make the test of the cart pass")).to_state()
    (item,) = state.get_interruptions()
    state.reject(item, rejection_message=outputs[calls[2]["call_id"]])
    await Runner.run(agent, state)
    settle(agent.hooks._watcher.recorder)  # type: ignore[union-attr]
    failure, rejection = entries(server)
    assert failure["error_message"] == "RuntimeError: FAILED (errors=1)"
    assert rejection["human_feedback"] == "No deploy on Friday; use staging"


async def test_pydantic_ai(server: Server) -> None:
    text = (CASES / "pydantic-ai" / "messages-and-spans.txt").read_text()
    calls = re.findall(
        r'^PART response tool-call (\w+) .*?"args": "(.*?[^\\])", "tool_call_id": "(\w+)"', text, re.MULTILINE
    )
    parts = re.findall(
        r'^PART request tool-return \w+ .*?"content": "(.*?)", "tool_call_id".*?"outcome": "(\w+)"', text, re.MULTILINE
    )
    results = list(parts)

    def model(messages: list[ModelMessage], _: Any) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done == len(calls):
            return ModelResponse(parts=[TextPart("done")])
        name, arguments, call_id = calls[done]
        return ModelResponse(parts=[ToolCallPart(name, json.loads(f'"{arguments}"'), tool_call_id=call_id)])

    def result() -> str:
        content, outcome = results.pop(0)
        if outcome == "retried":
            raise ModelRetry(content)
        return str(content)

    ours = Hardwon(project="shop", **server.options)
    agent = PydanticAgent(FunctionModel(model), capabilities=[ours])

    @agent.tool_plain(retries=3)
    def run_tests(path: str) -> str:
        return result()

    @agent.tool_plain
    def deploy(target: str) -> str:
        return result()

    assert [outcome for _, outcome in parts] == ["retried", "success", "success"]
    await agent.run("Make the test of the cart pass")
    settle(ours.recorder)
    (failure,) = entries(server)
    assert "TypeError" in failure["failure_description"]


def entries(server: Server) -> Sequence[dict[str, Any]]:
    """Return what was learned: open entries alone, as the fix is in none of the runs."""
    assert server.learn() == 0
    return sorted(server.open_entries("shop"), key=lambda entry: str(entry["entry_type"]))
