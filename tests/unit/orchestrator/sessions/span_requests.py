"""Spans of calls of tools, as requests of OTLP."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.importers.sessions.spans.otlp import parse_json

TRACE = "5b8efff798038103d269b633813fc60c"
ROOT = "00000000000000a0"
SECOND = 1_000_000_000
ERROR = "1 failed: TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"


def attributes(values: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return attributes in the form of OTLP's JSON."""
    return [{"key": name, "value": _value(value)} for name, value in values.items()]


def _value(value: object) -> dict[str, object]:
    return {"boolValue": value} if isinstance(value, bool) else {"stringValue": str(value)}


def span(number: int, values: Mapping[str, object], **more: Any) -> dict[str, Any]:
    """Return a span, the `number`th of its trace, below the one that runs the agent."""
    told = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": ROOT,
        "name": "a span",
        "startTimeUnixNano": str((1_795_752_876 + number) * SECOND),
        "endTimeUnixNano": str((1_795_752_877 + number) * SECOND),
        "attributes": attributes(values),
        **more,
    }
    return {name: value for name, value in told.items() if value is not None}


def tool(number: int, name: str, arguments: object, result: object, **more: Any) -> dict[str, Any]:
    """Return the span of a call of a tool, by the GenAI conventions; `is_error`: its status."""
    values: dict[str, object] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": f"call_{number}",
        "gen_ai.tool.call.arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        **({} if result is None else {"gen_ai.tool.call.result": result}),
        **more.pop("also", {}),
    }
    status = {"code": 2 if more.pop("is_error", False) else 0, "message": more.pop("message", "")}
    return span(number, values, name=f"execute_tool {name}", status=status, **more)


def agent(**more: Any) -> dict[str, Any]:
    """Return the span that runs the agent, which ends last and has no parent."""
    values = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "dev", "final_result": "done"}
    return span(0, values, **{"spanId": ROOT, "parentSpanId": None, **more})


def request(*spans: Mapping[str, Any], resource: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return a request with spans of one service."""
    told = {"service.name": "web-shop"} if resource is None else resource
    return {"resourceSpans": [{"resource": {"attributes": attributes(told)}, "scopeSpans": [{"spans": list(spans)}]}]}


def as_protobuf(body: Mapping[str, Any]) -> bytes:
    """Return a request in protobuf."""
    parsed: bytes = parse_json(json.dumps(body)).SerializeToString()
    return parsed


CHECK = {"path": "test_cart.py"}
EDIT = {"path": "cart.py", "old_string": "item['price']", "new_string": "(item['price'] or 0)"}
FAIL = tool(1, "run_tests", CHECK, ERROR, is_error=True)
CHANGE = tool(2, "edit_file", EDIT, "edited")
PASS = tool(3, "run_tests", CHECK, "1 passed")
RUN: Sequence[Mapping[str, Any]] = (FAIL, CHANGE, PASS, agent())
"""A check that fails, an edit, and the check that passes."""
