"""What goes wrong with a request, as problem details (RFC 9457); and a line in the log for each answer."""

from __future__ import annotations

import asyncio
import math
import re
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import (
    AccessDenied,
    BudgetSpent,
    ChatRejected,
    Conflict,
    EmbedderRejected,
    HardwonError,
    InvalidInput,
    ModelReplaced,
    NotFound,
    Overloaded,
    OwnerUnavailable,
    SpaceMismatch,
    StorageBusy,
    StoreIncompatible,
    StoreInUse,
    TookTooLong,
    Unavailable,
)
from knowledge.logs import get_logger
from orchestrator.client.calls import LEAVING_HEADER, PROBLEM, nothing_at
from orchestrator.entries import as_invalid_input

log = get_logger(__name__)

REQUEST_HEADER = "X-Request-ID"
REQUEST_ID: ContextVar[str] = ContextVar("request_id")
"""The id of the request at work."""
RETRY_AFTER_SECONDS = 5
"""When to come again to a part that is down, where nobody knows better; ours."""
_CLIENT_LEFT = 499
"""No status of HTTP: what web servers write into their logs for a request whose caller went."""
_LITTLE_BYTES = 64 * 1024
_HARMLESS_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,100}")

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
    StorageBusy: 429,
    BudgetSpent: 429,
    Unavailable: 503,
    HardwonError: 500,
}
"""Error to HTTP status; the nearest class in the tree counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Problem details (RFC 9457). `title` is the error's class; `field` names what was wrong with the request.

    `request_id` is that of the answer's X-Request-ID, and of the lines in the server's log.
    """

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    retry_after_seconds: float | None = None
    request_id: str | None = None


def tell_problems(app: FastAPI) -> None:
    """Have an app answer everything that goes wrong with problem details, and log each answer."""
    app.add_exception_handler(HardwonError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(RequestLog)


def problem(error: HardwonError) -> tuple[int, dict[str, Any]]:
    """Return the status and the problem details (RFC 9457) of an error."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    body: dict[str, Any] = {"type": "about:blank", "title": _title(error), "status": status}
    if isinstance(error, InvalidInput):
        return status, body | {"detail": error.reason, "field": error.field}
    if isinstance(error, Unavailable) and error.retry_after_seconds is not None:
        body["retry_after_seconds"] = error.retry_after_seconds
    return status, body | {"detail": str(error)}


def _title(error: HardwonError) -> str:
    """Return the class that a client is told: one that clients of the version before do not know, by its base."""
    new: dict[type[HardwonError], type[HardwonError]] = {
        ModelReplaced: SpaceMismatch,
        TookTooLong: Unavailable,
        BudgetSpent: Unavailable,
    }
    return new.get(type(error), type(error)).__name__


def answer(error: HardwonError, *, status: int | None = None, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error as a response, with the status of its kind unless another is given."""
    usual, body = problem(error)
    body["status"] = status = status or usual
    headers = dict(headers or {})
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        seconds = math.ceil(body.get("retry_after_seconds", RETRY_AFTER_SECONDS))
        headers.setdefault("Retry-After", str(max(1, seconds)))
    if request_id := REQUEST_ID.get(None):
        body["request_id"] = request_id
    return JSONResponse(body, status, headers, media_type=PROBLEM)


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
    return answer(as_invalid_input(first["loc"][1:], first))


async def _refused(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses: no such path, another method, a body that cannot be read."""
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return answer(NotFound(nothing_at(request.url.path)), headers=headers)
        case HTTPStatus.BAD_REQUEST if isinstance(error.__cause__, ClientDisconnect):  # FastAPI takes it for bad JSON
            return Response(status_code=_CLIENT_LEFT)
        case HTTPStatus.BAD_REQUEST:  # FastAPI's own for any JSON it cannot read
            return answer(InvalidInput("body", "cannot be read: is it JSON, and not nested too deeply?"))
        case HTTPStatus.REQUEST_TIMEOUT | HTTPStatus.REQUEST_ENTITY_TOO_LARGE | HTTPStatus.UNPROCESSABLE_ENTITY:
            return answer(InvalidInput("body", str(error.detail)), status=error.status_code, headers=headers)
        case HTTPStatus.TOO_MANY_REQUESTS:  # ours, of a body that there is no room for
            seconds = float(headers.get("Retry-After", RETRY_AFTER_SECONDS))
            return answer(Overloaded(str(error.detail), retry_after_seconds=seconds), headers=headers)
        case HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_methods(request))
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return answer(HardwonError(detail), status=error.status_code, headers=headers)


def _methods(request: Request) -> list[str]:
    """Return the methods that a path takes: each is a route of its own, and the first one knows of itself alone."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


async def _left(_: Request, __: Exception) -> Response:
    """Answer nobody: whoever asked went in the middle of its body, and that is no defect of ours."""
    return Response(status_code=_CLIENT_LEFT)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    """Answer a defect of ours; the server logs its trace after this."""
    log.error("request_failed", method=request.method, path=request.url.path, error=type(error).__name__)
    told = HardwonError("hardwon met a defect of its own: its log says which")
    # this stands outside of what gives answers their id
    return answer(told, headers={REQUEST_HEADER: request_id} if (request_id := REQUEST_ID.get(None)) else None)


class RequestLog:
    """ASGI middleware: gives each request an id, logs one line per answer, says when one was cut.

    A caller's own X-Request-ID is kept where it is harmless in a log: letters, digits and a few marks.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        REQUEST_ID.set(request_id)
        status, left = 0, _body_of(scope)

        async def taking() -> Message:
            nonlocal left
            message = await receive()
            left = left and message.get("more_body", False)
            return message

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # what nobody is going to read must not be sent on
                ours = [(b"x-request-id", request_id.encode("latin-1")), *([(b"connection", b"close")] if left else ())]
                message["headers"] = [*message.get("headers", ()), *ours]
            await send(message)

        try:
            await self._app(scope, taking, noting)
        except asyncio.CancelledError:
            if status:
                raise
            # this process stops, and the request's time to finish is over; whoever asked may ask the next one
            leaving = OwnerUnavailable("hardwon stops before this was done: ask again", retry_after_seconds=1.0)
            await answer(leaving, headers={LEAVING_HEADER: "1"})(scope, taking, noting)
        principal = scope.get("hardwon.principal")
        key_id = None if principal is None else principal.key_id
        log.info(
            "request_answered",
            method=scope["method"],
            path=scope["path"],
            status=status,
            request_id=request_id,
            key_id=key_id,
        )


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        told: str = value.decode("latin-1") if name == b"x-request-id" else ""
        if _HARMLESS_ID.fullmatch(told):
            return told
    return str(uuid4())


def _body_of(scope: Scope) -> bool:
    """Return whether a request brings a body that costs more to read than another connection."""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return True
        if name == b"content-length":
            return value.isdigit() and int(value) > _LITTLE_BYTES
    return False
