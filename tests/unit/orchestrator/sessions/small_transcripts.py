"""Small transcripts of Gemini CLI, Qwen Code, Copilot CLI and opencode, in the shapes that real runs of them have."""

from __future__ import annotations

import json
from typing import Any

FOLDER = "/home/dev/shop"
FAILED = "E\nERROR: test_total (test_cart.TotalTest)\nTypeError: no price\n\nFAILED (errors=1)"
DIFF = "@@ -1,2 +1,2 @@\n def total(items):\n-    return 1\n+    return 2\n"
AT = "2026-11-27T09:00:00.000Z"


def gemini_call(call_id: str, name: str = "run_shell_command", **fields: Any) -> dict[str, Any]:
    """Return a call of Gemini CLI; `output` or `error` is its result."""
    response = {name: fields.pop(name) for name in ("output", "error") if name in fields}
    result = [{"functionResponse": {"id": call_id, "name": name, "response": response}}] if response else []
    return {"id": call_id, "name": name, "args": {}, "status": "success", "timestamp": AT, "result": result, **fields}


def gemini(*calls: dict[str, Any], project_hash: str = "0" * 64, prompt: str = "Mend it") -> list[str]:
    """Return a transcript of Gemini CLI in which each call is a message, written first without its calls."""
    lines: list[dict[str, Any]] = [
        {"sessionId": "session-g", "projectHash": project_hash, "startTime": AT, "kind": "main"},
        {"id": "prompt", "timestamp": AT, "type": "user", "content": [{"text": prompt}]},
    ]
    for number, call in enumerate(calls):
        message = {"id": f"message-{number}", "timestamp": AT, "type": "gemini", "content": ""}
        again = {"id": f"again-{number}", "timestamp": AT, "type": "user", "content": call["result"]}
        lines += [message, {**message, "toolCalls": [call]}, again, {"$set": {"lastUpdated": AT}}]
    return list(map(json.dumps, lines))


def qwen_line(kind: str, **fields: Any) -> str:
    """Return a line of Qwen Code."""
    common = {"uuid": "u", "sessionId": "session-q", "timestamp": AT, "cwd": FOLDER, "version": "0.24.4"}
    provenance = {"user": "real_user", "assistant": "assistant_output", "tool_result": "tool_result"}[kind]
    return json.dumps({**common, "type": kind, "provenance": provenance, **fields})


def qwen_call(call_id: str, name: str = "run_shell_command", **arguments: Any) -> str:
    """Return the line of a call."""
    call = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
    return qwen_line("assistant", message={"role": "model", "parts": [call]})


def qwen_result(call_id: str, told: dict[str, Any] | None = None, **response: Any) -> str:
    """Return the line of a result; `told`: what the tool says of it."""
    answer = {"functionResponse": {"id": call_id, "name": "x", "response": response}}
    more = {"toolCallResult": {"callId": call_id, **told}} if told is not None else {}
    return qwen_line("tool_result", message={"role": "user", "parts": [answer]}, **more)


def shell_result(exit_code: int | None, output: str, status: str = "success") -> dict[str, Any]:
    """Return what Qwen Code shows of a command."""
    shown = {"type": "shell_result", "exitCode": exit_code, "signal": None, "output": output, "text": output}
    return {"status": status, "resultDisplay": shown, "executionStatus": status}


def copilot_line(kind: str, agent: str | None = None, **data: Any) -> str:
    """Return an event of Copilot CLI."""
    return json.dumps({"type": kind, "data": data, "id": "e", "timestamp": AT, **({"agentId": agent} if agent else {})})


def copilot_start() -> str:
    """Return the first event."""
    return copilot_line("session.start", sessionId="session-c", copilotVersion="1.0.102", context={"cwd": FOLDER})


def copilot_call(call_id: str, name: str = "bash", agent: str | None = None, **arguments: Any) -> str:
    """Return the event of a call."""
    return copilot_line("tool.execution_start", agent, toolCallId=call_id, toolName=name, arguments=arguments)


def copilot_result(call_id: str, exit_code: int | None, text: str, agent: str | None = None) -> str:
    """Return the event of a command's result."""
    more = {"shellExecution": {"exitCode": exit_code}} if exit_code is not None else {}
    return copilot_line(
        "tool.execution_complete", agent, toolCallId=call_id, success=True, result={"content": text}, **more
    )


def opencode_part(call_id: str, tool: str = "bash", status: str = "completed", **state: Any) -> dict[str, Any]:
    """Return a part of opencode."""
    number = int("".join(filter(str.isdigit, call_id)) or 0)
    times = {"start": 1795770000000 + number, "end": 1795770001000 + number}
    return {"type": "tool", "tool": tool, "callID": call_id, "state": {"status": status, "time": times, **state}}


def opencode_lines(*parts: dict[str, Any]) -> list[str]:
    """Return what `opencode run --format json` prints."""
    return [
        json.dumps({"type": "tool_use", "sessionID": "session-o", "part": {**part, "messageID": "message-1"}})
        for part in parts
    ]
