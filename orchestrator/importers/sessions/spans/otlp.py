"""Requests of OTLP: parsed from protobuf or JSON, without what is not kept, and written as lines of OTLP's JSON.

A line is what a collector's file exporter writes, so that both are read alike.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from hardwon.errors import InvalidInput
from hardwon.integrations.span_attributes import EXCEPTION, OF_SPANS, RESOURCE, is_tool_span, wanted_attributes
from hardwon.text.truncation import escape_unstorable, truncate_middle
from knowledge.text.redaction import redact
from orchestrator.importers.sessions.steps import parse_objects

MAX_SPANS = 10_000
"""Most spans of a request in JSON, which take 10 us each to parse; the exporters' own batches have 512."""
_MAX_TEXT_BYTES = 64 * 1024
_MAX_NAME_CHARS = 120
_MAX_DEPTH = 8
_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span. Ids are hexadecimal, times nanoseconds since 1970. `message`: of its status, which `is_error`.

    `exception`: type and message of the last one on record. `resource`: texts that tell what wrote the span.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    is_error: bool = False
    message: str = ""
    exception: tuple[str, str] = ("", "")
    attributes: Mapping[str, Any]
    resource: Mapping[str, str]

    @property
    def is_tool(self) -> bool:
        """The span is the call of a tool."""
        return is_tool_span(self.attributes)

    @property
    def is_note(self) -> bool:
        """The span tells more of the call of a tool above it: who allowed it, or how it ended (Claude Code)."""
        told = self.attributes
        return not self.is_tool and ("decision" in told or told.get("span.type") == "tool.execution")


def parse_protobuf(content: bytes) -> ExportTraceServiceRequest:
    """Return the request in a body. Raises InvalidInput."""
    try:
        request: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(content)
    except DecodeError as error:
        raise InvalidInput("body", "is no ExportTraceServiceRequest of OTLP in protobuf, or not all of it") from error
    return request


def parse_json(content: bytes | str) -> ExportTraceServiceRequest:
    """Return the request in a text of JSON; fields that are not known are passed over. Raises InvalidInput."""
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    value = next(parse_objects([text], Counter()), None)
    if value is None:
        raise InvalidInput("body", "must be a JSON object with resourceSpans, as OTLP has it, and not nested too deep")
    spans = [span for span in _json_spans(value) if isinstance(span, dict)]
    if len(spans) > MAX_SPANS:
        raise InvalidInput("body", f"has more than the {MAX_SPANS:,} spans allowed: send them in several requests")
    for span in spans:
        span.pop("links", None)
        if isinstance(told := span.get("attributes"), list):  # those of requests to models are most of a trace
            span["attributes"] = [each for each in told if not _is_unwanted(each)]
        for name in ("traceId", "spanId", "parentSpanId"):
            span[name] = _base64_of_hex(span.get(name))
    try:
        request: ExportTraceServiceRequest = ParseDict(value, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (ParseError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise InvalidInput("body", f"is no ExportTraceServiceRequest of OTLP in JSON: {str(error)[:200]}") from error
    return request


def _is_unwanted(attribute: object) -> bool:
    name = attribute.get("key") if isinstance(attribute, dict) else None
    return isinstance(name, str) and name not in OF_SPANS


def _json_spans(value: Mapping[str, Any]) -> Iterator[Any]:
    for resource in _list_of(value, "resourceSpans"):
        for scope in _list_of(resource, "scopeSpans"):
            yield from _list_of(scope, "spans")


def _list_of(value: object, name: str) -> list[Any]:
    items = value.get(name) if isinstance(value, Mapping) else None
    return items if isinstance(items, list) else []


def _base64_of_hex(text: object) -> str:
    """Return an id of OTLP's JSON as protobuf's JSON has bytes; empty for what is none."""
    try:
        return base64.b64encode(bytes.fromhex(text)).decode() if isinstance(text, str) else ""
    except ValueError:
        return ""


def read_spans(request: ExportTraceServiceRequest, passed_over: Counter[str]) -> Iterator[Span]:
    """Yield the spans of a request with the attributes that are kept; those without ids are counted."""
    for resource_spans in request.resource_spans:
        resource = {
            each.key: escape_unstorable(each.value.string_value)[:_MAX_NAME_CHARS]
            for each in resource_spans.resource.attributes
            if each.key in RESOURCE and each.value.string_value
        }
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                if len(span.trace_id) != _TRACE_ID_BYTES or len(span.span_id) != _SPAN_ID_BYTES:
                    passed_over["spans without a trace id of 16 bytes and a span id of 8"] += 1
                else:
                    yield _read_span(span, resource)


def _read_span(span: ProtoSpan, resource: Mapping[str, str]) -> Span:
    texts = {each.key: each.value.string_value for each in span.attributes}
    wanted = wanted_attributes(texts)
    attributes = {each.key: _value_of(each.value) for each in span.attributes if each.key in wanted}
    is_tool = is_tool_span(attributes)
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() or None,
        name=span.name[:_MAX_NAME_CHARS],
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        is_error=span.status.code == Status.STATUS_CODE_ERROR,
        message=_cut(span.status.message) if is_tool else "",
        exception=_exception_of(span) if is_tool else ("", ""),
        attributes=attributes,
        resource=resource,
    )


def _exception_of(span: ProtoSpan) -> tuple[str, str]:
    for event in reversed(span.events):
        if event.name == "exception":
            told = {each.key: each.value.string_value for each in event.attributes}
            return told.get(EXCEPTION[0], "")[:_MAX_NAME_CHARS], _cut(told.get(EXCEPTION[1], ""))
    return "", ""


def _value_of(value: AnyValue, depth: int = 0) -> Any:
    """Return the value of an attribute; nothing of what is nested too deep, and no bytes."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return _cut(value.string_value)
    if kind in {"bool_value", "int_value", "double_value"}:
        return getattr(value, kind)
    if depth >= _MAX_DEPTH:
        return None
    if kind == "array_value":
        return [_value_of(each, depth + 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: _value_of(each.value, depth + 1) for each in value.kvlist_value.values}
    return None


def _cut(text: str) -> str:
    return truncate_middle(text, _MAX_TEXT_BYTES, "\n[...]\n")


def redact_span(span: Span) -> Span:
    """Return a span without secrets in its texts."""
    return replace(
        span,
        name=_redact(span.name),
        message=_redact(span.message),
        exception=(span.exception[0], _redact(span.exception[1])),
        attributes={name: _redact_value(value) for name, value in span.attributes.items()},
        resource={name: _redact(value) for name, value in span.resource.items()},
    )


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        if value.lstrip()[:1] in {"{", "["}:
            try:
                return json.dumps(_redact_value(json.loads(value)), ensure_ascii=False)
            except (ValueError, RecursionError):
                pass
        return _redact(value)
    if isinstance(value, list):
        return [_redact_value(each) for each in value]
    if isinstance(value, dict):
        return {_redact(str(name)): _redact_member(str(name), each) for name, each in value.items()}
    return value


def _redact_member(name: str, value: Any) -> Any:
    """Return a member of an object without secrets: of `password: ...` the name tells that the value is one."""
    if not isinstance(value, str):
        return _redact_value(value)
    prefix = f"{name}: "
    whole = _redact(prefix + value)
    return whole.removeprefix(prefix) if whole.startswith(prefix) else _redact(value)


def _redact(text: str) -> str:
    return redact(escape_unstorable(text)).text


def to_line(spans: list[Span], *, is_ended: bool) -> bytes:
    """Return spans of one trace as a line of OTLP's JSON. `is_ended`: its first span is among them."""
    by_resource: dict[tuple[tuple[str, str], ...], list[Span]] = {}
    for span in spans:
        by_resource.setdefault(tuple(sorted(span.resource.items())), []).append(span)
    request = {
        "resourceSpans": [
            {
                "resource": {"attributes": _json_attributes(dict(resource))},
                "scopeSpans": [{"spans": [_json_span(span) for span in members]}],
            }
            for resource, members in by_resource.items()
        ],
        "ended": is_ended,
    }
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


ENDED = b'"ended":true}\n'
"""The end of a line with the first span of its trace, which ends last."""


def _json_span(span: Span) -> dict[str, Any]:
    told: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        told["parentSpanId"] = span.parent_id
    told |= {
        "name": span.name,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _json_attributes(span.attributes),
        "status": {"code": Status.STATUS_CODE_ERROR if span.is_error else 0, "message": span.message},
    }
    if any(span.exception):
        told["events"] = [
            {"name": "exception", "attributes": _json_attributes(dict(zip(EXCEPTION, span.exception, strict=True)))}
        ]
    return told


def _json_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _json_value(value)} for name, value in attributes.items() if value is not None]


def _json_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_json_value(each) for each in value if each is not None]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _json_attributes(value)}}
    return {"stringValue": str(value)}
