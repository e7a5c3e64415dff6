"""Authentication of requests: API keys, their rate limits, and the origin checks of a server without keys."""

from __future__ import annotations

import functools
import hmac
import ipaddress
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardwon.client.transport import KEY_HEADER, MCP_PATH, REPORTER_HEADER, UNUSED_KEY
from hardwon.context.circuit_breaker import CircuitBreaker
from hardwon.context.deadline import run_within
from hardwon.errors import AccessDenied, HardwonError, Overloaded, StorageUnavailable, Unavailable
from knowledge.access.authentication import LOOKUP_INTERVAL_SECONDS, Authenticator
from knowledge.access.keys import parse_key
from knowledge.access.principals import ANYONE, OWNER, Principal, Trust
from knowledge.access.principals import Scope as KeyScope
from orchestrator.http.middleware.page_sessions import (
    ASSETS_PREFIX,
    CHECK_KEY,
    REFUSAL,
    SEALER,
    SESSION,
    SESSIONS,
    SIGN_IN_PATH,
    SIGN_OUT_PATH,
    SessionSealer,
    find_cookie,
    is_page,
    is_part_of_foreign_page,
)
from orchestrator.http.middleware.problems import problem_response

PRINCIPAL = "hardwon.principal"
"""The key of the principal in the ASGI scope of a request."""
_IS_LOCAL = "hardwon.is_local"
_Result = TypeVar("_Result")
_CONTEXT_PATHS = frozenset({"/v1/contexts", MCP_PATH, f"{MCP_PATH}/"})
_MAX_LATE_SECONDS = 5.0
"""Longest time that a late key lookup may still run, ours: the connection it opens makes the next one quick."""
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", SIGN_IN_PATH, SIGN_OUT_PATH})
OPERATOR_KEY_ID = "operator"
OPERATOR_PRINCIPAL = Principal(trust=Trust.KEY, scopes=frozenset(KeyScope), key_id=OPERATOR_KEY_ID)
"""The principal of the key that the server itself was started with."""
MAX_UNKNOWN_KEYS = 1000
"""Requests of one address that may wait for the lookup of their keys, ours: more than a server can parse between two
lookups. All waiting keys are looked up in one statement, so those of one address delay no others."""
MAX_BUCKETS = 10_000
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::[0-9]+)?")
"""A Host header: a name or an address, with an optional port."""
_BEARER = re.compile(
    r"bearer +(?P<key>\S+) *", re.IGNORECASE | re.ASCII
)  # without ASCII a byte of a letter may count as Unicode white space
_PROXY_HEADERS = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"})
NEEDS_KEY = "this server needs a key: Authorization: Bearer ...; hardwon's own commands send HARDWON_API_KEY"
NEEDS_SIGN_IN = "sign in with a key to see this page"
_REPORTER_BYTES = REPORTER_HEADER.lower().encode()
_KEY_ADVICE = "make a key (hardwon keys create), or set HARDWON_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """Settings of authentication on TCP: `operator_key` is the server's own key, `host` the name it listens on.

    `context_timeout_seconds`: longest key lookup of a request for a context; None: no limit of its own.
    """

    authenticator: Authenticator
    operator_key: str | None
    host: str
    requests_per_second: float
    context_timeout_seconds: float | None = None


class TokenBuckets:
    """A rate limit for each key: `per_second` sustained, twice as much in a burst; an LRU cache of buckets."""

    def __init__(self, per_second: float, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = max(1.0, 2 * per_second)
        self._seconds = seconds
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key_id: str) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        now = self._seconds()
        tokens, filled_at = self._buckets.pop(key_id, (self._burst, now))
        tokens = min(self._burst, tokens + (now - filled_at) * self._per_second)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._per_second
        self._buckets[key_id] = (tokens if wait else tokens - 1, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class OwnerAuthentication:
    """ASGI middleware of the private socket: any caller there owns the data directory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope[_IS_LOCAL] = True
        try:
            scope[PRINCIPAL] = _as_reporter(OWNER, scope)
        except HardwonError as error:
            await problem_response(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class KeyAuthentication:
    """ASGI middleware: authenticates a request before any of its body is read.

    A key that was seen a moment ago is answered from the cache. Unknown keys are looked up together, so that guessing
    keys delays no valid one, and costs the store one statement now and then.
    """

    def __init__(self, app: ASGIApp, *, auth: AuthConfig) -> None:
        self._app = app
        self._auth = auth
        self._names = {"localhost", host_name(auth.host)}
        self._buckets = TokenBuckets(auth.requests_per_second)
        self._unknown_keys = Counter[str]()
        self._breaker = CircuitBreaker()
        self._sealer = SessionSealer(
            pepper=auth.authenticator.pepper,
            now=auth.authenticator.clock.now,
            operator_id=OPERATOR_KEY_ID,
            operator_key=auth.operator_key,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if is_page(scope["path"]):
            await self._admit_page(scope)
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._authenticate_in_time(scope)
            scope[_IS_LOCAL] = principal is ANYONE
            scope[PRINCIPAL] = _as_reporter(principal, scope)
        except _UnauthenticatedError as error:
            response = problem_response(
                AccessDenied(str(error)), status=HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"}
            )
            await response(scope, receive, send)
        except HardwonError as error:
            await problem_response(error)(scope, receive, send)
        else:
            has_key = any(name == b"authorization" for name, _ in scope["headers"])
            await self._app(scope, receive, _add_unused_key(send) if has_key and principal is ANYONE else send)

    async def _admit_page(self, scope: Scope) -> None:
        """Put the principal of a page's request into the scope, or the error that the page shows in its place."""
        scope[SEALER] = self._sealer
        scope[SESSIONS] = self._auth.authenticator.sessions
        scope[CHECK_KEY] = functools.partial(self._check_typed_key, scope=scope)
        try:
            scope[PRINCIPAL] = _as_reporter(await self._authenticate(scope), scope)
        except _UnauthenticatedError as error:
            scope[REFUSAL] = Unauthenticated(str(error))
        except HardwonError as error:
            scope[REFUSAL] = error

    async def _check_typed_key(self, key: str, scope: Scope) -> Principal:
        """Return the principal of a key that somebody typed. Raises Unauthenticated, or Overloaded."""
        try:
            principal = await self._principal_of_key(key, scope)
        except _UnauthenticatedError as error:
            raise Unauthenticated(str(error)) from error
        self._check_rate(principal)
        return principal

    async def _authenticate_in_time(self, scope: Scope) -> Principal:
        """Return the principal of a request; for a request for a context, in time.

        While Postgres does not answer, a principal seen before is `unverified`: it gets the basic context, which holds
        nothing that is stored.
        """
        try:
            return await self._authenticate(scope)
        except Overloaded:
            raise
        except Unavailable as error:
            principal = self._principal_from_cache(scope["headers"]) if scope["path"] in _CONTEXT_PATHS else None
            if principal is None:
                raise
            self._check_rate(principal)
            return replace(principal, unverified=str(error))

    async def _look_up(self, scope: Scope, lookup: Coroutine[Any, Any, _Result], *, delay: float = 0.0) -> _Result:
        """Return the result of a lookup in the store; for a request for a context, with a timeout and a breaker.

        `delay`: longest time in seconds until the lookup starts.
        """
        timeout = self._auth.context_timeout_seconds
        if scope["path"] not in _CONTEXT_PATHS or timeout is None:
            return await lookup
        if reason := self._breaker.refusal_reason():
            lookup.close()
            raise StorageUnavailable(reason)
        try:
            result = await run_within(delay + timeout, lookup, overrun_seconds=_MAX_LATE_SECONDS)
        except TimeoutError as error:
            reason = f"Postgres did not say within {timeout:g} s whose key this is"
            self._breaker.record_failure(reason)
            raise StorageUnavailable(reason) from error
        except Unavailable as error:
            self._breaker.record_failure(str(error))
            raise
        self._breaker.record_success()
        return result

    def _principal_from_cache(self, headers: Iterable[tuple[bytes, bytes]]) -> Principal | None:
        """Return the principal that the cache has for a request, None if that takes Postgres."""
        credentials = [value for name, value in headers if name == b"authorization"]
        key = _bearer_key(credentials[0]) if len(credentials) == 1 else None
        if key is not None:
            return self._auth.authenticator.find_expired(key)
        is_open = not credentials and self._auth.operator_key is None and self._auth.authenticator.is_known_empty
        return ANYONE if is_open and self._find_foreign(headers) is None else None

    async def _authenticate(self, scope: Scope) -> Principal:
        """Return the principal of a request. Raises AccessDenied, or Overloaded beyond the rate limit."""
        headers = scope["headers"]
        credentials = [value for name, value in headers if name == b"authorization"]
        if (scope["path"] in OPEN_PATHS or scope["path"].startswith(ASSETS_PREFIX)) and not credentials:
            return ANYONE
        auth = self._auth
        if auth.operator_key is None and not await self._look_up(scope, auth.authenticator.has_any_key()):
            if foreign := self._find_foreign(headers):
                raise AccessDenied(foreign)
            if any(_has_hardwon_key(value) for value in credentials):
                raise _UnauthenticatedError(
                    f"this server has no keys, so yours is of another store; keys do not move with it: {_KEY_ADVICE}"
                )
            return ANYONE
        key = _bearer_key(credentials[0]) if len(credentials) == 1 else None
        if key is not None:
            principal = await self._principal_of_key(key, scope)
        elif is_page(scope["path"]) and not credentials:
            principal = await self._principal_of_session(scope)
        else:
            raise _UnauthenticatedError(NEEDS_KEY)
        self._check_rate(principal)
        return principal

    async def _principal_of_key(self, key: str, scope: Scope) -> Principal:
        auth = self._auth
        own_key = (auth.operator_key or "").encode()
        # the environment may hold a created key, too: that one has only its own scopes
        if (
            own_key
            and parse_key(auth.operator_key or "") is None
            and hmac.compare_digest(key.encode("latin-1"), own_key)
        ):
            return OPERATOR_PRINCIPAL
        principal = auth.authenticator.find_cached(key)
        if principal is not None:
            return principal
        if not own_key and parse_key(key) is None:
            raise _UnauthenticatedError("this key opens nothing here: it does not have the form of a key (hw_...)")
        try:
            if auth.authenticator.find_expired(key) is not None:
                return await self._look_up(scope, auth.authenticator.principal(key))
            with self._hold_slot(client_address(scope)):
                return await self._look_up(
                    scope, auth.authenticator.principal_of_new_key(key), delay=LOOKUP_INTERVAL_SECONDS
                )
        except AccessDenied as error:
            raise _UnauthenticatedError(str(error)) from error

    async def _principal_of_session(self, scope: Scope) -> Principal:
        """Return the principal of a page's session, which ends with its key."""
        cookie = find_cookie(scope["headers"])
        if cookie is None:
            raise _UnauthenticatedError(NEEDS_SIGN_IN)
        session = self._sealer.open(cookie)
        if session is None:
            raise _UnauthenticatedError("your session is over: sign in again")
        if await self._look_up(scope, self._auth.authenticator.sessions.has_ended(session.session_id)):
            raise _UnauthenticatedError("you signed out: sign in again")
        scope[SESSION] = session
        if session.key_id == OPERATOR_KEY_ID:
            return OPERATOR_PRINCIPAL
        try:
            return await self._look_up(scope, self._auth.authenticator.principal_of_id(session.key_id))
        except AccessDenied as error:
            raise _UnauthenticatedError(str(error)) from error

    @contextmanager
    def _hold_slot(self, address: str) -> Iterator[None]:
        """Hold a slot of an address for a block. Raises Overloaded where all are taken."""
        if self._unknown_keys[address] >= MAX_UNKNOWN_KEYS:
            raise Overloaded("too many unknown keys came from your address", retry_after_seconds=1.0)
        self._unknown_keys[address] += 1
        try:
            yield
        finally:
            self._unknown_keys[address] -= 1
            if not self._unknown_keys[address]:
                del self._unknown_keys[address]

    def _check_rate(self, principal: Principal) -> None:
        if principal is OPERATOR_PRINCIPAL or principal.key_id is None:
            return
        if wait := self._buckets.take(principal.key_id):
            rate = self._auth.requests_per_second
            raise Overloaded(f"this key may send {rate:g} requests a second", retry_after_seconds=wait)

    def _find_foreign(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return why a server without keys refuses a request as foreign, None if it does not.

        A page of another site may post here, with its Origin; load something from here, such as a picture; or have its
        own name resolve to this machine (DNS rebinding), which shows in Host. A proxy on this machine forwards requests
        of anybody.
        """
        decoded = [(name, value.decode("latin-1").lower()) for name, value in headers]
        if any(name in _PROXY_HEADERS for name, _ in decoded):
            return f"this server has no key, so it refuses requests through a proxy: {_KEY_ADVICE}"
        hosts = [value for name, value in decoded if name == b"host"]
        for host in hosts:
            if not self._is_own_host(host):
                return f"this server has no key, so it answers to its own names only, not to {host!r}: {_KEY_ADVICE}"
        if is_part_of_foreign_page({name.decode("latin-1"): value for name, value in decoded}):
            return f"this server has no key, so it refuses what a page of another site loads from it: {_KEY_ADVICE}"
        for origin in (value for name, value in decoded if name == b"origin"):
            if origin not in {f"http://{host}" for host in hosts}:
                return f"this server has no key, so it refuses pages of {origin!r}: {_KEY_ADVICE}"
        return None

    def _is_own_host(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].strip("[]")
        try:
            return name in self._names or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _add_unused_key(send: Send) -> Send:
    """Return a `send` whose response says that the key of the request was not needed."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[KEY_HEADER] = UNUSED_KEY
        await send(message)

    return send_with_header


def _bearer_key(header: bytes) -> str | None:
    """Return the key of an Authorization header, None where it has none."""
    match = _BEARER.fullmatch(header.decode("latin-1"))
    return None if match is None else match["key"]


def _has_hardwon_key(header: bytes) -> bool:
    """Return whether an Authorization header has a key of the form that hardwon makes."""
    key = _bearer_key(header)
    return key is not None and parse_key(key) is not None


def _as_reporter(principal: Principal, scope: Scope) -> Principal:
    """Return the principal of a request that passes on an agent's word. Raises InvalidInput for an invalid name."""
    names = [value for name, value in scope.get("headers", ()) if name == _REPORTER_BYTES]
    return principal.acting_for_agent(names[0].decode("latin-1")) if names else principal


class Unauthenticated(AccessDenied):
    """No valid credentials for a page: it shows the form to sign in."""


class _UnauthenticatedError(Exception):
    """No valid credentials: 401, where a key without the permission is 403."""


def is_local_caller(scope: Scope) -> bool:
    """Return whether a caller is on this machine: it owns the data directory, or the server has no keys.

    A caller with a key may be anywhere, so that a path it names is one of another machine.
    """
    return bool(scope.get(_IS_LOCAL, False))


def client_address(scope: Scope) -> str:
    """Return the address of the client; of IPv6 its /64 network, since one client has all of it."""
    host = (scope.get("client") or ("nobody", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def host_name(host: str) -> str:
    """Return a host as a Host header writes it: an IPv6 address without its zone."""
    return host.lower().partition("%")[0]
