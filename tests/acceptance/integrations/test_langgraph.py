"""LangGraph's real graphs with a scripted model: what its tools' runs teach, and what is told after a failure."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph import prebuilt
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from hardwon.integrations.langgraph import MemoryStore, ToolNode, _rejection
from hardwon.models.ids import CONTEXT_OPENING
from tests.acceptance.integrations.conftest import FAILURE, Server, connect, settle

FIX = "return sum(price or 0 for price in prices)"


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Shop:
    """The tools of an agent over a project that is mended by its edit."""

    def __init__(self, failures: Sequence[str] = (FAILURE,)) -> None:
        self.failures = list(failures)

    def run_tests(self, path: str) -> str:
        """Run the tests of a file."""
        if self.failures:
            raise RuntimeError(self.failures.pop(0))
        return "1 passed"

    def write_file(self, path: str, content: str) -> str:
        """Write a file."""
        return f"wrote {len(content)} characters"

    def deploy(self, target: str) -> str:
        """Deploy the shop, if a person agrees."""
        answer = interrupt({"proposal": f"deploy to {target}"})
        return "deployed" if answer["ok"] else f"turned down: {answer['why']}"

    def greet(self, name: str) -> str:
        """Greet somebody."""
        raise RuntimeError(f"nobody is called {name}")

    @property
    def tools(self) -> list[Any]:
        return [self.run_tests, self.write_file, self.deploy, self.greet]


TEST = ("run_tests", {"path": "test_cart.py"})
WRITE = ("write_file", {"path": "cart.py", "content": FIX})
DEPLOY = ("deploy", {"target": "production"})


def graph_of(node: Any, script: Sequence[tuple[str, dict[str, Any]]], run: str = "r") -> Any:
    """Return a graph whose model makes the calls of a script, one after the other."""

    def model(state: State) -> dict[str, Any]:
        done = sum(isinstance(message, AIMessage) for message in state["messages"])
        if done == len(script):
            return {"messages": [AIMessage("done")]}
        name, arguments = script[done]
        call = {"name": name, "args": arguments, "id": f"call-{run}-{done}", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    builder = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("tools", node)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", prebuilt.tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


def run(graph: Any, thread: str, question: Any = "Make the test of the cart pass") -> list[AnyMessage]:
    given = question if isinstance(question, Command) else {"messages": [HumanMessage(question)]}
    messages: list[AnyMessage] = graph.invoke(given, {"configurable": {"thread_id": thread}})["messages"]
    return messages


@pytest.mark.long
def test_a_fix_is_learned_and_the_next_run_has_it_in_its_next_request(server: Server) -> None:
    node = ToolNode(Shop().tools, handle_tool_errors=True, project="shop", **server.options)
    run(graph_of(node, [TEST, WRITE, TEST]), "T-1")
    settle(node.recorder)
    assert server.learn() == 1
    (pattern,) = server.patterns()
    assert FIX in pattern["solution"]
    assert pattern["source"] == "agent:sessions.langgraph.T-1"

    other = ToolNode(Shop().tools, handle_tool_errors=True, project="books", **server.options)
    connect(other.recorder)
    messages = run(graph_of(other, [TEST, WRITE, TEST], "s"), "T-2")
    first = next(message for message in messages if isinstance(message, ToolMessage))
    assert CONTEXT_OPENING in str(first.content)
    assert FIX in str(first.content)
    settle(other.recorder)
    assert server.learn() == 0, "what was handed out is no new evidence of its own"
    assert server.open_entries("books") == []


async def test_an_async_graph_learns_alike(server: Server) -> None:
    node = ToolNode(Shop().tools, handle_tool_errors=True, project="shop", **server.options)
    config = {"configurable": {"thread_id": "T-1"}}
    await graph_of(node, [TEST, WRITE, TEST]).ainvoke({"messages": [HumanMessage("go")]}, config)
    settle(node.recorder)
    assert server.learn() == 1


def test_a_person_who_turns_a_call_down_teaches_and_one_who_agrees_does_not(server: Server) -> None:
    node = ToolNode(Shop([]).tools, project="shop", **server.options)
    graph = graph_of(node, [DEPLOY, ("deploy", {"target": "staging"})])
    run(graph, "T-1")
    run(graph, "T-1", Command(resume={"ok": False, "why": "No deploy on Friday; use staging"}))
    run(graph, "T-1", Command(resume={"ok": True}))
    settle(node.recorder)
    assert server.learn() == 1
    (pattern,) = server.patterns()
    assert pattern["entry_type"] == "gate_rejection"
    assert "staging" in pattern["solution"]
    assert "No deploy on Friday" in json.dumps(pattern)


def test_the_recorded_run_leaves_an_open_failure_and_the_rejection(server: Server) -> None:
    """The case of ../shared/cases/agents/langgraph: what was changed is in none of the calls."""
    node = ToolNode(Shop().tools, handle_tool_errors=True, project="shop", **server.options)
    graph = graph_of(node, [TEST, TEST, DEPLOY])
    run(graph, "T-17")
    run(graph, "T-17", Command(resume={"ok": False, "why": "No deploy on Friday; use staging"}))
    settle(node.recorder)
    failure, rejection = sorted(server.open_entries("shop"), key=lambda entry: entry["entry_type"])
    assert "TypeError" in failure["failure_description"]
    assert rejection["human_feedback"] == "No deploy on Friday; use staging"
    assert "deploy to production" in rejection["proposal"]
    assert server.learn() == 0


def test_a_rejection_is_told_by_another_process_than_the_question(server: Server) -> None:
    script, saver = [DEPLOY], InMemorySaver()
    graphs = []
    for _ in range(2):
        node = ToolNode(Shop([]).tools, project="shop", **server.options)
        graphs.append((graph_of(node, script), node))
        graphs[-1][0].checkpointer = saver
    run(graphs[0][0], "T-1")
    run(graphs[1][0], "T-1", Command(resume={"ok": False, "why": "not on Friday"}))
    settle(graphs[1][1].recorder)
    (rejection,) = server.open_entries("shop")
    assert rejection["human_feedback"] == "not on Friday"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"ok": False, "why": "no"}, "no"),
        ({"approved": False, "feedback": "use staging"}, "use staging"),
        ({"decisions": [{"type": "reject", "message": "too late"}]}, "too late"),
        ([{"type": "ignore", "args": None}], None),
        ({"action": "Denied", "reason": "cost"}, "cost"),
        (False, ""),
        (True, None),
        ({"ok": True, "why": "fine"}, None),
        ("no, use staging", None),
        ({"decisions": [{"type": "approve"}, {"type": "reject", "message": "x"}]}, None),
        (None, None),
        (0, None),
    ],
)
def test_an_answer_is_a_no_only_where_it_says_so(answer: object, reason: str | None) -> None:
    assert _rejection(answer) == reason


def test_other_tools_and_wrong_arguments_teach_nothing(server: Server) -> None:
    node = ToolNode(Shop([]).tools, handle_tool_errors=True, project="shop", **server.options)
    run(graph_of(node, [("greet", {"name": "Ada"}), ("run_tests", {"nothing": 1}), ("no_such_tool", {})]), "T-1")
    settle(node.recorder)
    assert server.open_entries("shop") == []


@pytest.mark.parametrize("handling", [False, (ValueError,), None])
def test_an_error_that_the_node_does_not_handle_is_raised_as_without_us(server: Server, handling: Any) -> None:
    options = {} if handling is None else {"handle_tool_errors": handling}
    node = ToolNode(Shop().tools, project="shop", **server.options | options)
    with pytest.raises(RuntimeError, match="test_total"):
        run(graph_of(node, [TEST]), "T-1")
    settle(node.recorder)
    (entry,) = server.open_entries("shop")
    assert "test_total" in entry["failure_description"]


def test_a_shell_tool_is_judged_by_its_exit_code(server: Server) -> None:
    results = iter([(1, FAILURE), (0, "OK")])

    def shell(command: str) -> str:
        """Run a command."""
        if command.startswith("sed"):
            return json.dumps({"exit_code": 0, "stdout": ""})
        code, out = next(results)
        if code:
            raise subprocess.CalledProcessError(code, command, output=out)
        return json.dumps({"exit_code": code, "stdout": out})

    check = ("shell", {"command": "python3 -m unittest test_cart"})
    node = ToolNode([shell], handle_tool_errors=True, project="shop", **server.options)
    run(graph_of(node, [check, ("shell", {"command": "sed -i s/None/0/ cart.py"}), check]), "T-1")
    settle(node.recorder)
    assert server.learn() == 1
    assert "sed -i" in server.patterns()[0]["solution"]


def test_the_store_finds_patterns_and_takes_entries(server: Server) -> None:
    with MemoryStore(**server.options) as store:
        entry = {
            "entry_type": "failure_solution",
            "agent_type": "backend",
            "failure_description": "Cart total raises TypeError when a product has no price",
            "error_message": FAILURE,
            "solution_steps": "Treat a missing price as zero",
            "success_verified": True,
            "verified_by": "pytest tests/test_cart.py",
        }
        store.put(("shop",), "e-1", entry)
        store.put(("shop",), "e-1", entry)
        assert server.learn() == 1
        (found,) = store.search(("failures",), query=FAILURE)
        assert found.value["solution"] == "Treat a missing price as zero"
        assert found.score is not None
        again = store.get(("patterns",), found.key)
        assert again is not None
        assert again.value == found.value
        assert store.get(("patterns",), "nothing") is None
        assert store.search(("elsewhere",), query="x") == []
        assert store.search(("patterns",)) == []
        assert ("patterns",) in store.list_namespaces()


async def test_the_store_is_asked_by_async_nodes(server: Server) -> None:
    with MemoryStore(**server.options) as store:
        assert await store.asearch(("patterns",), query="Cart total fails") == []
