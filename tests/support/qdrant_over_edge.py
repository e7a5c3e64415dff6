"""A Qdrant server for tests: the REST paths that `QdrantServerIndex` uses, over the embedded engine's shards.

In process: `AsyncQdrantClient(url="http://qdrant", transport=httpx.ASGITransport(app=QdrantOverEdge(folder).app))`.
As its own process, shared by any number of clients: `python -m tests.support.qdrant_over_edge FOLDER PORT` (port 0:
any; the port is printed once it listens), or `QdrantProcess`. Faults: `Faults`, in process or by `POST /faults`.
What a request asks beyond this subset is refused with 400, never ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import qdrant_edge as edge
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

ROOT = Path(__file__).resolve().parents[2]
Body = dict[str, Any]


_INDEXES: dict[str, Callable[..., Any]] = {
    "keyword": edge.KeywordIndexParams,
    "datetime": edge.DatetimeIndexParams,
    "integer": edge.IntegerIndexParams,
}


class Refused(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


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


async def _read(request: Request) -> bytes:
    """Return the body; nothing of one whose client was killed."""
    try:
        return await request.body()
    except ClientDisconnect:
        return b""


class QdrantOverEdge:
    """Collections of one folder, served as a Qdrant server does. One instance per folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults = Faults()
        self.requests: list[tuple[str, str]] = []
        self.own_process = False
        folder.mkdir(parents=True, exist_ok=True)
        self.shards = {
            path.parent.name: edge.EdgeShard.load(str(path.parent)) for path in folder.glob("*/edge_config.json")
        }
        self._aliases_file = folder / "aliases.json"
        self.aliases: dict[str, str] = json.loads(self._aliases_file.read_text()) if self._aliases_file.exists() else {}
        self.app = Starlette(routes=[Route(path, self._door(do), methods=[verb]) for verb, path, do in self._routes()])
        self.app.routes.append(Route("/faults", self._set_faults, methods=["POST"]))

    def close(self) -> None:
        """Flush and close every shard."""
        for shard in self.shards.values():
            shard.close()
        self.shards.clear()

    def _routes(self) -> list[tuple[str, str, Callable[[Body, str], Any]]]:
        one = "/collections/{name}"
        return [
            ("GET", "/", lambda _, __: {"title": "qdrant over edge", "version": "1.20.0"}),
            ("GET", "/collections", lambda _, __: {"collections": [{"name": name} for name in sorted(self.shards)]}),
            ("POST", "/collections/aliases", self._change_aliases),
            ("GET", "/aliases", self._list_aliases),
            ("GET", f"{one}/exists", lambda _, name: {"exists": self._real(name) in self.shards}),
            ("GET", one, self._describe),
            ("PUT", one, self._create),
            ("PATCH", one, self._change),
            ("DELETE", one, self._delete_collection),
            ("PUT", f"{one}/index", self._index),
            ("PUT", f"{one}/points", self._upsert),
            ("POST", f"{one}/points", self._retrieve),
            ("POST", f"{one}/points/query", lambda body, name: {"points": self._query([body], name)[0]}),
            ("POST", f"{one}/points/query/batch", self._query_batch),
            ("POST", f"{one}/points/count", self._count),
            ("POST", f"{one}/points/scroll", self._scroll),
            ("POST", f"{one}/points/delete", self._delete_points),
        ]

    def _door(self, do: Callable[[Body, str], Any]) -> Callable[[Request], Any]:
        async def door(request: Request) -> Response:
            self.requests.append((request.method, request.url.path))
            fault = self._due(request.url.path)
            if fault.kind == "hang":
                await asyncio.sleep(fault.seconds)
            if fault.kind in {"hang", "unavailable", "forbidden", "limited"}:
                status = {"forbidden": 403, "limited": 429}.get(fault.kind, 503)
                return JSONResponse({"status": {"error": fault.kind}}, status, {"Retry-After": "3"})
            if fault.kind == "refuse":
                self._refuse()
            raw = await _read(request)
            try:
                result = do(json.loads(raw) if raw else {}, request.path_params.get("name", ""))
            except Refused as no:
                return JSONResponse({"status": {"error": str(no)}}, no.status)
            except Exception as exc:  # noqa: BLE001  the engine raises plain Exception
                return JSONResponse({"status": {"error": f"Wrong input: {exc}"}}, 400)
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            if fault.kind == "broken":
                return Response(b"<html>a proxy says hello</html>", 200)
            if fault.kind == "unfinished" and isinstance(result, dict) and "status" in result:
                result["status"] = "acknowledged"
            return JSONResponse({"result": result, "status": "ok", "time": 0.0})

        return door

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

    async def _set_faults(self, request: Request) -> Response:
        self.faults = Faults(**await request.json())
        return JSONResponse(asdict(self.faults))

    def _real(self, name: str) -> str:
        return self.aliases.get(name, name)

    def _shard(self, name: str) -> edge.EdgeShard:
        try:
            return self.shards[self._real(name)]
        except KeyError:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!") from None

    # Collections

    def _describe(self, _: Body, name: str) -> Body:
        details = self._shard(name).info()
        made = json.loads((self.folder / self._real(name) / "made_with.json").read_text())
        metadata = made.pop("metadata", None)
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000} | made.pop("hnsw_config", {})
        schema = {
            field: {"data_type": str(index.data_type).rpartition(".")[2].lower(), "points": index.points}
            for field, index in details.payload_schema.items()
        }
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": details.points_count,
            "segments_count": details.segments_count,
            "config": {
                "params": made,
                "hnsw_config": hnsw,
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
                "metadata": metadata,
            },
            "payload_schema": schema,
        }

    def _create(self, body: Body, name: str) -> bool:
        if name in self.shards or name in self.aliases:
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        _only(body, "vectors", "sparse_vectors", "hnsw_config", "metadata")
        for params in body["vectors"].values():
            _only(params, "size", "distance")
        for params in body["sparse_vectors"].values():
            _only(params)
        dense = {
            field: edge.EdgeVectorParams(size=params["size"], distance=getattr(edge.Distance, params["distance"]))
            for field, params in body["vectors"].items()
        }
        sparse = {field: edge.EdgeSparseVectorParams() for field in body["sparse_vectors"]}
        optimizers = edge.EdgeOptimizersConfig(indexing_threshold=10**9)
        config = edge.EdgeConfig(vectors=dense, sparse_vectors=sparse, optimizers=optimizers)
        self.shards[name] = edge.EdgeShard.create(str(self.folder / name), config)
        (self.folder / name / "made_with.json").write_text(json.dumps(body))
        return True

    def _change(self, body: Body, name: str) -> bool:
        _only(body, "metadata")
        self._shard(name)
        file = self.folder / self._real(name) / "made_with.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | body))
        return True

    def _delete_collection(self, _: Body, name: str) -> bool:
        shard = self.shards.pop(name, None)
        if shard is None:
            return False
        shard.close()
        shutil.rmtree(self.folder / name)
        self.aliases = {alias: real for alias, real in self.aliases.items() if real != name}
        self._aliases_file.write_text(json.dumps(self.aliases))
        return True

    def _index(self, body: Body, name: str) -> Body:
        schema = {key: value for key, value in body["field_schema"].items() if value is not None}
        make = _INDEXES[schema.pop("type")]
        return self._update(name, edge.UpdateOperation.create_field_index(body["field_name"], make(**schema)))

    def _list_aliases(self, _: Body, __: str) -> Body:
        return {"aliases": [{"alias_name": a, "collection_name": c} for a, c in sorted(self.aliases.items())]}

    def _change_aliases(self, body: Body, _: str) -> bool:
        changed = dict(self.aliases)
        for action in body["actions"]:
            match action:
                case {"delete_alias": {"alias_name": alias}}:
                    changed.pop(alias, None)
                case {"create_alias": {"alias_name": alias, "collection_name": name}}:
                    self._shard(name)
                    changed[alias] = name
                case _:
                    raise Refused(400, f"not supported: {action}")
        self.aliases = changed
        self._aliases_file.write_text(json.dumps(changed))
        return True

    # Points

    def _update(self, name: str, operation: edge.UpdateOperation) -> Body:
        self._shard(name).update(operation)
        return {"operation_id": 0, "status": "completed"}

    def _upsert(self, body: Body, name: str) -> Body:
        _only(body, "points")
        points = [
            edge.Point(point["id"], {key: _vector(value) for key, value in point["vector"].items()}, point["payload"])
            for point in body["points"]
        ]
        return self._update(name, edge.UpdateOperation.upsert_points(points))

    def _retrieve(self, body: Body, name: str) -> list[Body]:
        _only(body, "ids", "with_payload", "with_vector")
        found = self._shard(name).retrieve(body["ids"], body.get("with_payload", True), body.get("with_vector", False))
        return [_record(record) for record in found]

    def _query(self, bodies: list[Body], name: str) -> list[list[Body]]:
        asked = edge.QueryBatchRequest([_request(body) for body in bodies])
        pages = self._shard(name).query_batch(asked)
        return [[{**_record(hit), "score": hit.score, "version": hit.version} for hit in page] for page in pages]

    def _query_batch(self, body: Body, name: str) -> list[Body]:
        _only(body, "searches")
        return [{"points": page} for page in self._query(body["searches"], name)]

    def _count(self, body: Body, name: str) -> Body:
        _only(body, "filter", "exact")
        return {
            "count": self._shard(name).count(edge.CountRequest(exact=body["exact"], filter=_filter(body["filter"])))
        }

    def _scroll(self, body: Body, name: str) -> Body:
        _only(body, "filter", "limit", "offset", "with_payload", "with_vector")
        page, after = self._shard(name).scroll(
            edge.ScrollRequest(
                limit=body["limit"],
                offset=body.get("offset"),
                filter=_filter(body.get("filter")),
                with_payload=body.get("with_payload", True),
                with_vector=body.get("with_vector", False),
            )
        )
        return {"points": [_record(record) for record in page], "next_page_offset": after and str(after)}

    def _delete_points(self, body: Body, name: str) -> Body:
        _only(body, "filter", "points")
        wanted = _filter(body.get("filter"))
        if wanted is not None:
            return self._update(name, edge.UpdateOperation.delete_points_by_filter(wanted))
        return self._update(name, edge.UpdateOperation.delete_points(body["points"]))


def _only(body: Body, *known: str) -> None:
    strange = {key for key, value in body.items() if value is not None and key not in known}
    if strange:
        raise Refused(400, f"not supported: {sorted(strange)}")


def _vector(value: Any) -> Any:
    return edge.SparseVector(value["indices"], value["values"]) if isinstance(value, dict) else value


def _nearest(body: Body) -> edge.Query:
    query = body["query"]
    return edge.Query.Nearest(
        _vector(query.get("nearest", query) if isinstance(query, dict) else query), using=body["using"]
    )


def _request(body: Body) -> edge.QueryRequest:
    _only(body, "prefetch", "query", "using", "filter", "limit", "score_threshold", "with_payload", "with_vector")
    prefetches = []
    for prefetch in body.get("prefetch") or []:
        _only(prefetch, "query", "using", "filter", "limit")
        prefetches.append(
            edge.Prefetch(limit=prefetch["limit"], query=_nearest(prefetch), filter=_filter(prefetch.get("filter")))
        )
    return edge.QueryRequest(
        limit=body["limit"],
        query=_nearest(body),
        prefetches=prefetches,
        filter=_filter(body.get("filter")),
        score_threshold=body.get("score_threshold"),
        with_payload=body.get("with_payload", False),
        with_vector=body.get("with_vector", False),
    )


def _filter(body: Body | None) -> edge.Filter | None:
    if body is None:
        return None
    _only(body, "must", "should", "must_not")

    def all_of(key: str) -> list[edge.ConditionType] | None:
        return None if body.get(key) is None else [_condition(one) for one in body[key]]

    return edge.Filter(must=all_of("must"), should=all_of("should"), must_not=all_of("must_not"))


def _condition(body: Body) -> edge.ConditionType:
    match {key: value for key, value in body.items() if value is not None}:
        case {"key": key, "match": {"value": str() as value}, **rest} if not rest:
            return edge.FieldCondition(key, match=edge.MatchValue(value))
        case {"key": key, "match": {"any": list() as values}, **rest} if not rest:
            return edge.FieldCondition(key, match=edge.MatchAny(values))
        case {"key": key, "range": dict() as bounds, **rest} if not rest:
            given = {bound: value for bound, value in bounds.items() if value is not None}
            numbers = all(isinstance(value, int | float) for value in given.values())
            return edge.FieldCondition(key, range=(edge.RangeFloat if numbers else edge.RangeDateTime)(**given))
        case {"is_empty": {"key": key}}:
            return edge.IsEmptyCondition(key)
        case {"has_id": list() as ids}:
            return edge.HasIdCondition(set(ids))
        case nested if nested.keys() <= {"must", "should", "must_not"}:
            found = _filter(nested)
            assert found is not None
            return found
    raise Refused(400, f"not supported: {body}")


def _record(record: edge.Record | edge.ScoredPoint) -> Body:
    told: Body = {"id": str(record.id), "payload": record.payload}
    if isinstance(record.vector, dict):
        told["vector"] = {
            key: {"indices": value.indices, "values": value.values} if isinstance(value, edge.SparseVector) else value
            for key, value in record.vector.items()
        }
    return told


def serve(folder: Path, port: int) -> None:
    """Serve a folder on loopback until SIGTERM; print the port once it is bound."""
    server = QdrantOverEdge(folder)
    server.own_process = True
    # The protocol must be named: for a socket without it asyncio leaves Nagle's delay on, 40 ms per request.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    print(listening.getsockname()[1], flush=True)  # noqa: T201
    config = uvicorn.Config(server.app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])
    server.close()


class QdrantProcess:
    """The server as a process of its own. `stop` and `start` again for an outage; the port stays the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it listens."""
        command = [sys.executable, "-m", "tests.support.qdrant_over_edge", str(self.folder), str(self.port)]
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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.stop()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
