"""Pydantic AI with a scripted model: what its tools' runs teach, and what is told after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, ToolDenied
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hardwon.integrations.pydantic_ai import Hardwon
from hardwon.models.ids import CONTEXT_OPENING
from tests.acceptance.integrations.conftest import FAILURE, Server, connect, settle

FIX = "return sum(price or 0 for price in prices)"
TEST = ("run_tests", {"path": "test_cart.py"})
WRITE = ("write_file", {"path": "cart.py", "content": FIX})
DEPLOY = ("deploy", {"target": "production"})


def shop(
    script: Sequence[tuple[str, dict[str, Any]]],
    capabilities: Sequence[Any],
    *,
    run: str = "r",
    error: type[Exception] = ModelRetry,
) -> Agent[None, Any]:
    """Return an agent whose tests fail once."""
    failures = [FAILURE]

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done == len(script):
            return ModelResponse(parts=[TextPart("done")])
        name, arguments = script[done]
        return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id=f"call-{run}-{done}")])

    agent: Agent[None, Any] = Agent(
        FunctionModel(model), capabilities=list(capabilities), output_type=[str, DeferredToolRequests]
    )

    @agent.tool_plain(retries=3)
    def run_tests(path: str) -> str:
        if failures:
            raise error(failures.pop())
        return "1 passed"

    @agent.tool_plain
    def write_file(path: str, content: str) -> str:
        return "wrote it"

    @agent.tool_plain(requires_approval=True)
    def deploy(target: str) -> str:
        return "deployed"

    return agent


def returns(messages: list[ModelMessage]) -> list[str]:
    return [str(part.content) for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


@pytest.mark.long
@pytest.mark.parametrize("error", [ModelRetry, ToolFailed])
async def test_a_fix_is_learned_and_the_next_run_has_it_in_its_next_request(
    server: Server, error: type[Exception]
) -> None:
    ours = Hardwon(project="shop", **server.options)
    result = await shop([TEST, WRITE, TEST], [ours], error=error).run("Make the test of the cart pass")
    assert returns(result.all_messages())[0] == FAILURE, "what the model reads is as without us"
    settle(ours.recorder)
    assert server.learn() == 1
    (pattern,) = server.patterns()
    assert FIX in pattern["solution"]

    other = Hardwon(project="books", **server.options)
    connect(other.recorder)
    result = await shop([TEST, WRITE, TEST], [other], run="s", error=error).run("Make the test of the invoice pass")
    first = returns(result.all_messages())[0]
    assert first.startswith(FAILURE)
    assert CONTEXT_OPENING in first
    assert FIX in first
    settle(other.recorder)
    assert server.learn() == 0
    assert server.open_entries("books") == []


async def test_an_exception_is_learned_and_raised_as_without_us(server: Server) -> None:
    ours = Hardwon(project="shop", **server.options)
    with pytest.raises(RuntimeError, match="test_total"):
        await shop([TEST], [ours], error=RuntimeError).run("go")
    settle(ours.recorder)
    (entry,) = server.open_entries("shop")
    assert "test_total" in entry["failure_description"]


async def test_the_recorded_run_leaves_an_open_failure(server: Server) -> None:
    """The case of ../shared/cases/agents/pydantic-ai: what was changed is in none of the calls."""
    ours = Hardwon(project="shop", **server.options)
    await shop([TEST, TEST], [ours]).run("Make the test of the cart pass")
    settle(ours.recorder)
    (entry,) = server.open_entries("shop")
    assert "TypeError" in entry["failure_description"]
    assert server.learn() == 0


async def test_a_person_s_denial_of_a_deferred_call_is_a_rejection(server: Server) -> None:
    ours = Hardwon(project="shop", **server.options)
    agent = shop([DEPLOY], [ours])
    asked = await agent.run("go")
    denial = DeferredToolResults(approvals={"call-r-0": ToolDenied("No deploy on Friday; use staging")})
    await agent.run(message_history=asked.all_messages(), deferred_tool_results=denial)
    settle(ours.recorder)
    (rejection,) = server.open_entries("shop")
    assert rejection["human_feedback"] == "No deploy on Friday; use staging"
    assert "production" in rejection["proposal"]


async def test_a_denial_by_code_or_without_a_word_teaches_nothing(server: Server) -> None:
    ours = Hardwon(project="shop", **server.options)

    async def deny(_: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        return DeferredToolResults(approvals={each.tool_call_id: ToolDenied("policy") for each in requests.approvals})

    result = await shop([DEPLOY], [ours, HandleDeferredToolCalls(deny)]).run("go")
    assert "policy" in returns(result.all_messages())
    agent = shop([DEPLOY], [ours], run="s")
    asked = await agent.run("go")
    denial = DeferredToolResults(approvals={"call-s-0": ToolDenied()})
    await agent.run(message_history=asked.all_messages(), deferred_tool_results=denial)
    settle(ours.recorder)
    assert server.open_entries("shop") == []
