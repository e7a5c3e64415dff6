"""A stand-in cluster as a process of its own, with a control port for its faults.

`QdrantClusterProcess`, or `python -m tests.support.qdrant.process FOLDER OPTIONS CONTROL_PORT PORT...` (port 0: any),
which prints the ports. The control port takes `POST /faults` (`Order`), `POST /timing`, `POST /optimize`, `GET /nodes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.qdrant.cluster import QdrantCluster, Timing
from tests.support.qdrant.conversion import Body
from tests.support.qdrant.node import Held
from tests.support.qdrant.storage import Options
from tests.support.qdrant_over_edge import ROOT, Faults, listen


@dataclass(frozen=True, kw_only=True)
class Order:
    """A fault of one node: kill, start, hang, resume, slow (`seconds`), misbehave (`faults`), or version."""

    node: int
    action: str
    seconds: float = 0.0
    held: Held = "execute"
    version: str = ""
    faults: dict[str, Any] | None = None


class _Control:
    """The control port: what tests change while clients ask the nodes."""

    def __init__(self, cluster: QdrantCluster) -> None:
        self._cluster = cluster
        self.app = Starlette(
            routes=[
                Route("/faults", self._obey, methods=["POST"]),
                Route("/timing", self._set_timing, methods=["POST"]),
                Route("/optimize", self._optimize, methods=["POST"]),
                Route("/nodes", self._list_nodes),
            ]
        )

    async def _obey(self, request: Request) -> Response:
        order = Order(**await request.json())
        node = self._cluster.nodes[order.node]
        match order.action:
            case "kill" if node.state != "dead":
                await node.kill()
            case "start" if node.state == "dead":
                await node.start(stale_seconds=order.seconds)
            case "hang" if node.state == "alive":
                node.hang()
            case "resume" if node.state == "hanging":
                node.resume(held=order.held, stale_seconds=order.seconds)
            case "slow":
                node.slow_seconds = order.seconds
            case "misbehave":
                node.server.faults = Faults(**(order.faults or {}))
            case "version":
                node.server.options = replace(node.server.options, version=order.version)
            case _:
                return JSONResponse({"error": f"{order.action}: the node is {node.state}"}, 400)
        return await self._list_nodes(request)

    async def _set_timing(self, request: Request) -> Response:
        self._cluster.timing = Timing(**await request.json())
        return JSONResponse(asdict(self._cluster.timing))

    async def _optimize(self, _: Request) -> Response:
        return JSONResponse({"optimized": self._cluster.storage.optimize()})

    async def _list_nodes(self, _: Request) -> Response:
        return JSONResponse([{"url": one.url, "state": one.state, "stale": one.stale} for one in self._cluster.nodes])


async def serve(folder: Path, options: Options, control_port: int, ports: Sequence[int]) -> None:
    """Serve a cluster until SIGTERM; print the control port and the nodes' once all listen."""
    cluster = await QdrantCluster(folder, options, size=len(ports)).start(ports)
    async with contextlib.aclosing(cluster):
        control = listen(control_port)
        numbers = [control.getsockname()[1], *(node.port for node in cluster.nodes)]
        print(*numbers, flush=True)  # noqa: T201
        config = uvicorn.Config(_Control(cluster).app, log_level="critical", lifespan="off", log_config=None)
        await uvicorn.Server(config).serve(sockets=[control])


class QdrantClusterProcess:
    """The cluster as a process of its own; `stop` and `start` again is all nodes at once, on the same ports."""

    def __init__(
        self, folder: Path, options: Options | None = None, *, size: int = 3, timing: Timing | None = None
    ) -> None:
        self.folder = folder
        self.size = size
        self._options = options or Options()
        self._timing = timing or Timing()
        self._ports = [0] * (size + 1)
        self._process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(timeout=300)

    @property
    def urls(self) -> list[str]:
        """Where the nodes listen."""
        return [f"http://127.0.0.1:{port}" for port in self._ports[1:]]

    def start(self) -> Self:
        """Start it and wait until all nodes listen."""
        arguments = [str(self.folder), self._options.to_json(), *map(str, self._ports)]
        command = [sys.executable, "-m", "tests.support.qdrant.process", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._ports = list(map(int, self._process.stdout.readline().split()))
        self.set_timing(self._timing)
        return self

    def stop(self, *, kill: bool = False) -> None:
        """End it: politely, or by SIGKILL."""
        if self._process is not None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait(timeout=10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def kill(self, node: int) -> None:
        """Kill a node: its port refuses connections, open ones are reset."""
        self.order(Order(node=node, action="kill"))

    def revive(self, node: int, *, stale_seconds: float = 0.0) -> None:
        """Start a dead node again; it answers as of its death for some seconds."""
        self.order(Order(node=node, action="start", seconds=stale_seconds))

    def hang(self, node: int) -> None:
        """Let a node accept and read, and answer nothing."""
        self.order(Order(node=node, action="hang"))

    def resume(self, node: int, *, held: Held = "execute", stale_seconds: float = 0.0) -> None:
        """Let a hanging node go on; what was asked of it meanwhile is done late, or dropped."""
        self.order(Order(node=node, action="resume", held=held, seconds=stale_seconds))

    def slow(self, node: int, seconds: float) -> None:
        """Let a node take every request up late; 0 ends that."""
        self.order(Order(node=node, action="slow", seconds=seconds))

    def misbehave(self, node: int, faults: Faults) -> None:
        """Let a node answer wrongly from now on; `Faults()` ends that."""
        self.order(Order(node=node, action="misbehave", faults=asdict(faults)))

    def order(self, order: Order) -> None:
        """Send a fault to the control port."""
        self._control("/faults", asdict(order))

    def set_timing(self, timing: Timing) -> None:
        """Set how long the cluster takes for what it cannot do at once."""
        self._control("/timing", asdict(timing))

    def optimize(self) -> None:
        """Build the graphs that are due."""
        self._control("/optimize", {})

    def is_whole(self) -> bool:
        """Return whether all nodes are alive and none lacks anything."""
        found = self._client.get(f"{self._control_url}/nodes").raise_for_status().json()
        return all(node["state"] == "alive" and not node["stale"] for node in found)

    @property
    def _control_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    def _control(self, path: str, body: Body) -> None:
        self._client.post(f"{self._control_url}{path}", json=body).raise_for_status()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.stop()
        self._client.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Options.of_json(sys.argv[2]), int(sys.argv[3]), list(map(int, sys.argv[4:]))))
