"""A Qdrant server for tests: the REST paths that `QdrantServerIndex` uses, over the embedded engine's shards.

In process: `AsyncQdrantClient(url="http://qdrant", transport=httpx.ASGITransport(app=QdrantOverEdge(folder).app))`.
As its own process, shared by any number of clients: `python -m tests.support.qdrant_over_edge FOLDER PORT [OPTIONS]`
(port 0: any; the port is printed once it listens; OPTIONS: `Options.to_json`), or `QdrantProcess`.
Faults: `Faults`, in process or by `POST /faults`. Graphs that are due are built by `POST /optimize`.
What a request asks beyond this subset is refused with 400, never ignored. Clusters: `tests.support.qdrant`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.qdrant.collection import Collection, every_shard
from tests.support.qdrant.conversion import Body, Refused
from tests.support.qdrant.limits import check_size, check_strict_mode
from tests.support.qdrant.membership import Membership, Verdict
from tests.support.qdrant.storage import Options, Storage

ROOT = Path(__file__).resolve().parents[2]
_COMMIT = "db8fa43fcb6aedec1e739487e17a99731b74590a"
_ONE = "/collections/{name}"


@dataclass
class Faults:
    """How the server misbehaves from the request after the next `after` on whose path contains `path`.

    `kind` is one of: none; unavailable (503); forbidden (403); limited (429, Retry-After 3); hang (503 after `seconds`,
    nothing done); slow (done, but `seconds` late); broken (200, but no JSON); unfinished (writes are `acknowledged`);
    refuse (no answer: in process a connection error, the server's own process kills itself).
    """

    kind: str = "none"
    seconds: float = 0.0
    after: int = 0
    path: str = "/"


@dataclass(frozen=True)
class Call:
    """A request as the handlers read it."""

    name: str
    body: Body
    waits: bool
    timeout: int
    into: Callable[[int], bool] = every_shard


async def _read(request: Request) -> bytes:
    """Return the body; nothing of one whose client was killed."""
    try:
        return await request.body()
    except ClientDisconnect:
        return b""


class QdrantOverEdge:
    """Collections of one folder, served as a Qdrant server does. One instance per folder, or per node of a cluster."""

    def __init__(
        self,
        folder: Path,
        options: Options | None = None,
        *,
        storage: Storage | None = None,
        member: Membership | None = None,
    ) -> None:
        self.folder = folder
        self.options = options or Options()
        self.storage = storage or Storage(folder, self.options.graphs)
        self.member = member or Membership()
        self.faults = Faults()
        self.requests: list[tuple[str, str]] = []
        self.accepted_encodings: set[str] = set()
        self.own_process = False
        self.app = Starlette(routes=[*self._open_routes(), *self._routes()])

    @property
    def aliases(self) -> dict[str, str]:
        """The aliases and their collections."""
        return self.storage.aliases

    def close(self) -> None:
        """Flush and close every shard."""
        self.storage.close()

    def _open_routes(self) -> list[Route]:
        return [
            Route("/", self._greet),
            Route("/readyz", self._tell_readiness),
            Route("/faults", self._set_faults, methods=["POST"]),
            Route("/optimize", self._optimize, methods=["POST"]),
        ]

    def _routes(self) -> list[Route]:
        rows: list[tuple[str, str, str, Callable[[Call], Any]]] = [
            ("GET", "/collections", "list", lambda _: {"collections": [{"name": n} for n in self._names()]}),
            ("GET", "/cluster", "list", lambda _: self.member.describe_cluster()),
            ("POST", "/collections/aliases", "manage", self._change_aliases),
            ("GET", "/aliases", "list", self._list_aliases),
            ("GET", f"{_ONE}/aliases", "list", self._list_aliases),
            ("GET", f"{_ONE}/exists", "list", lambda call: {"exists": self._exists(call.name)}),
            ("GET", _ONE, "read", lambda call: self._find(call).describe()),
            ("GET", f"{_ONE}/cluster", "list", self._describe_placement),
            ("PUT", _ONE, "create", self._create),
            ("PATCH", _ONE, "manage", self._change),
            ("DELETE", _ONE, "manage", lambda call: self.storage.drop(call.name)),
            ("PUT", f"{_ONE}/index", "index", self._index),
            ("PUT", f"{_ONE}/points", "write", self._upsert),
            ("POST", f"{_ONE}/points", "read", lambda call: self._reading(call).retrieve(call.body)),
            ("POST", f"{_ONE}/points/query", "read", self._query),
            ("POST", f"{_ONE}/points/query/batch", "read", self._query_batch),
            ("POST", f"{_ONE}/points/count", "read", lambda call: self._reading(call).count(call.body)),
            ("POST", f"{_ONE}/points/scroll", "read", lambda call: self._reading(call).scroll(call.body)),
            ("POST", f"{_ONE}/points/delete", "write", self._delete_points),
        ]
        return [Route(path, self._door(kind, do), methods=[verb]) for verb, path, kind, do in rows]

    def _door(self, kind: str, do: Callable[[Call], Any]) -> Callable[[Request], Any]:
        async def door(request: Request) -> Response:
            self.requests.append((request.method, request.url.path))
            self.accepted_encodings.add(request.headers.get("accept-encoding", ""))
            began = time.perf_counter()
            fault = self._due(request.url.path)
            if fault.kind == "hang":
                await asyncio.sleep(fault.seconds)
            if fault.kind in {"hang", "unavailable", "forbidden", "limited"}:
                status = {"forbidden": 403, "limited": 429}.get(fault.kind, 503)
                return JSONResponse({"status": {"error": fault.kind}}, status, {"Retry-After": "3"})
            if fault.kind == "refuse":
                self._refuse()
            raw = await _read(request)
            await self.member.admit(request)
            try:
                result = await self._answer(kind, do, request, raw)
            except Refused as no:
                return _error(no, began)
            except Exception as exc:  # noqa: BLE001  the engine raises plain Exception
                return _error(Refused(400, f"Wrong input: {exc}"), began)
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            if fault.kind == "broken":
                return Response(b"<html>a proxy says hello</html>", 200)
            if fault.kind == "unfinished" and isinstance(result, dict) and "status" in result:
                result["status"] = "acknowledged"
            return self._respond({"result": result, "status": "ok", "time": time.perf_counter() - began}, request)

        return door

    async def _answer(self, kind: str, do: Callable[[Call], Any], request: Request, raw: bytes) -> Any:
        """Check a request, wait for as long as its nodes make it wait, and do it."""
        name, query = request.path_params.get("name", ""), request.query_params
        manages, writes = kind in {"manage", "create"}, kind in {"write", "index"}
        self.options.access.check(request.url.path, request.headers, manages=manages, writes=writes, name=name)
        check_size(len(raw), self.options.max_body_bytes)
        body = json.loads(raw) if raw else {}
        call = Call(name, body, query.get("wait") == "true", int(query.get("timeout", 10)))
        if kind in {"manage", "create", "index"}:
            verdict = self.member.judge_change(name, creates=kind == "create", timeout=call.timeout)
        elif kind == "read":
            verdict = self.member.judge_read(self.storage.real(name), self._find(call))
        else:
            verdict = Verdict()
        if kind in {"read", "write"}:
            state = self._find(call).state
            check_strict_mode(state.get("strict_mode_config"), state["schema"], request.url.path, body)
        if kind == "write":
            return await self._write(call, do)
        await asyncio.sleep(verdict.seconds)
        if verdict.error is not None:
            raise verdict.error
        return do(call)

    async def _write(self, call: Call, do: Callable[[Call], Any]) -> Body:
        """Write into the shards that can be reached, and answer late or in the negative where others cannot."""
        collection = self._find(call)
        touched = collection.touched_shards(call.body.get("points"))
        verdict = self.member.judge_write(self.storage.real(call.name), collection, touched)
        result: Body = do(replace(call, into=verdict.into))
        await asyncio.sleep(verdict.seconds)
        if verdict.error is not None:
            raise verdict.error
        return result

    def _respond(self, body: Body, request: Request) -> Response:
        accepted = request.headers.get("accept-encoding", "")
        if not self.options.compress or "gzip" not in accepted:
            return JSONResponse(body)
        packed = gzip.compress(json.dumps(body).encode())
        return Response(packed, 200, {"Content-Encoding": "gzip"}, "application/json")

    def _refuse(self) -> None:
        if self.own_process:
            os.kill(os.getpid(), signal.SIGKILL)
        raise httpx.ConnectError("connection refused")

    def _due(self, path: str) -> Faults:
        if self.faults.kind == "none" or self.faults.path not in path:
            return Faults()
        if self.faults.after:
            self.faults.after -= 1
            return Faults()
        return self.faults

    # Without a key

    async def _greet(self, request: Request) -> Response:
        self.requests.append((request.method, request.url.path))
        await self.member.admit(request)
        version = self.options.version
        return JSONResponse({"title": "qdrant - vector search engine", "version": version, "commit": _COMMIT})

    async def _tell_readiness(self, request: Request) -> Response:
        await self.member.admit(request)
        status, text = self.member.readiness()
        return Response(text, status, media_type="text/plain")

    async def _set_faults(self, request: Request) -> Response:
        self.faults = Faults(**await request.json())
        return JSONResponse(asdict(self.faults))

    async def _optimize(self, _: Request) -> Response:
        return JSONResponse({"optimized": self.storage.optimize()})

    # Collections

    def _names(self) -> list[str]:
        return sorted(self.storage.collections)

    def _exists(self, name: str) -> bool:
        return self.storage.real(name) in self.storage.collections

    def _find(self, call: Call) -> Collection:
        return self.storage.find(call.name)

    def _describe_placement(self, call: Call) -> Body:
        return self.member.describe_placement(self.storage.real(call.name), self._find(call))

    def _create(self, call: Call) -> bool:
        shards = self.options.default_shards or self.member.default_shards
        self.storage.create(call.name, call.body, default_shards=shards)
        return True

    def _change(self, call: Call) -> bool:
        self._find(call).change(call.body)
        return True

    def _index(self, call: Call) -> Body:
        return _update(call, self._find(call).create_index(call.body["field_name"], call.body["field_schema"]))

    def _list_aliases(self, call: Call) -> Body:
        aliases = [row for row in sorted(self.storage.aliases.items()) if call.name in {"", row[1]}]
        return {"aliases": [{"alias_name": alias, "collection_name": name} for alias, name in aliases]}

    def _change_aliases(self, call: Call) -> bool:
        self.storage.change_aliases(call.body["actions"])
        return True

    # Points

    def _reading(self, call: Call) -> Any:
        return self.member.read(self._find(call))

    def _upsert(self, call: Call) -> Body:
        return _update(call, self._find(call).upsert(call.body, into=call.into))

    def _delete_points(self, call: Call) -> Body:
        return _update(call, self._find(call).delete(call.body, into=call.into))

    def _query(self, call: Call) -> Body:
        return {"points": self._reading(call).query([call.body])[0]}

    def _query_batch(self, call: Call) -> list[Body]:
        return [{"points": page} for page in self._reading(call).query(call.body["searches"])]


def _update(call: Call, number: int) -> Body:
    return {"operation_id": number, "status": "completed" if call.waits else "acknowledged"}


def _error(no: Refused, began: float) -> Response:
    if no.text:
        return Response(str(no).encode(), no.status)
    return JSONResponse({"status": {"error": str(no)}, "time": time.perf_counter() - began}, no.status)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on loopback, at any free port for 0."""
    # The protocol must be named: for a socket without it asyncio leaves Nagle's delay on, 40 ms per request.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    return listening


def serve(folder: Path, port: int, options: Options) -> None:
    """Serve a folder on loopback until SIGTERM; print the port once it is bound."""
    server = QdrantOverEdge(folder, options)
    server.own_process = True
    listening = listen(port)
    print(listening.getsockname()[1], flush=True)  # noqa: T201
    config = uvicorn.Config(server.app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])
    server.close()


class QdrantProcess:
    """The server as a process of its own. `stop` and `start` again for an outage; the port stays the same."""

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.folder = folder
        self._options = options or Options()
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it listens."""
        arguments = [str(self.folder), str(self.port), self._options.to_json()]
        command = [sys.executable, "-m", "tests.support.qdrant_over_edge", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def stop(self, *, kill: bool = False) -> None:
        """End it: politely, or by SIGKILL."""
        if self._process is not None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait(timeout=10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def misbehave(self, faults: Faults) -> None:
        """Let it misbehave from now on; `Faults()` ends that."""
        httpx.post(f"{self.url}/faults", json=asdict(faults)).raise_for_status()

    def optimize(self) -> None:
        """Build the graphs that are due."""
        httpx.post(f"{self.url}/optimize", timeout=300).raise_for_status()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.stop()


if __name__ == "__main__":
    given = Options.of_json(sys.argv[3]) if len(sys.argv) > 3 else Options()
    serve(Path(sys.argv[1]), int(sys.argv[2]), given)
