"""Errors as problem details (RFC 9457), and the request log."""

from __future__ import annotations

import asyncio
import json
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

from hardwon.client.transport import LEAVING_HEADER, PROBLEM, not_found_message
from hardwon.coercion import json_problem
from hardwon.errors import (
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
from hardwon.event_log import get_logger
from orchestrator.entries import as_invalid_input

log = get_logger(__name__)

REQUEST_HEADER = "X-Request-ID"
REQUEST_ID: ContextVar[str] = ContextVar("request_id")
"""The id of the current request."""
RETRY_AFTER_SECONDS = 5
"""Retry-After of an unavailable part that gives none itself; ours."""
_CLIENT_LEFT = 499
"""Not a status of HTTP: web servers log it for a request whose client disconnected."""
_SMALL_BODY_BYTES = 64 * 1024
_SAFE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,100}")

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
"""HTTP status of each error; the nearest class in the tree counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Problem details (RFC 9457). `title` is the error's class; `field` names the invalid field of the request.

    `request_id` is the X-Request-ID of the response, and of the lines in the server's log.
    """

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    retry_after_seconds: float | None = None
    request_id: str | None = None


def add_problem_handlers(app: FastAPI) -> None:
    """Make an app answer all errors with problem details, and log each response."""
    app.add_exception_handler(HardwonError, _handle_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)
    app.add_exception_handler(Exception, _handle_defect)
    app.add_middleware(RequestLog)


def problem_details(error: HardwonError) -> tuple[int, dict[str, Any]]:
    """Return the status and the problem details (RFC 9457) of an error."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    body: dict[str, Any] = {"type": "about:blank", "title": _title(error), "status": status}
    if isinstance(error, InvalidInput):
        return status, body | {"detail": error.reason, "field": error.field}
    if isinstance(error, Unavailable) and error.retry_after_seconds is not None:
        body["retry_after_seconds"] = error.retry_after_seconds
    return status, body | {"detail": str(error)}


def _title(error: HardwonError) -> str:
    """Return the class name for a client; a class that clients of the version before do not know, by its base."""
    new: dict[type[HardwonError], type[HardwonError]] = {
        ModelReplaced: SpaceMismatch,
        TookTooLong: Unavailable,
        BudgetSpent: Unavailable,
    }
    return new.get(type(error), type(error)).__name__


def problem_response(
    error: HardwonError, *, status: int | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return an error as a response, with the status of its class unless another is given."""
    default, body = problem_details(error)
    body["status"] = status = status or default
    headers = dict(headers or {})
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        seconds = math.ceil(body.get("retry_after_seconds", RETRY_AFTER_SECONDS))
        headers.setdefault("Retry-After", str(max(1, seconds)))
    if request_id := REQUEST_ID.get(None):
        body["request_id"] = request_id
    return JSONResponse(body, status, headers, media_type=PROBLEM)


async def _handle_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HardwonError):
        raise error
    return problem_response(error)


async def _handle_invalid_request(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        place = json.JSONDecodeError(first["ctx"]["error"], _text_of(error.body), first["loc"][1])
        return problem_response(InvalidInput("body", json_problem(place)))
    if len(first["loc"]) == 1 and first["loc"][0] == "body":
        return problem_response(InvalidInput("body", "must be a JSON object, sent as Content-Type: application/json"))
    return problem_response(as_invalid_input(first["loc"][1:], first))


def _text_of(body: object) -> str:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    """Answer errors of the framework: an unknown path, another method, a body that cannot be read."""
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return problem_response(NotFound(not_found_message(request.url.path)), headers=headers)
        case HTTPStatus.BAD_REQUEST if isinstance(error.__cause__, ClientDisconnect):  # FastAPI takes it for bad JSON
            return Response(status_code=_CLIENT_LEFT)
        case HTTPStatus.BAD_REQUEST:  # FastAPI's own for any JSON it cannot read
            return problem_response(InvalidInput("body", "cannot be read: is it JSON, and not nested too deeply?"))
        case HTTPStatus.REQUEST_TIMEOUT | HTTPStatus.REQUEST_ENTITY_TOO_LARGE | HTTPStatus.UNPROCESSABLE_ENTITY:
            return problem_response(InvalidInput("body", str(error.detail)), status=error.status_code, headers=headers)
        case HTTPStatus.TOO_MANY_REQUESTS:  # ours, where the buffer has no room for a body
            seconds = float(headers.get("Retry-After", RETRY_AFTER_SECONDS))
            return problem_response(Overloaded(str(error.detail), retry_after_seconds=seconds), headers=headers)
        case HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_methods_of_path(request))
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return problem_response(HardwonError(detail), status=error.status_code, headers=headers)


def _methods_of_path(request: Request) -> list[str]:
    """Return the methods that a path takes: each is a route of its own, so the framework names only one."""
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)


async def _handle_disconnect(_: Request, __: Exception) -> Response:
    """Return a response that nobody reads: the client disconnected while it sent its body, which is not a defect."""
    return Response(status_code=_CLIENT_LEFT)


async def _handle_defect(request: Request, error: Exception) -> JSONResponse:
    """Answer a defect of hardwon's own; the server logs its trace after this."""
    log.error("request_failed", method=request.method, path=request.url.path, error=type(error).__name__)
    defect = HardwonError("hardwon met a defect of its own: its log says which")
    # this runs outside of the middleware that sets the request id
    return problem_response(
        defect, headers={REQUEST_HEADER: request_id} if (request_id := REQUEST_ID.get(None)) else None
    )


class RequestLog:
    """ASGI middleware: gives each request an id, logs one line per response, answers requests cut by a shutdown.

    A caller's own X-Request-ID is used where it is safe in a log: letters, digits and a few marks.
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
        status, unread = 0, _has_large_body(scope)

        async def receive_body() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # a client must not go on sending a body that nobody reads
                close = [(b"connection", b"close")] if unread else []
                own = [(b"x-request-id", request_id.encode("latin-1")), *close]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        try:
            await self._app(scope, receive_body, send_with_id)
        except asyncio.CancelledError:
            if status:
                raise
            # this process stops, and the request's grace period is over; the client may ask the next process
            leaving = OwnerUnavailable("hardwon stopped before this was done: ask again", retry_after_seconds=1.0)
            await problem_response(leaving, headers={LEAVING_HEADER: "1"})(scope, receive_body, send_with_id)
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
        request_id: str = value.decode("latin-1") if name == b"x-request-id" else ""
        if _SAFE_ID.fullmatch(request_id):
            return request_id
    return str(uuid4())


def _has_large_body(scope: Scope) -> bool:
    """Return whether a request has a body that costs more to read than a new connection."""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return True
        if name == b"content-length":
            return value.isdigit() and int(value) > _SMALL_BODY_BYTES
    return False
