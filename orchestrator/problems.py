"""What goes wrong with a request, as problem details (RFC 9457); and a line in the log for each answer."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import (
    AccessDenied,
    ChatRejected,
    ChatUnavailable,
    Conflict,
    EmbedderRejected,
    EmbedderUnavailable,
    HardwonError,
    InvalidInput,
    NotFound,
    Overloaded,
    OwnerUnavailable,
    SpaceMismatch,
    StoreIncompatible,
    StoreInUse,
    Unavailable,
)
from knowledge.logs import get_logger
from orchestrator.calls import ARCHIVE_PATH, LEAVING_HEADER
from orchestrator.entries import in_our_words

log = get_logger(__name__)

MAX_BODY_BYTES = 16 * 1024 * 1024
"""A batch of entries; a single one is bounded by its fields."""
_TOO_LARGE = f"has more than the {MAX_BODY_BYTES:,} bytes allowed"
PROBLEM = "application/problem+json"

STATUS: dict[type[HardwonError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    Conflict: 409,
    AccessDenied: 403,
    SpaceMismatch: 409,
    EmbedderRejected: 502,
    ChatRejected: 502,
    StoreInUse: 503,
    StoreIncompatible: 503,
    Overloaded: 429,
    Unavailable: 503,
    HardwonError: 500,
}
"""Error to HTTP status; the nearest class in the tree counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Problem details (RFC 9457). `title` is the error's class; `field` names what was wrong with the request."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    retry_after_seconds: float | None = None


def tell_problems(app: FastAPI) -> None:
    """Have an app answer everything that goes wrong with problem details, and log each answer."""
    app.add_exception_handler(HardwonError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(RequestLog)


def problem(error: HardwonError) -> tuple[int, dict[str, Any]]:
    """Return the status and the problem details (RFC 9457) of an error."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    body: dict[str, Any] = {"type": "about:blank", "title": type(error).__name__, "status": status}
    if isinstance(error, InvalidInput):
        return status, body | {"detail": error.reason, "field": error.field}
    if isinstance(error, EmbedderUnavailable | ChatUnavailable | Overloaded) and error.retry_after_seconds is not None:
        body["retry_after_seconds"] = error.retry_after_seconds
    return status, body | {"detail": str(error)}


def answer(error: HardwonError, *, status: int | None = None, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error as a response, with the status of its kind unless another is given."""
    usual, body = problem(error)
    headers = dict(headers or {})
    if "retry_after_seconds" in body:
        headers["Retry-After"] = str(math.ceil(body["retry_after_seconds"]))
    return JSONResponse(body | {"status": status or usual}, status or usual, headers, media_type=PROBLEM)


async def _told(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HardwonError):
        raise error
    return answer(error)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return answer(InvalidInput("body", f"is not JSON: {first['ctx']['error']}"))
    if len(first["loc"]) == 1 and first["loc"][0] == "body":
        return answer(InvalidInput("body", "must be a JSON object, sent as Content-Type: application/json"))
    return answer(in_our_words(first["loc"][1:], first))


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """Answer what the framework refuses: no such path, another method, a body that cannot be read."""
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return answer(NotFound(f"there is nothing at {request.url.path}"), headers=headers)
        case HTTPStatus.BAD_REQUEST:  # FastAPI's own for any JSON it cannot read
            return answer(InvalidInput("body", "cannot be read: is it JSON, and not nested too deeply?"))
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return answer(InvalidInput("body", str(error.detail)), status=error.status_code)
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return answer(HardwonError(detail), status=error.status_code, headers=headers)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    """Answer a defect of ours; the server logs its trace after this."""
    log.error("request_failed", method=request.method, path=request.url.path, error=type(error).__name__)
    return answer(HardwonError("hardwon met a defect of its own: its log says which"))


class RequestLog:
    """ASGI middleware: caps the body, gives each request an id, logs one line per answer, says when one was cut."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = headers.get(b"x-request-id", b"").decode("latin-1")[:100] or str(uuid4())
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode("latin-1"))]
            await send(message)

        try:
            declared = headers.get(b"content-length", b"0")
            whole = scope["path"] == ARCHIVE_PATH  # kept in a file while it comes in, whatever its size
            if not whole and declared.isdigit() and int(declared) > MAX_BODY_BYTES:
                await _too_large()(scope, receive, noting)
            else:
                await self._app(scope, receive if whole else _capped(receive), noting)
        except asyncio.CancelledError:
            if status:
                raise
            # this process stops, and the request's time to finish is over; whoever asked may ask the next one
            leaving = OwnerUnavailable("hardwon stops before this was done: ask again")
            await answer(leaving, headers={LEAVING_HEADER: "1", "Retry-After": "1"})(scope, receive, noting)
        log.info("request_answered", method=scope["method"], path=scope["path"], status=status, request_id=request_id)


def _too_large() -> JSONResponse:
    return answer(InvalidInput("body", _TOO_LARGE), status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _capped(receive: Receive) -> Receive:
    """Count a body's bytes as they come: one sent in chunks declares no length."""
    taken = 0

    async def counting() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
        return message

    return counting
