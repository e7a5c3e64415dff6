"""A node of a stand-in cluster: a port of its own over the shared storage, and faults of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Collection as Group
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import uvicorn
from starlette.requests import Request

from tests.support.qdrant.collection import Collection
from tests.support.qdrant.conversion import Body
from tests.support.qdrant.membership import Membership, Verdict
from tests.support.qdrant.reading import Reading
from tests.support.qdrant.storage import Options, Storage
from tests.support.qdrant_over_edge import QdrantOverEdge, listen

if TYPE_CHECKING:
    from tests.support.qdrant.cluster import QdrantCluster

State = Literal["alive", "dead", "hanging"]
Held = Literal["execute", "drop"]
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with zero seconds: the connection ends with a reset."""


class Dropped(Exception):
    """A request that is never answered: its connection is gone."""


class _Listener(uvicorn.Server):
    """A server beside others in one process, which leaves signals to the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def reset_connection(self, client: object) -> None:
        """Reset the connection of a client (address and port), or of all for None."""
        for connection in list(cast("set[Any]", self.server_state.connections)):
            if client is None or tuple(connection.client) == client:
                raw = connection.transport.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                connection.transport.abort()

    def die(self) -> None:
        """Close the listening socket, reset every connection, and end every request where it stands."""
        for one in self.servers:
            one.close()
        self.reset_connection(None)
        for task in list(self.server_state.tasks):
            task.cancel()


class _Hold:
    """A time in which a node takes up no request."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.drops = False


class Node(Membership):
    """A node. Dead: connection refused, open ones reset. Hanging: it accepts and reads, and answers nothing."""

    def __init__(self, cluster: QdrantCluster, number: int, peer_id: int, options: Options, storage: Storage) -> None:
        self.cluster = cluster
        self.number = number
        self.peer_id = peer_id
        self.default_shards = cluster.size
        self.server = QdrantOverEdge(Path(storage.folder), options, storage=storage, member=self)
        self.state: State = "dead"
        self.slow_seconds = 0.0
        self.port = 0
        self.stale = False
        self._killed = False
        self._hold: _Hold | None = None
        self._listener: _Listener | None = None
        self._serving: asyncio.Task[None] | None = None
        self._healing: asyncio.TimerHandle | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def uri(self) -> str:
        """Where other nodes would find it: only told, nothing listens there."""
        return f"http://127.0.0.1:{self.port + 2}/"

    # Faults

    async def start(self, *, port: int | None = None, stale_seconds: float = 0.0) -> None:
        """Listen: for the first time, or again after `kill`, with answers of before for some seconds."""
        listening = listen(self.port if port is None else port)
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self.server.app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, log_config=None
        )
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._listener = _Listener(config)
        self._serving = asyncio.create_task(self._listener.serve(sockets=[listening]))
        await self._listener.listens.wait()
        self._come_back(stale_seconds)

    async def kill(self) -> None:
        """End as by SIGKILL: what was asked of it is not answered, and only half of it done."""
        assert self._listener is not None
        assert self._serving is not None
        self._leave("dead")
        self._killed = True
        self._hold = None
        self._listener.die()
        self._serving.cancel()  # it looks only ten times a second whether it should end
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving
        self._listener = self._serving = None

    def hang(self) -> None:
        """Answer nothing any more, as after SIGSTOP."""
        self._leave("hanging")
        self._hold = _Hold()

    def resume(self, *, held: Held = "execute", stale_seconds: float = 0.0) -> None:
        """Go on, as after SIGCONT: what was asked meanwhile is done now, however late, or dropped."""
        assert self._hold is not None
        hold, self._hold = self._hold, None
        hold.drops = held == "drop"
        self._killed = False
        self._come_back(stale_seconds)
        hold.over.set()

    def _leave(self, state: State) -> None:
        self.state = state
        if self._healing is not None:
            self._healing.cancel()
        self.stale = True
        self.cluster.open_journals(self)

    def _come_back(self, stale_seconds: float) -> None:
        self.state = "alive"
        if not stale_seconds:
            self._heal()
            return
        self._healing = asyncio.get_running_loop().call_later(stale_seconds, self._heal)

    def _heal(self) -> None:
        self.stale = self._killed = False
        self.cluster.heal(self)

    # How requests fare

    async def admit(self, request: Request) -> None:
        if self.slow_seconds:
            await asyncio.sleep(self.slow_seconds)
        hold = self._hold
        if hold is None:
            return
        await hold.over.wait()
        if hold.drops:
            assert self._listener is not None
            self._listener.reset_connection(tuple(request.scope["client"]))
            raise Dropped

    def readiness(self) -> tuple[int, str]:
        """Return 503 only after a kill: after a hang a node says that it is ready though it is stale (S15)."""
        return (503, "some shards are not ready") if self.stale and self._killed else (200, "all shards are ready")

    def read(self, collection: Collection) -> Reading:
        return collection.read(self.number)

    def judge_read(self, name: str, collection: Collection) -> Verdict:
        return self.cluster.judge_read(self, name, collection)

    def judge_write(self, name: str, collection: Collection, touched: Group[int]) -> Verdict:
        return self.cluster.judge_write(self, name, collection, touched)

    def judge_change(self, name: str, *, creates: bool, timeout: int) -> Verdict:
        return self.cluster.judge_change(self, name, creates=creates, timeout=timeout)

    def describe_cluster(self) -> Body:
        return self.cluster.describe(self)

    def describe_placement(self, name: str, collection: Collection) -> Body:
        return self.cluster.describe_placement(self, name, collection)
