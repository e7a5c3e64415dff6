#!/usr/bin/env bash
# One would guess: a wrapper that only passes a call on, `ToolNode(tools, wrap_tool_call=lambda request, run: run(request))`,
# changes nothing. True: with `handle_tool_errors=(ValueError,)` a tool's RuntimeError is raised out of the node without
# the wrapper, and with it becomes a ToolMessage: what comes out of a wrapper is handled whatever its type.
# Matters to whoever watches tools by a wrapper: the program's own errors are handed to the model instead of raised.
# langgraph 1.2.24 (langgraph-prebuilt 1.1.3), 2026-11-28.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check langgraph==1.2.24 langgraph-prebuilt==1.1.3
"$folder/venv/bin/python" - <<'PY'
from importlib.metadata import version

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

print("langgraph", version("langgraph"), "langgraph-prebuilt", version("langgraph-prebuilt"))


def check(path: str) -> str:
    """Check a file."""
    raise RuntimeError("not handled by this node")


def outcome(**options):
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([check], handle_tool_errors=(ValueError,), **options))
    builder.add_edge(START, "tools")
    call = {"name": "check", "args": {"path": "a"}, "id": "1", "type": "tool_call"}
    try:
        message = builder.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]})["messages"][-1]
    except RuntimeError as error:
        return f"raised {type(error).__name__}"
    return f"{type(message).__name__}, status {message.status}"


bare, wrapped = outcome(), outcome(wrap_tool_call=lambda request, run: run(request))
print("without a wrapper:", bare)
print("with one that passes on:", wrapped)
assert (bare, wrapped) == ("raised RuntimeError", "ToolMessage, status error"), "the behaviour has changed"
PY
