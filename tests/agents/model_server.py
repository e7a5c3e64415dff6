"""A model on loopback that speaks four protocols and follows a script: the n-th answer is the n-th step of it."""

from __future__ import annotations

import gzip
import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any]


Step = Call | str


@dataclass
class ModelServer:
    """Answers requests for completions by a script, and keeps their bodies. A request without tools is small talk."""

    script: Sequence[Step]
    requests: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_model": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next_step(self, body: dict[str, Any], calls_so_far: int) -> Step:
        """Return the step for a conversation in which so many tools were called; keep the request."""
        with self._lock:
            if not body.get("tools"):
                return "a title"
            self.requests.append(body)
        return self.script[calls_so_far] if calls_so_far < len(self.script) else "done"

    def number(self, kind: str) -> str:
        """Return a new id."""
        return f"{kind}_{next(self._numbers):06}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_model: ModelServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        models = [{"id": "scripted", "object": "model", "created": 1, "owned_by": "tests"}]
        self._send_json({"object": "list", "data": models, "models": [], "has_more": False})

    def do_POST(self) -> None:
        body = self._read()
        path = self.path.partition("?")[0]
        if path.endswith("/messages"):
            self._answer_messages(body)
        elif path.endswith("/responses"):
            self._answer_responses(body)
        elif path.endswith("/chat/completions"):
            self._answer_chat(body)
        elif "enerateContent" in path:
            self._answer_gemini(body, streams="stream" in path)
        elif "ountTokens" in path or path.endswith("/count_tokens"):
            self._send_json({"input_tokens": 10, "totalTokens": 10})
        else:
            self._send_json({})

    def _read(self) -> dict[str, Any]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            pieces = []
            while size := int(self.rfile.readline().strip() or b"0", 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(pieces)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body: dict[str, Any] = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return body

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_json(self, value: object) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _send_events(self, events: Sequence[Mapping[str, Any]], *, named: bool, last: str = "") -> None:
        lines = []
        for event in events:
            if named:
                lines.append(f"event: {event['type']}\n")
            lines.append(f"data: {json.dumps(event)}\n\n")
        self._send(("".join(lines) + last).encode(), "text/event-stream")

    def _answer_messages(self, body: dict[str, Any]) -> None:
        """Answer as Anthropic's Messages do."""
        model = self.server_model
        step = model.next_step(body, _count(body.get("messages", ()), "content", "type", "tool_use"))
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {
            "id": model.number("msg"), "type": "message", "role": "assistant", "model": body.get("model"),
            "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        full: dict[str, Any]
        empty: dict[str, Any]
        if isinstance(step, str):
            full, empty = {"type": "text", "text": step}, {"type": "text", "text": ""}
            delta, stop = {"type": "text_delta", "text": step}, "end_turn"
        else:
            empty = {"type": "tool_use", "id": model.number("toolu"), "name": step.name, "input": {}}
            full = {**empty, "input": step.arguments}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
            stop = "tool_use"
        if not body.get("stream"):
            self._send_json({**message, "content": [full], "stop_reason": stop})
            return
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        self._send_events(events, named=True)

    def _answer_responses(self, body: dict[str, Any]) -> None:
        """Answer as OpenAI's Responses do."""
        model = self.server_model
        given = body.get("input")
        items = given if isinstance(given, list) else []
        step = model.next_step(body, sum(str(each.get("type", "")).endswith("_call") for each in items))
        item: dict[str, Any]
        if isinstance(step, str):
            text = {"type": "output_text", "text": step, "annotations": []}
            item = {"type": "message", "id": model.number("msg"), "role": "assistant", "content": [text]}
        else:
            item = {
                "type": "function_call", "id": model.number("fc"), "call_id": model.number("call"),
                "name": step.name, "arguments": json.dumps(step.arguments),
            }  # fmt: skip
        item["status"] = "completed"
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        response = {
            "id": model.number("resp"), "object": "response", "created_at": 1, "status": "completed",
            "model": body.get("model"), "output": [item], "usage": usage, "tools": [],
        }  # fmt: skip
        if not body.get("stream"):
            self._send_json(response)
            return
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]
        self._send_events([{**each, "sequence_number": at} for at, each in enumerate(events)], named=True)

    def _answer_chat(self, body: dict[str, Any]) -> None:
        """Answer as OpenAI's Chat Completions do."""
        model = self.server_model
        called = sum(len(each.get("tool_calls") or ()) for each in body.get("messages", ()))
        step = model.next_step(body, called)
        message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
        if not isinstance(step, str):
            function = {"name": step.name, "arguments": json.dumps(step.arguments)}
            message["tool_calls"] = [{"index": 0, "id": model.number("call"), "type": "function", "function": function}]
        reason = "stop" if isinstance(step, str) else "tool_calls"
        usage: dict[str, Any] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base: dict[str, Any] = {"id": model.number("chat"), "created": 1, "model": body.get("model")}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._send_json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        base["object"] = "chat.completion.chunk"
        events = [
            {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        self._send_events(events, named=False, last="data: [DONE]\n\n")

    def _answer_gemini(self, body: dict[str, Any], *, streams: bool) -> None:
        """Answer as Gemini does."""
        called = _count(body.get("contents", ()), "parts", "functionCall", None)
        wants_json = "responseJsonSchema" in (body.get("generationConfig") or {})
        step: Step = "{}" if wants_json else self.server_model.next_step(body, called)
        part = (
            {"text": step}
            if isinstance(step, str)
            else {"functionCall": {"name": step.name, "args": dict(step.arguments)}}
        )
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
        if streams:
            self._send_events([answer], named=False)
        else:
            self._send_json(answer)


def _count(messages: Sequence[Mapping[str, Any]], parts: str, name: str, value: str | None) -> int:
    """Return the number of parts of messages that have a field, with a value if one is given."""
    found = 0
    for message in messages:
        given = message.get(parts)
        for part in given if isinstance(given, list) else ():
            found += isinstance(part, dict) and name in part and (value is None or part[name] == value)
    return found
