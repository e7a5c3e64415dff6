"""A span processor for OpenTelemetry: hardwon learns from the calls of tools that a program's spans tell.

`provider.add_span_processor(HardwonSpanProcessor())` is all that a program needs. It takes the extra `otel`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx
from cachetools import LRUCache
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from hardwon.client.transport import MAX_SPANS_BYTES, SPANS_PATH, WORKSPACE_HEADER
from hardwon.connection import connect
from hardwon.errors import OwnerUnavailable
from hardwon.integrations.recorder import AgentGuard
from hardwon.integrations.span_attributes import EXCEPTION, is_tool_span, wanted_attributes
from hardwon.models.ids import DEFAULT_WORKSPACE
from hardwon.owner.environment import data_directory
from hardwon.owner.record import is_socket_of, read_owner

MAX_WAITING: Final = 2048
"""Most spans that wait to be sent; more are dropped, the oldest first; ours."""
_BATCH: Final = 128
_DELAY_MS: Final = 1000
_SEND_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 30.0
"""Time after a failure in which spans are dropped rather than sent."""
_SHUTDOWN_SECONDS: Final = 3.0
_MAX_TRACES: Final = 10_000
_MAX_TEXT_CHARS: Final = 64 * 1024


class HardwonSpanProcessor(BatchSpanProcessor):
    """Sends the spans of traces in which tools were called, from a thread of its own, without prompts and answers.

    They go to the server that HARDWON_API_URL names, else to the owner of the data directory, which is started if need
    be. Whatever goes wrong is logged, and costs nothing but spans: ending a span never waits, and never raises.
    `settings` replace variables of the environment, by name.
    """

    def __init__(self, *, workspace: str = DEFAULT_WORKSPACE, settings: Mapping[str, str] | None = None) -> None:
        self._sender = _Sender(workspace, {**os.environ, **(settings or {})})
        self._traces: LRUCache[int, None] = LRUCache(_MAX_TRACES)
        self._lock = threading.Lock()
        super().__init__(
            self._sender, max_queue_size=MAX_WAITING, schedule_delay_millis=_DELAY_MS, max_export_batch_size=_BATCH
        )

    def on_end(self, span: ReadableSpan) -> None:
        """Put a span into the queue, if it belongs to a trace in which a tool was called."""
        with AgentGuard("span_not_sent"):
            if self._is_wanted(span):
                super().on_end(_strip(span))

    def _is_wanted(self, span: ReadableSpan) -> bool:
        """Return whether a span is of use: its trace has called a tool, which ends before all that is above it."""
        if span.context is None:
            return False
        trace_id = span.context.trace_id
        with self._lock:
            if is_tool_span(span.attributes or {}):
                self._traces[trace_id] = None
                return True
            return trace_id in self._traces

    def shutdown(self) -> None:
        """Send what waits, for three seconds at most, and end."""
        self._sender.close(_SHUTDOWN_SECONDS)
        self._batch_processor.shutdown(timeout_millis=int(_SHUTDOWN_SECONDS * 1000))  # the SDK's default is 30 s


def _strip(span: ReadableSpan) -> ReadableSpan:
    """Return a copy of a span with the attributes and exceptions that say what a tool did."""
    attributes = span.attributes or {}
    wanted = wanted_attributes(attributes)
    is_tool = is_tool_span(attributes)
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={name: _cut(value) for name, value in attributes.items() if name in wanted},
        events=[_strip_event(event) for event in span.events if is_tool and event.name == "exception"],
        kind=span.kind,
        instrumentation_scope=span.instrumentation_scope,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
    )


def _strip_event(event: Event) -> Event:
    told = {name: _cut(value) for name, value in (event.attributes or {}).items() if name in EXCEPTION}
    return Event(event.name, told, event.timestamp)


def _cut(value: Any) -> Any:
    """Return a value without the middle of a long text."""
    if isinstance(value, str) and len(value) > _MAX_TEXT_CHARS:
        half = _MAX_TEXT_CHARS // 2
        return f"{value[:half]}\n[...]\n{value[-half:]}"
    return value


class _Sender(SpanExporter):
    """Sends spans to a server, or to the owner of the data directory."""

    def __init__(self, workspace: str, environment: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environment = environment
        self._paused_until = 0.0
        self._closes_at = float("inf")

    def close(self, seconds: float) -> None:
        """Send for so many seconds more."""
        self._closes_at = time.monotonic() + seconds

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; where that fails they are dropped, and so are those of the next half minute."""
        if time.monotonic() < self._paused_until:
            return SpanExportResult.FAILURE
        with AgentGuard("spans_not_sent", spans=len(spans)):  # the library would log the error with its trace
            self._send(spans)
            return SpanExportResult.SUCCESS
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        return SpanExportResult.FAILURE

    def _send(self, spans: Sequence[ReadableSpan]) -> None:
        body = encode_spans(spans).SerializeToString()
        if len(body) > MAX_SPANS_BYTES and len(spans) > 1:
            middle = len(spans) // 2
            self._send(spans[:middle])
            self._send(spans[middle:])
            return
        seconds = min(_SEND_SECONDS, self._closes_at - time.monotonic())
        if seconds <= 0:
            raise OwnerUnavailable("there is no time left to send spans")
        headers = {"Content-Type": "application/x-protobuf"}
        if key := self._environment.get("HARDWON_API_KEY", "").strip():
            headers["Authorization"] = f"Bearer {key}"
        if self._workspace != DEFAULT_WORKSPACE:
            headers[WORKSPACE_HEADER] = quote(self._workspace)
        with self._open_client(seconds) as client:
            client.post(SPANS_PATH, content=body, headers=headers).raise_for_status()

    def _open_client(self, seconds: float) -> httpx.Client:
        if url := self._environment.get("HARDWON_API_URL", "").strip():
            return httpx.Client(base_url=url, timeout=seconds)
        socket = self._find_socket()
        if socket is None and self._closes_at == float("inf"):
            asyncio.run(self._start_owner())  # not at a program's end, which no thread may be started at
            socket = self._find_socket()
        if socket is None:
            raise OwnerUnavailable("no owner of the data directory is running")
        return httpx.Client(base_url="http://hardwon", transport=httpx.HTTPTransport(uds=socket), timeout=seconds)

    def _find_socket(self) -> str | None:
        home = data_directory(self._environment)
        owner = read_owner(home)
        if owner is None or owner.socket is None or not owner.is_alive() or not is_socket_of(owner.socket, home):
            return None
        return owner.socket

    async def _start_owner(self) -> None:
        async with connect(settings=self._environment, warm=False):
            pass
