"""A collection of the stand-in server: shards, each an engine folder of its own, with graphs where they are due."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import qdrant_edge as edge

from tests.support.qdrant.conversion import (
    INDEXES,
    Body,
    Refused,
    json_id,
    refuse_unknown,
    to_filter,
    to_point,
)
from tests.support.qdrant.journal import Journal
from tests.support.qdrant.reading import Part, Reading

_NEVER = 10**9
_CREATED_WITH = ("vectors", "sparse_vectors", "shard_number", "replication_factor", "write_consistency_factor")
_PAGE = 1000


def every_shard(_: int) -> bool:
    """Let a write reach every shard."""
    return True


@dataclass(frozen=True, kw_only=True)
class GraphPolicy:
    """From which size on graphs are built, and when; without it none is, as in a small collection of a server.

    Thresholds are in KB of vectors in a segment, as the server's. `at_once` builds within the write that makes one
    due; otherwise the collection is "yellow" until `optimize` is called. Building holds the interpreter's lock: while
    it runs (11 s for 30,000 x 384), this process does nothing else.
    """

    indexing_threshold_kb: int = _NEVER
    full_scan_threshold_kb: int | None = None
    at_once: bool = False


class Collection:
    """A collection: what it was made with, what it is told since, and its shards."""

    def __init__(self, folder: Path, state: Body, policy: GraphPolicy) -> None:
        self.folder = folder
        self.state = state
        self._policy = policy
        self._operations = int(state.get("operations", 0))
        self._journals: dict[Any, Journal] = {}
        self.optimized = True
        self.shards = [self._open(self.folder / str(number)) for number in range(self.shard_number)]

    @classmethod
    def create(cls, folder: Path, body: Body, policy: GraphPolicy, *, default_shards: int = 1) -> Self:
        """Make a collection as a PUT asks."""
        known = (*_CREATED_WITH, "hnsw_config", "quantization_config", "on_disk_payload", "optimizers_config")
        refuse_unknown(body, *known, "strict_mode_config", "metadata")
        for params in body["vectors"].values():
            refuse_unknown(params, "size", "distance", "on_disk", "hnsw_config", "quantization_config")
        for params in (body.get("sparse_vectors") or {}).values():
            refuse_unknown(params, "index")
        given = {key: value for key, value in body.items() if value is not None}
        folder.mkdir(parents=True)
        made = cls(folder, {"shard_number": default_shards, **given, "schema": {}}, policy)
        made._save()
        return made

    @classmethod
    def load(cls, folder: Path, policy: GraphPolicy) -> Self:
        """Open a collection that an earlier process made."""
        for left in folder.glob("journal-*"):
            shutil.rmtree(left)
        return cls(folder, json.loads((folder / "collection.json").read_text()), policy)

    def close(self) -> None:
        """Flush and close the shards."""
        for shard in self.shards:
            shard.close()
        for key in list(self._journals):
            self.close_journal(key)

    def _save(self) -> None:
        (self.folder / "collection.json").write_text(json.dumps(self.state))

    # What it is made with

    @property
    def shard_number(self) -> int:
        """How many shards it has, for good."""
        return int(self.state["shard_number"])

    @property
    def replication_factor(self) -> int:
        """On how many nodes each shard is."""
        return int(self.state.get("replication_factor", 1))

    @property
    def write_consistency_factor(self) -> int:
        """How many replicas must take a write."""
        return int(self.state.get("write_consistency_factor", 1))

    @property
    def hnsw(self) -> Body:
        """The graph's settings, defaults included."""
        default = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000, "max_indexing_threads": 0}
        return {**default, "on_disk": False, **(self.state.get("hnsw_config") or {})}

    def describe(self) -> Body:
        """Return the collection's state and configuration, in the shape of the server's answer."""
        details = [shard.info() for shard in self.shards]
        params = {key: self.state[key] for key in _CREATED_WITH if key in self.state}
        params |= {
            "replication_factor": self.replication_factor,
            "write_consistency_factor": self.write_consistency_factor,
            "on_disk_payload": self.state.get("on_disk_payload", True),
        }
        schema = {
            name: {
                "data_type": schema["type"],
                "params": schema,
                "points": sum(one.payload_schema[name].points for one in details if name in one.payload_schema),
            }
            for name, schema in self.state["schema"].items()
        }
        config = {
            "params": params,
            "hnsw_config": self.hnsw,
            "optimizer_config": self._optimizer_config(),
            "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0, "wal_retain_closed": 1},
            "quantization_config": self.state.get("quantization_config"),
        }
        optional = ("strict_mode_config", "metadata")
        return {
            "status": "green" if self.optimized else "yellow",
            "optimizer_status": "ok",
            "indexed_vectors_count": sum(one.indexed_vectors_count for one in details),
            "points_count": sum(one.points_count for one in details),
            "segments_count": sum(one.segments_count for one in details),
            "config": config | {key: self.state[key] for key in optional if key in self.state},
            "payload_schema": schema,
            "update_queue": {"length": 0},
        }

    def _optimizer_config(self) -> Body:
        nothing = ("max_segment_size", "memmap_threshold", "max_optimization_threads", "prevent_unoptimized")
        told = {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "indexing_threshold": min(self._policy.indexing_threshold_kb, 10000),
            "flush_interval_sec": 5,
        }
        return {**dict.fromkeys(nothing), **told, **(self.state.get("optimizers_config") or {})}

    def change(self, body: Body) -> None:
        """Take new settings, as a PATCH does; graphs that no longer fit are built anew by `optimize`.

        Quantization that is disabled is told so, but stays: to the engine "none given" means "as before".
        """
        merged = ("hnsw_config", "metadata", "strict_mode_config", "optimizers_config")
        refuse_unknown(body, *merged, "quantization_config", "params", "vectors")
        for key in merged:
            if body.get(key) is not None:
                self.state[key] = {**(self.state.get(key) or {}), **body[key]}
        if body.get("metadata") is not None:
            self.state["metadata"] = {k: v for k, v in self.state["metadata"].items() if v is not None}
        for key, value in (body.get("params") or {}).items():
            self.state[key] = value
        for name, params in (body.get("vectors") or {}).items():
            refuse_unknown(params, "on_disk")
            self.state["vectors"][name] |= params
        if body.get("quantization_config") is not None:
            chosen = body["quantization_config"]
            self.state["quantization_config"] = None if chosen == "Disabled" else chosen
        self._save()
        if body.get("hnsw_config") or body.get("quantization_config") or body.get("vectors"):
            self._reload()
            self._after_change()

    # Graphs

    def optimize(self) -> bool:
        """Build the graphs that are due; return whether there were any."""
        changed = [shard.optimize() for shard in self.shards]
        self.optimized = True
        return any(changed)

    def _after_change(self) -> None:
        if self._policy.indexing_threshold_kb >= _NEVER:
            return
        self.optimized = False
        if self._policy.at_once:
            self.optimize()

    def _reload(self) -> None:
        """Open the shards with the settings of now: the engine compares them with each segment's in `optimize`."""
        for number, shard in enumerate(self.shards):
            shard.close()
            self.shards[number] = self._open(self.folder / str(number))

    def _open(self, folder: Path) -> edge.EdgeShard:
        if (folder / "edge_config.json").exists():
            return edge.EdgeShard.load(str(folder), self._config())
        return edge.EdgeShard.create(str(folder), self._config())

    def _config(self) -> edge.EdgeConfig:
        dense = {
            name: edge.EdgeVectorParams(
                size=params["size"], distance=getattr(edge.Distance, params["distance"]), on_disk=params.get("on_disk")
            )
            for name, params in self.state["vectors"].items()
        }
        hnsw = self.hnsw
        threshold = self._policy.full_scan_threshold_kb
        graph = edge.HnswIndexConfig(
            m=hnsw["m"],
            ef_construct=hnsw["ef_construct"],
            full_scan_threshold=hnsw["full_scan_threshold"] if threshold is None else threshold,
            payload_m=hnsw.get("payload_m"),
        )
        return edge.EdgeConfig(
            vectors=dense,
            sparse_vectors={name: edge.EdgeSparseVectorParams() for name in self.state.get("sparse_vectors") or {}},
            on_disk_payload=self.state.get("on_disk_payload"),
            hnsw_config=graph,
            quantization_config=_quantization(self.state.get("quantization_config")),
            optimizers=edge.EdgeOptimizersConfig(
                indexing_threshold=self._policy.indexing_threshold_kb, default_segment_number=1
            ),
        )

    # Writes

    def create_index(self, name: str, schema: Any) -> int:
        """Make a payload index in each shard."""
        given = {"type": schema} if isinstance(schema, str) else {k: v for k, v in schema.items() if v is not None}
        for shard in self._all_shards():
            shard.update(_index_operation(name, given))
        self.state["schema"][name] = given
        self._save()
        self._after_change()
        return self._number()

    def upsert(self, body: Body, *, into: Callable[[int], bool] = every_shard) -> int:
        """Write points into the shards that they belong to, of those that `into` takes."""
        refuse_unknown(body, "points")
        for number, mine in self._split(body["points"], lambda point: point["id"]).items():
            if into(number):
                self._record(number, [point["id"] for point in mine])
                self.shards[number].update(edge.UpdateOperation.upsert_points([to_point(point) for point in mine]))
        self._after_change()
        return self._number()

    def delete(self, body: Body, *, into: Callable[[int], bool] = every_shard) -> int:
        """Delete points by id or by filter, in the shards that `into` takes."""
        refuse_unknown(body, "filter", "points")
        if body.get("filter") is None:
            ids = self._split(body["points"], lambda one: one)
        else:
            wanted = to_filter(body["filter"])
            ids = {number: list(_ids(shard, wanted)) for number, shard in enumerate(self.shards)}
        for number, mine in ids.items():
            if mine and into(number):
                self._record(number, mine)
                self.shards[number].update(edge.UpdateOperation.delete_points(mine))
        self._after_change()
        return self._number()

    def touched_shards(self, points: list[Any] | None) -> set[int]:
        """Return the shards that a write of points, or a deletion of ids, reaches: all for one by filter."""
        if points is None:
            return set(range(self.shard_number))
        return {self.shard_of(one["id"] if isinstance(one, dict) else one) for one in points}

    def shard_of(self, point_id: Any) -> int:
        """Return the shard that a point belongs to."""
        return zlib.crc32(str(json_id(point_id)).encode()) % self.shard_number

    def _split(self, things: Iterable[Any], id_of: Callable[[Any], Any]) -> dict[int, list[Any]]:
        parts: dict[int, list[Any]] = {}
        for thing in things:
            parts.setdefault(self.shard_of(id_of(thing)), []).append(thing)
        return parts

    def _number(self) -> int:
        self._operations += 1
        return self._operations

    # Reads

    def read(self, journal: Any = None) -> Reading:
        """Return the reads: of now, or of the moment at which a journal was opened."""
        kept = self._journals.get(journal)
        if kept is None:
            return Reading([Part(shard) for shard in self.shards])
        hidden = frozenset(kept.changed)
        return Reading([*(Part(shard, hidden) for shard in self.shards), Part(kept.past)])

    def open_journal(self, key: Any, shards: Iterable[int]) -> None:
        """Keep from now on how the points of some shards were, under a key."""
        if key in self._journals:
            self._journals[key].sealed = False
            return
        folder = self.folder / f"journal-{key}"
        past = self._open(folder)
        for name, schema in self.state["schema"].items():
            past.update(_index_operation(name, schema))
        self._journals[key] = Journal(folder, past, frozenset(shards))

    def close_journal(self, key: Any, *, shards: Iterable[int] | None = None) -> None:
        """Forget how points were: of all shards, or of some of them."""
        journal = self._journals.get(key)
        if journal is None:
            return
        journal.shards -= frozenset(journal.shards if shards is None else shards)
        if journal.shards:
            journal.forget(one for one in list(journal.changed) if self.shard_of(one) not in journal.shards)
            return
        del self._journals[key]
        journal.close()

    def seal_journal(self, key: Any) -> None:
        """Keep how points were, but record no more: each write of such a point from now on heals it."""
        if key in self._journals:
            self._journals[key].sealed = True

    def _all_shards(self) -> list[edge.EdgeShard]:
        return [*self.shards, *(journal.past for journal in self._journals.values())]

    def _record(self, number: int, ids: list[Any]) -> None:
        for journal in self._journals.values():
            if number in journal.shards:
                journal.record(self.shards[number], [json_id(one) for one in ids])


def _index_operation(name: str, schema: Body) -> edge.UpdateOperation:
    params = {key: value for key, value in schema.items() if key != "type"}
    return edge.UpdateOperation.create_field_index(name, INDEXES[schema["type"]](**params))


def _ids(shard: edge.EdgeShard, wanted: edge.Filter | None) -> Iterable[int | str]:
    after = None
    while True:
        page, after = shard.scroll(
            edge.ScrollRequest(limit=_PAGE, offset=after, filter=wanted, with_payload=False, with_vector=False)
        )
        yield from (json_id(record.id) for record in page)
        if after is None:
            return


def _quantization(body: Body | None) -> Any:
    if not body:
        return None
    refuse_unknown(body, "scalar")
    scalar = body["scalar"]
    refuse_unknown(scalar, "type", "quantile", "always_ram")
    if scalar["type"] != "int8":
        raise Refused(400, f"not supported: {scalar}")
    return edge.ScalarQuantizationConfig(
        type=edge.ScalarType.Int8, quantile=scalar.get("quantile"), always_ram=scalar.get("always_ram")
    )
