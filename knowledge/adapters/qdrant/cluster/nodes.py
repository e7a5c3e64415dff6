"""Several addresses of one Qdrant cluster: each request goes to a node that answers.

A node that refuses a connection, or says that it is not ready, is passed over at once. A read that is not answered
within `HEDGE_SECONDS` is sent to the next node as well, and the first response counts. A write waits for a slow
consensus, and is sent to the next node once its own does not answer a probe. Every request may be sent twice: ids are
deterministic, and deletions are by id or by expiry.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import httpx
from qdrant_client.http.exceptions import ResponseHandlingException

from hardwon.event_log import get_logger

log = get_logger(__name__)

HEDGE_SECONDS: Final = 0.1
"""A search takes a server 2 to 10 ms, and 100 to 270 ms while it builds a graph (docs/performance.md)."""
READ_SECONDS: Final = 10.0
WRITE_SECONDS: Final = 40.0
"""A server gives up a write to replicas that hang after 30 s; creating a collection beside a dead node takes 11 s."""
STALE_SECONDS: Final = 10.0
"""A node that came back answers from before it went away for up to 6 s (measured), whatever /readyz says."""

_CONNECT_SECONDS: Final = 5.0
_PROBE_SECONDS: Final = 1.0
_PROBE_EVERY: Final = 2.0
_MAX_HEDGES: Final = 64.0
_HEDGES_PER_READ: Final = 0.1
"""A tenth of the reads is sent twice in the long run: a cluster that is slow throughout gets no double load."""

_TRANSIENT: Final = frozenset({404, 502, 503, 504})
"""Statuses after which another node is asked. 404: one that has not heard of a new collection yet."""
_READS: Final = ("/points/query", "/points/query/batch", "/points/scroll", "/points/count", "/points")

_PORT: Final = 6333
_CLOUD: Final = ".cloud.qdrant.io"
"""Qdrant Cloud's servers have their port in no address that it shows, and listen on 6333."""

Send: TypeAlias = Callable[[httpx.Request], Awaitable[httpx.Response]]


def with_port(url: str) -> str:
    """Return an address with its port: if none is given, 6333 for Qdrant itself.

    With https or a path there is a proxy before it, at the port of its protocol; not before Qdrant Cloud.
    """
    parts = urlsplit(url.strip().rstrip("/"))
    if parts.port:
        return parts.geturl()
    is_proxy = (parts.scheme == "https" or bool(parts.path)) and not (parts.hostname or "").endswith(_CLOUD)
    port = {"https": 443, "http": 80}[parts.scheme] if is_proxy else _PORT
    return parts._replace(netloc=f"{parts.netloc}:{port}").geturl()


@dataclass(slots=True)
class Node:
    """One address. `up`: it answered last. `back_at`: the time of its first answer after it was down."""

    url: str
    up: bool = True
    back_at: float = float("-inf")
    probed_at: float = float("-inf")
    _parsed: httpx.URL = field(init=False)

    def __post_init__(self) -> None:
        """Parse the address, once."""
        self._parsed = httpx.URL(self.url)

    @property
    def name(self) -> str:
        """The address without a password."""
        return self._parsed.netloc.decode("ascii")

    def rank(self, now: float) -> int:
        """Return 0 for a node that is up, 1 while it may still lack what it missed, 2 while it is down."""
        if not self.up:
            return 2
        return int(now - self.back_at < STALE_SECONDS)

    def readdress(self, request: httpx.Request, *, seconds: float) -> httpx.Request:
        """Return the request as it is sent to this node."""
        limits = {"connect": min(_CONNECT_SECONDS, seconds), "read": seconds, "write": seconds, "pool": seconds}
        here = self._parsed
        if (here.scheme, here.netloc, here.raw_path) == (request.url.scheme, request.url.netloc, b"/"):
            request.extensions = {**request.extensions, "timeout": limits}
            return request
        path = here.raw_path.rstrip(b"/") + request.url.raw_path
        headers = [(name, value) for name, value in request.headers.multi_items() if name != "host"]
        return httpx.Request(
            request.method,
            here.copy_with(raw_path=path),
            headers=headers,
            content=request.content,
            extensions={"timeout": limits},
        )


@dataclass(slots=True)
class Nodes:
    """The addresses of a cluster, as a middleware of the Qdrant client."""

    nodes: tuple[Node, ...]
    read_seconds: float = READ_SECONDS
    write_seconds: float = WRITE_SECONDS
    _preferred: int = 0
    _hedges: float = _MAX_HEDGES
    _trouble_at: float = float("-inf")
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    def of(cls, urls: Sequence[str], timeout_seconds: float | None = None) -> Nodes:
        """Return the nodes at these addresses; `timeout_seconds`: for reads and writes, instead of their own."""
        return cls(
            nodes=tuple(Node(with_port(url)) for url in urls),
            read_seconds=timeout_seconds or READ_SECONDS,
            write_seconds=timeout_seconds or WRITE_SECONDS,
        )

    async def send(self, request: httpx.Request, call_next: Send) -> httpx.Response:
        """Send a request to the nodes in turn until one answers; return its response, or raise the last error."""
        if len(self.nodes) == 1:
            return await self._send_to_only(self.nodes[0], request, call_next)
        return await _Attempts(self, request, call_next).run()

    async def _send_to_only(self, node: Node, request: httpx.Request, call_next: Send) -> httpx.Response:
        """Send a request to the only node, once more if it closed the connection meanwhile."""
        request = node.readdress(request, seconds=self.seconds(request))
        try:
            response = await call_next(request)
        except ResponseHandlingException as error:
            self.note_down(node)
            if not isinstance(error.source, httpx.RemoteProtocolError | httpx.ReadError):
                raise
            response = await call_next(request)
        self._note_up(node)
        return response

    def seconds(self, request: httpx.Request) -> float:
        """Return how long to wait for the response to a request."""
        return self.read_seconds if is_read(request) else self.write_seconds

    async def wait_until_consistent(self) -> None:
        """Wait until each node that came back has what it missed meanwhile."""
        await asyncio.sleep(max(0.0, self._trouble_at + STALE_SECONDS - time.monotonic()))

    async def aclose(self) -> None:
        """End the probes."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def in_order(self) -> list[Node]:
        """Return the nodes in the order in which they are asked: those that are up first, the preferred one before."""
        now = time.monotonic()
        return sorted(self.nodes, key=lambda node: (node.rank(now), node is not self.nodes[self._preferred]))

    def note_answer(self, node: Node, *, passed_over: Sequence[Node], call_next: Send) -> None:
        """Prefer a node that answered; find out about the ones that did not meanwhile."""
        self._note_up(node)
        if passed_over:
            self._preferred = self.nodes.index(node)
        for other in passed_over:
            self._probe_in_background(other, call_next)
        now = time.monotonic()
        for other in self.nodes:
            if not other.up and now - other.probed_at >= _PROBE_EVERY:
                self._probe_in_background(other, call_next)

    def note_down(self, node: Node) -> None:
        """Ask others before this node from now on."""
        if node.up:
            log.warning("index_node_down", node=node.name)
        node.up, self._trouble_at = False, time.monotonic()
        if node is self.nodes[self._preferred]:
            self._preferred = self.nodes.index(self.in_order()[0])

    def take_hedge(self) -> bool:
        """Return whether a read may be sent twice."""
        if self._hedges < 1:
            return False
        self._hedges -= 1
        return True

    def count_read(self) -> None:
        """Earn a part of a hedge."""
        self._hedges = min(_MAX_HEDGES, self._hedges + _HEDGES_PER_READ)

    async def probe(self, node: Node, call_next: Send) -> bool:
        """Return whether a node answers at all."""
        node.probed_at = time.monotonic()
        request = node.readdress(httpx.Request("GET", "http://qdrant/readyz"), seconds=_PROBE_SECONDS)
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                ready = (await call_next(request)).status_code < 500
        except (ResponseHandlingException, httpx.HTTPError, TimeoutError):
            ready = False
        if ready:
            self._note_up(node)
        else:
            self.note_down(node)
        return ready

    def _note_up(self, node: Node) -> None:
        if not node.up:
            log.info("index_node_back", node=node.name)
            node.up, node.back_at = True, time.monotonic()
            self._trouble_at = node.back_at

    def _probe_in_background(self, node: Node, call_next: Send) -> None:
        node.probed_at = time.monotonic()

        async def probe() -> None:
            await self.probe(node, call_next)

        task = asyncio.create_task(probe())
        self._background.add(task)
        task.add_done_callback(self._background.discard)


@dataclass(slots=True)
class _Attempts:
    """One request, sent to one node after another, and to two at once where the first is slow."""

    nodes: Nodes
    request: httpx.Request
    call_next: Send
    _running: dict[asyncio.Task[httpx.Response], Node] = field(default_factory=dict)
    _waiting: list[Node] = field(default_factory=list)
    _last: httpx.Response | Exception | None = None
    _waits: int = 0

    async def run(self) -> httpx.Response:
        hedges = is_read(self.request)
        if hedges:
            self.nodes.count_read()
        self._waiting = self.nodes.in_order()
        try:
            while self._running or self._waiting:
                if not self._running:
                    self._start()
                patience = (HEDGE_SECONDS if hedges else _PROBE_SECONDS) if self._waiting else None
                done, _ = await asyncio.wait(self._running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done and self._waiting and await self._is_due(hedges=hedges):
                    self._start()
                for task in done:
                    if self._is_final(task):
                        return _result(self._last)
            return _result(self._last)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _start(self) -> None:
        node = self._waiting.pop(0)
        request = node.readdress(self.request, seconds=self.nodes.seconds(self.request))
        self._running[asyncio.ensure_future(self.call_next(request))] = node

    async def _is_due(self, *, hedges: bool) -> bool:
        """Return whether to send the request to the next node as well."""
        self._waits += 1
        if not hedges:
            return await self._hangs()
        return self._waits * HEDGE_SECONDS >= _PROBE_SECONDS or self.nodes.take_hedge()

    async def _hangs(self) -> bool:
        """Return whether the nodes that a write was sent to do not answer anything."""
        alive = [await self.nodes.probe(node, self.call_next) for node in list(self._running.values())]
        return not any(alive)

    def _is_final(self, task: asyncio.Task[httpx.Response]) -> bool:
        """Keep what a node answered; return whether no other node needs to be asked."""
        node = self._running.pop(task)
        error = task.exception()
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            self.nodes.note_down(node)
            if self._last is None:
                self._last = error
            return False
        response = task.result()
        self._last = response
        if response.status_code >= 500 and response.status_code in _TRANSIENT:
            self.nodes.note_down(node)
        is_transient = response.status_code in _TRANSIENT or (response.status_code == 500 and is_read(self.request))
        if is_transient and (self._waiting or self._running):
            return False
        if response.status_code < 500:
            self.nodes.note_answer(node, passed_over=list(self._running.values()), call_next=self.call_next)
        return True


def is_read(request: httpx.Request) -> bool:
    """Return whether a request changes nothing."""
    return request.method == "GET" or (request.method == "POST" and request.url.path.endswith(_READS))


def _result(outcome: httpx.Response | Exception | None) -> httpx.Response:
    if isinstance(outcome, httpx.Response):
        return outcome
    assert outcome is not None  # noqa: S101 - there is at least one node
    raise outcome
