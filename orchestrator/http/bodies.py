"""How large, how deep and how slow a request's body may be: looked at before it is read, and while it comes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import InvalidInput
from orchestrator.client.calls import (
    ARCHIVE_PATH,
    BATCH_PATH,
    MAX_BATCH_BYTES,
    MAX_BODY_BYTES,
    MAX_DOCUMENT_BYTES,
    MAX_MCP_BYTES,
    MAX_TEXTS_BYTES,
    MCP_PATH,
)
from orchestrator.http.problems import answer

MAX_DEPTH: Final = 20
"""How deep objects and lists may lie in each other; an entry's lie three deep, a batch's five."""
BODY_SECONDS = 20.0
"""How long a body may keep its request waiting, which is at work meanwhile; ours."""
BODY_BYTES_PER_SECOND = 50_000
"""For each so many bytes that come, a second more: a slow line is no dead one; ours."""
ARCHIVE_SECONDS = 120.0
"""How long an archive may stop coming: whoever makes it may be at work on its next piece; ours."""
_DOCUMENTS = re.compile(r"/api/kb/[^/]+/[^/]+/documents")
_TEXTS = re.compile(r"/v1/(?:entries(?:/[^/]+/resolution)?|tasks:[^/]+|gates:decided|contexts|queries/[^/]+)")
_TOO_SLOW = "did not come in time: send all of it again"
_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def most_bytes(path: str) -> int | None:
    """Return how large a body may be, None where it is kept in a file while it comes in."""
    if path == ARCHIVE_PATH:
        return None
    if _DOCUMENTS.fullmatch(path):
        return MAX_DOCUMENT_BYTES
    if path == BATCH_PATH:
        return MAX_BATCH_BYTES
    if path.removesuffix("/") == MCP_PATH:
        return MAX_MCP_BYTES
    return MAX_TEXTS_BYTES if _TEXTS.fullmatch(path) else MAX_BODY_BYTES


class BodyCap:
    """ASGI middleware: refuses a body that is too large by what it declares, and stops reading one that gets so.

    One that stops coming is given up: callers who went without a word would keep everybody else out for good.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _framed_twice(scope):
            told = InvalidInput("body", "has both a Content-Length and a Transfer-Encoding: send one of them")
            refused = answer(told, status=HTTPStatus.BAD_REQUEST, headers={"Connection": "close"})
            await refused(scope, receive, send)
            return
        most = most_bytes(scope["path"])
        if most is None:
            await self._app(scope, _coming(receive), send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > most:
            refused = answer(InvalidInput("body", _too_large(most)), status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            await refused(scope, receive, send)
            return
        await self._app(scope, _counted(receive, most), send)


def _framed_twice(scope: Scope) -> bool:
    """Return whether a body has two lengths (RFC 9112, 6.1): a proxy may go by the other one, and see two requests."""
    names = {name for name, _ in scope["headers"]}
    return b"transfer-encoding" in names and b"content-length" in names


def _too_large(most: int) -> str:
    return f"has more than the {most:,} bytes allowed"


def _counted(receive: Receive, most: int) -> Receive:
    """Count a body's bytes and the time they take as they come: one sent in chunks declares no length."""
    taken, left, more = 0, BODY_SECONDS, True

    async def counting() -> Message:
        nonlocal taken, left, more
        if not more:
            return await receive()  # tells that the caller went, whenever that is
        began = time.monotonic()
        try:
            async with asyncio.timeout(left):
                message = await receive()
        except TimeoutError:
            raise _too_slow() from None
        size = len(message.get("body", b""))
        taken, more = taken + size, message.get("more_body", False)
        left += size / BODY_BYTES_PER_SECOND - (time.monotonic() - began)
        if taken > most:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(most))
        return message

    return counting


def _coming(receive: Receive) -> Receive:
    """Give up a body of any size that stops coming."""
    more = True

    async def coming() -> Message:
        nonlocal more
        if not more:
            return await receive()
        try:
            async with asyncio.timeout(ARCHIVE_SECONDS):
                message = await receive()
        except TimeoutError:
            raise _too_slow() from None
        more = message.get("more_body", False)
        return message

    return coming


def _too_slow() -> HTTPException:
    return HTTPException(HTTPStatus.REQUEST_TIMEOUT, _TOO_SLOW, {"Connection": "close"})


class ShallowRequest(Request):
    """A request whose JSON is read only where it does not lie too deep."""

    async def json(self) -> Any:
        """Return the body, read. Raises HTTPException where it lies too deep."""
        if not hasattr(self, "_json"):
            body = await self.body()
            if deeper_than(body, MAX_DEPTH):
                detail = f"is nested deeper than the {MAX_DEPTH} levels allowed"
                raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
            self._json = json.loads(body)
        return self._json


def deeper_than(body: bytes, most: int) -> bool:
    """Return whether brackets outside of texts lie deeper than that, as far as it matters: the rest is not read."""
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    depth = 0
    for part in _PARTS.finditer(body):
        bracket = part[0]
        if bracket in b"[{":
            depth += 1
            if depth > most:
                return True
        elif bracket in b"]}":
            depth -= 1
    return False
