"""The route that receives spans as OTLP over HTTP, to learn from the tools that agents called."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from hardwon.client.transport import MAX_SPANS_BYTES, SPANS_PATH
from hardwon.errors import InvalidInput
from orchestrator.http.middleware.problems import problem_response
from orchestrator.http.operation_route import CallerKnowledge, performs
from orchestrator.importers.sessions.spans.otlp import parse_json, parse_protobuf, read_spans
from orchestrator.importers.sessions.spans.spool import SpanCaller, SpanSpool

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_GZIP: Final = 16 + zlib.MAX_WBITS
_BINARY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
_REQUEST: Final[dict[str, Any]] = {
    JSON: {
        "schema": {"type": "object", "properties": {"resourceSpans": {"type": "array", "items": {"type": "object"}}}}
    },
    PROTOBUF: _BINARY,
}
_ANSWER: Final[dict[str, Any]] = {
    JSON: {"schema": {"type": "object", "properties": {"partialSuccess": {"type": "object"}}}},
    PROTOBUF: _BINARY,
}


class _TooLargeError(Exception):
    """A body that is larger than allowed once it is decompressed."""


def add_otlp(app: FastAPI) -> None:
    """Add the route to an app."""
    spool = SpanSpool.of_home(app.state.knowledge.settings.home)
    one_at_a_time = asyncio.Semaphore(1)

    @app.post(
        SPANS_PATH,
        tags=["entries"],
        response_class=Response,
        responses={200: {"content": _ANSWER}},
        openapi_extra={"requestBody": {"required": True, "content": _REQUEST}},
    )
    @performs("capture.capture", problems=(400, 415))
    async def export_traces(request: Request, knowledge: CallerKnowledge) -> Response:
        """Take spans of OpenTelemetry, as an exporter of OTLP over HTTP sends them: protobuf or JSON, also with gzip.

        Kept are the calls of tools, by the GenAI conventions; what they teach is learned when their trace has ended.
        Spans for which there is no room are told in `partialSuccess`.
        """
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = request.headers.get("content-encoding", "").strip().lower()
        if content_type not in _REQUEST:
            return _refuse("Content-Type", f"must be {PROTOBUF} or {JSON}", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if encoding not in {"gzip", "identity", ""}:
            return _refuse("Content-Encoding", "must be gzip, or left out", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        body = await request.body()
        caller = SpanCaller(workspace=knowledge.workspace, key_id=knowledge.principal.key_id)

        def store() -> ExportTraceServiceResponse:
            content = _decompress(body) if encoding == "gzip" else body
            return _store(spool, caller, content, is_json=content_type == JSON)

        try:
            async with one_at_a_time:  # while it is parsed, a hostile body takes a hundred times its size of memory
                answer = await asyncio.to_thread(store)
        except InvalidInput as error:
            return _refuse(error.field, error.reason, HTTPStatus.BAD_REQUEST)
        except _TooLargeError:
            reason = f"has more than the {MAX_SPANS_BYTES:,} bytes allowed without gzip"
            return _refuse("body", reason, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if content_type == JSON:
            return Response(MessageToJson(answer, indent=None), media_type=JSON)
        return Response(answer.SerializeToString(), media_type=PROTOBUF)


def _refuse(field: str, reason: str, status: HTTPStatus) -> Response:
    return problem_response(InvalidInput(field, reason), status=status)


def _decompress(body: bytes) -> bytes:
    """Return the content of a body with gzip. Raises InvalidInput, and _TooLargeError before it is all in memory."""
    decompressor = zlib.decompressobj(_GZIP)
    try:
        content = decompressor.decompress(body, MAX_SPANS_BYTES + 1)
    except zlib.error as error:
        raise InvalidInput("body", "is not gzip, as Content-Encoding says") from error
    if len(content) > MAX_SPANS_BYTES:
        raise _TooLargeError
    if not decompressor.eof:
        raise InvalidInput("body", "is gzip that was cut off: send all of it")
    return content


def _store(spool: SpanSpool, caller: SpanCaller, content: bytes, *, is_json: bool) -> ExportTraceServiceResponse:
    """Add the spans of a request to the spool; return the answer, which tells of those that were rejected."""
    rejected: Counter[str] = Counter()
    request = parse_json(content) if is_json else parse_protobuf(content)
    spool.append(caller, list(read_spans(request, rejected)), rejected)
    answer = ExportTraceServiceResponse()
    if rejected:
        answer.partial_success.rejected_spans = rejected.total()
        answer.partial_success.error_message = "not kept: " + "; ".join(
            f"{count} {reason}" for reason, count in rejected.items()
        )
    return answer
