"""Who is at the door: the key of a request, its rate, and what a server without keys answers to."""

from __future__ import annotations

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

from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.access.authentication import Authenticator
from knowledge.access.first_uses import LOOKUP_INTERVAL_SECONDS
from knowledge.access.keys import parse_key
from knowledge.access.principals import ANYONE, OWNER, Principal, Trust
from knowledge.access.principals import Scope as KeyScope
from knowledge.errors import AccessDenied, HardwonError, Overloaded, StorageUnavailable, Unavailable
from orchestrator.breaker import CircuitBreaker
from orchestrator.client.calls import MCP_PATH
from orchestrator.deadline import run_within
from orchestrator.http.page import FILES
from orchestrator.http.problems import answer

PRINCIPAL = "hardwon.principal"
"""Where in the scope of a request its principal stands."""
_Found = TypeVar("_Found")
_IN_TIME = frozenset({"/v1/contexts", MCP_PATH, f"{MCP_PATH}/"})
_ENDS_WITHIN = 5.0
"""What a look for a key that is late may take to its end, ours: connections, once made, make the next one quick."""
OPEN_PATHS = frozenset({"/healthz", "/readyz", *FILES})
OPERATOR = "operator"
OPERATORS = Principal(trust=Trust.KEY, scopes=frozenset(KeyScope), key_id=OPERATOR)
"""Whoever has the key that the server itself was started with."""
STRANGERS_AT_ONCE = 1000
"""Requests of one address that wait to be told whose keys they have, ours: more than a server can parse between two
looks. All that wait are asked for in one statement, so those of an address hold up no other's."""
MAX_BUCKETS = 10_000
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::[0-9]+)?")
"""A Host header: a name or an address, and perhaps a port."""
_BEARER = re.compile(r"bearer +(?P<key>\S+) *", re.IGNORECASE | re.ASCII)  # a byte of a letter may be Unicode's blank
_OF_PROXIES = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"})
NEEDS_KEY = "this server needs a key: Authorization: Bearer ...; hardwon's own commands send HARDWON_API_KEY"
_HOW = "make a key (hardwon keys create), or set HARDWON_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorway:
    """What a server on TCP asks of whoever comes: `operator_key` is its own key, `host` the name it listens on.

    `patience_seconds`: how long who asks for a context waits until it is known whose key it is; None: as others do.
    """

    authenticator: Authenticator
    operator_key: str | None
    host: str
    requests_per_second: float
    patience_seconds: float | None = None


class TokenBuckets:
    """A rate limit for each key: `per_second` at length, twice as much in a burst. The longest unused is forgotten."""

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


class OwnersDoor:
    """ASGI middleware of the private socket: whoever reaches it has the data directory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope[PRINCIPAL] = OWNER
        await self._app(scope, receive, send)


class GuardedDoor:
    """ASGI middleware: finds out who asks, before anything of the request's body is read.

    A key that was seen a moment ago costs no look into the store. One that was not is looked up with all others that
    wait, so that whoever tries keys keeps no valid one out, and costs the store a statement now and then.
    """

    def __init__(self, app: ASGIApp, *, doorway: Doorway) -> None:
        self._app = app
        self._doorway = doorway
        self._names = {"localhost", name_of(doorway.host)}
        self._buckets = TokenBuckets(doorway.requests_per_second)
        self._strangers = Counter[str]()
        self._breaker = CircuitBreaker()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope[PRINCIPAL] = await self._in_time(scope)
        except _NoKeyError as error:
            told = answer(
                AccessDenied(str(error)), status=HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"}
            )
            await told(scope, receive, send)
        except HardwonError as error:
            await answer(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _in_time(self, scope: Scope) -> Principal:
        """Return who asks; of who asks for a context and was let in before, in time for one.

        While Postgres says nothing they are `unverified`, and are given the basic context, which holds nothing of it.
        """
        try:
            return await self._principal(scope)
        except Overloaded:
            raise
        except Unavailable as error:
            known = self._recognised(scope["headers"]) if scope["path"] in _IN_TIME else None
            if known is None:
                raise
            self._limit(known)
            return replace(known, unverified=str(error))

    async def _from_store(self, scope: Scope, look: Coroutine[Any, Any, _Found], *, waits: float = 0.0) -> _Found:
        """Return what a look into the store finds; where a context is asked for, in time, and none after failures.

        `waits`: for how many seconds at most it waits until it begins.
        """
        patience = self._doorway.patience_seconds
        if scope["path"] not in _IN_TIME or patience is None:
            return await look
        if silent := self._breaker.refusal_reason():
            look.close()
            raise StorageUnavailable(silent)
        try:
            found = await run_within(waits + patience, look, overrun_seconds=_ENDS_WITHIN)
        except TimeoutError as error:
            silent = f"Postgres did not say within {patience:g} s whose key this is"
            self._breaker.record_failure(silent)
            raise StorageUnavailable(silent) from error
        except Unavailable as error:
            self._breaker.record_failure(str(error))
            raise
        self._breaker.record_success()
        return found

    def _recognised(self, headers: Iterable[tuple[bytes, bytes]]) -> Principal | None:
        """Return whom a request let in before, as far as that is known without Postgres."""
        given = [value for name, value in headers if name == b"authorization"]
        key = _bearer(given[0]) if len(given) == 1 else None
        if key is not None:
            return self._doorway.authenticator.find_expired(key)
        nobodys = not given and self._doorway.operator_key is None and self._doorway.authenticator.is_known_empty
        return ANYONE if nobodys and self._foreign(headers) is None else None

    async def _principal(self, scope: Scope) -> Principal:
        """Return who asks. Raises AccessDenied, or Overloaded for one who asks too often."""
        headers = scope["headers"]
        given = [value for name, value in headers if name == b"authorization"]
        if scope["path"] in OPEN_PATHS and not given:
            return ANYONE
        doorway = self._doorway
        if doorway.operator_key is None and not await self._from_store(scope, doorway.authenticator.has_any_key()):
            if foreign := self._foreign(headers):
                raise AccessDenied(foreign)
            if any(_is_made_here(value) for value in given):
                raise _NoKeyError(
                    f"no key is made here, so yours is of another store; they do not move with it: {_HOW}"
                )
            return ANYONE
        found = _bearer(given[0]) if len(given) == 1 else None
        if found is None:
            raise _NoKeyError(NEEDS_KEY)
        principal = await self._known(found, scope)
        self._limit(principal)
        return principal

    async def _known(self, key: str, scope: Scope) -> Principal:
        doorway = self._doorway
        ours = (doorway.operator_key or "").encode()
        # a key that was made may be in the environment, too: it is worth what it was made for
        if ours and parse_key(doorway.operator_key or "") is None and hmac.compare_digest(key.encode("latin-1"), ours):
            return OPERATORS
        principal = doorway.authenticator.find_cached(key)
        if principal is not None:
            return principal
        if not ours and parse_key(key) is None:
            raise _NoKeyError("this key opens nothing here: it has not the form of one (hw_...)")
        try:
            if doorway.authenticator.find_expired(key) is not None:
                return await self._from_store(scope, doorway.authenticator.principal(key))
            with self._place(address_of(scope)):
                return await self._from_store(
                    scope, doorway.authenticator.principal_of_new_key(key), waits=LOOKUP_INTERVAL_SECONDS
                )
        except AccessDenied as error:
            raise _NoKeyError(str(error)) from error

    @contextmanager
    def _place(self, address: str) -> Iterator[None]:
        """Count who waits, of an address. Raises Overloaded where as many do as may."""
        if self._strangers[address] >= STRANGERS_AT_ONCE:
            raise Overloaded("too many unknown keys came from your address", retry_after_seconds=1.0)
        self._strangers[address] += 1
        try:
            yield
        finally:
            self._strangers[address] -= 1
            if not self._strangers[address]:
                del self._strangers[address]

    def _limit(self, principal: Principal) -> None:
        if principal is OPERATORS or principal.key_id is None:
            return
        if wait := self._buckets.take(principal.key_id):
            rate = self._doorway.requests_per_second
            raise Overloaded(f"this key may ask {rate:g} times a second", retry_after_seconds=wait)

    def _foreign(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return what is foreign about a request to a server without keys, None if nothing is.

        A page of another site may post anywhere, and then says where it comes from (Origin); or have its own name
        resolve to this machine, and is then asked for by that name (Host). A proxy on this machine brings anybody.
        """
        given = [(name, value.decode("latin-1").lower()) for name, value in headers]
        if any(name in _OF_PROXIES for name, _ in given):
            return f"this server has no key, so it answers nobody who comes through a proxy: {_HOW}"
        hosts = [value for name, value in given if name == b"host"]
        for host in hosts:
            if not self._ours(host):
                return f"this server has no key, so it answers to its own names only, not to {host!r}: {_HOW}"
        for origin in (value for name, value in given if name == b"origin"):
            if origin not in {f"http://{host}" for host in hosts}:
                return f"this server has no key, so it answers no page of {origin!r}: {_HOW}"
        return None

    def _ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].strip("[]")
        try:
            return name in self._names or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _bearer(given: bytes) -> str | None:
    """Return the key of an Authorization header, None where it has none."""
    found = _BEARER.fullmatch(given.decode("latin-1"))
    return None if found is None else found["key"]


def _is_made_here(given: bytes) -> bool:
    """Return whether an Authorization header has a key that some hardwon made."""
    key = _bearer(given)
    return key is not None and parse_key(key) is not None


class _NoKeyError(Exception):
    """Nobody has shown who they are: 401, where a key that may not do a thing is 403."""


def address_of(scope: Scope) -> str:
    """Return where a request comes from; of IPv6 the network, since one caller has all of it."""
    host = (scope.get("client") or ("nobody", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def name_of(host: str) -> str:
    """Return a host as a Host header has it: an address of IPv6 without its zone."""
    return host.lower().partition("%")[0]
