"""A cluster of stand-in nodes in one process, over one storage: what the replicas hold while at least one lives.

`async with QdrantCluster(folder) as cluster`, then `cluster.urls`, `await cluster.nodes[0].kill()`; as a process of its
own: `tests.support.qdrant.process`. Answers are those of a real cluster (`../shared/cases/qdrant`, findings S7 to S16),
its times are nil unless `Timing` says otherwise.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection as Group
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from tests.support.qdrant.collection import Collection
from tests.support.qdrant.conversion import Body, Refused
from tests.support.qdrant.membership import Verdict
from tests.support.qdrant.node import Node
from tests.support.qdrant.storage import Options, Storage


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How many seconds the cluster takes for what it cannot do at once.

    create: making a collection with a node absent. first_write: the first write to replicas of a dead node, and of a
    hanging one. lost_read: a read of a shard whose replicas are all dead, or hang; lost_write: a write without a
    majority. consensus: a change without one, at most the request's `timeout`. settle: the time after a collection was
    made in which other nodes cannot read it (S16).
    """

    create: float = 0.0
    first_write: float = 0.0
    first_write_hanging: float = 0.0
    lost_read: float = 0.0
    lost_read_hanging: float = 0.0
    lost_write: float = 0.0
    consensus: float = 0.0
    settle: float = 0.0


MEASURED = Timing(
    create=11.0,
    first_write=0.7,
    first_write_hanging=9.5,
    lost_read=0.43,
    lost_read_hanging=9.4,
    lost_write=30.5,
    consensus=60.0,
    settle=0.3,
)
"""Of a real cluster of three (S7, S9, S14), but for `settle`, which was not measured."""

_REFUSED_CONNECTION = (
    "code: 'The service is currently unavailable', message: \"tcp connect error\", source: tonic::transport::Error("
    'Transport, ConnectError(ConnectError("tcp connect error", {address}, Os {{ code: 111, kind: ConnectionRefused, '
    'message: "Connection refused" }})))'
)
_NO_TRANSPORT = (
    "code: 'The service is currently unavailable', message: \"Failed to connect to {uri}, error: transport error\""
)
_IN_CHANNEL = "Error in closure supplied to transport channel pool: "
_EXPIRED = "code: 'The operation was cancelled', message: \"Timeout expired\""
"""Ours: no case file has the message of a node that hangs."""


def _send_error(node: Node, *, majority: bool) -> str:
    if node.state == "hanging":
        return _EXPIRED
    address = node.uri.removeprefix("http://").removesuffix("/")
    return (_REFUSED_CONNECTION if majority else _NO_TRANSPORT).format(address=address, uri=node.uri)


class QdrantCluster:
    """Nodes over one storage. Shard s has its replicas on the nodes s, s+1, ..., as many as its replication factor."""

    def __init__(
        self, folder: Path, options: Options | None = None, *, size: int = 3, timing: Timing | None = None
    ) -> None:
        self.size = size
        self.timing = timing or Timing()
        self.options = options or Options()
        self.storage = Storage(folder, self.options.graphs)
        self.nodes = [
            Node(self, number, _peer_id(folder, number), self.options, self.storage) for number in range(size)
        ]
        self._dead: set[tuple[str, int, int]] = set()
        self._lacking: set[tuple[str, int, int]] = set()
        self._made: dict[str, tuple[float, int]] = {}
        self._commit = 1

    async def start(self, ports: Sequence[int] = ()) -> Self:
        """Let every node listen."""
        for number, node in enumerate(self.nodes):
            await node.start(port=ports[number] if ports else None)
        return self

    async def aclose(self) -> None:
        """End every node and close the storage."""
        for node in self.nodes:
            if node.state == "hanging":
                node.resume(held="drop")
            if node.state != "dead":
                await node.kill()
        self.storage.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def urls(self) -> list[str]:
        """Where the nodes listen."""
        return [node.url for node in self.nodes]

    # Replicas

    def holders(self, collection: Collection, shard: int) -> list[Node]:
        """Return the nodes with a replica of a shard."""
        count = min(collection.replication_factor, self.size)
        return [self.nodes[(shard + replica) % self.size] for replica in range(count)]

    def has_majority(self) -> bool:
        """Return whether changes can be agreed on."""
        return 2 * sum(node.state == "alive" for node in self.nodes) > self.size

    def open_journals(self, node: Node) -> None:
        """Keep how the points are that a node holds when it goes away."""
        for collection in self.storage.collections.values():
            local = [shard for shard in range(collection.shard_number) if node in self.holders(collection, shard)]
            if local:
                collection.open_journal(node.number, local)

    def heal(self, node: Node) -> None:
        """Give a node that is back what it missed, but for what the cluster never noticed that it lacks (S13)."""
        self._dead = {one for one in self._dead if one[2] != node.number}
        for name, collection in self.storage.collections.items():
            lacking = {shard for where, shard, number in self._lacking if (where, number) == (name, node.number)}
            collection.close_journal(node.number, shards=set(range(collection.shard_number)) - lacking)
            collection.seal_journal(node.number)

    # How requests fare

    def judge_read(self, node: Node, name: str, collection: Collection) -> Verdict:
        """Refuse a read while a shard has no living replica, or other nodes do not know the collection yet."""
        made, maker = self._made.get(name, (0.0, node.number))
        if maker != node.number and time.monotonic() < made + self.timing.settle:
            return Verdict(error=Refused(500, "Service internal error: 0 of 0 read operations failed"))
        for shard in range(collection.shard_number):
            holders = self.holders(collection, shard)
            if all(one.state != "alive" for one in holders):
                absent = next((one for one in holders if one.state == "hanging"), holders[0])
                hangs = absent.state == "hanging"
                cause = f"Service internal error: Tonic status error: {_send_error(absent, majority=True)}"
                error = Refused(500, f"Service internal error: 1 of 1 read operations failed:\n  {cause}")
                return Verdict(seconds=self.timing.lost_read_hanging if hangs else self.timing.lost_read, error=error)
        return Verdict()

    def judge_write(self, _: Node, name: str, collection: Collection, touched: Group[int]) -> Verdict:
        """Let a write reach the shards with a living replica; mark the replicas that missed it, where a majority can.

        Without a majority, or where fewer replicas live than must take it, the write is refused though it was made.
        """
        absent = {
            (name, shard, one.number): one
            for shard in touched
            for one in self.holders(collection, shard)
            if one.state != "alive"
        }
        living = {shard for shard in touched if any(one.state == "alive" for one in self.holders(collection, shard))}
        unmarked = {key: one for key, one in absent.items() if key not in self._dead}
        majority = self.has_majority()
        failed = (set(touched) - living) | ({shard for _, shard, _ in unmarked} if not majority else set())
        if majority:
            for shard in living:
                left = sum(one.state == "alive" for one in self.holders(collection, shard))
                needed = min(collection.write_consistency_factor, len(self.holders(collection, shard)))
                if left < needed:
                    failed.add(shard)
                    self._lacking |= {key for key in unmarked if key[1] == shard}
        if failed:
            first = _send_error(next(iter(unmarked.values()), None) or next(iter(absent.values())), majority=False)
            text = (
                f"Service internal error: {len(failed)} out of {len(touched)} shards failed to apply operation. "
                f"First error captured: Service internal error: Tonic status error: {first}"
            )
            seconds = self.timing.lost_read if majority else self.timing.lost_write
            return Verdict(seconds=seconds, error=Refused(500, text), into=living.__contains__)
        self._dead |= set(unmarked)
        seconds = 0.0
        if unmarked:
            hangs = any(one.state == "hanging" for one in unmarked.values())
            seconds = self.timing.first_write_hanging if hangs else self.timing.first_write
        return Verdict(seconds=seconds)

    def judge_change(self, node: Node, name: str, *, creates: bool, timeout: int) -> Verdict:
        """Refuse a change without a majority; making a collection with a node absent takes its time."""
        if not self.has_majority():
            text = "Service internal error: Waiting for consensus operation commit failed. "
            error = Refused(500, f"{text}Timeout set at: {timeout} seconds")
            return Verdict(seconds=min(self.timing.consensus, timeout), error=error)
        self._commit += 1
        if not creates:
            return Verdict()
        seconds = 0.0 if all(one.state == "alive" for one in self.nodes) else self.timing.create
        if name not in self.storage.collections:
            self._made[name] = (time.monotonic() + seconds, node.number)
            self._dead = {one for one in self._dead if one[0] != name}
            self._lacking = {one for one in self._lacking if one[0] != name}
        return Verdict(seconds=seconds)

    # What it tells of itself

    def describe(self, node: Node) -> Body:
        """Return what GET /cluster answers at a node."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        majority = self.has_majority()
        leader = next((one for one in self.nodes if one.state == "alive"), node)
        failures = {
            one.uri: {
                "count": 16,
                "latest_error": _IN_CHANNEL + _send_error(one, majority=majority),
                "latest_error_timestamp": now,
            }
            for one in self.nodes
            if one.state != "alive"
        }
        return {
            "status": "enabled",
            "peer_id": node.peer_id,
            "peers": {str(one.peer_id): {"uri": one.uri} for one in self.nodes},
            "raft_info": {
                "term": 1,
                "commit": self._commit,
                "pending_operations": 0,
                "leader": leader.peer_id,
                "role": "Leader" if leader is node else "Follower",
                "is_voter": True,
            },
            "consensus_thread_status": {"consensus_thread_status": "working", "last_update": now},
            "message_send_failures": failures,
        }

    def describe_placement(self, node: Node, name: str, collection: Collection) -> Body:
        """Return what GET /collections/{name}/cluster answers at a node.

        A replica is "Dead" from the first write that it missed on, not from the moment its node died; one that is being
        healed is "Partial".
        """
        local: list[Body] = []
        remote: list[Body] = []
        for shard in range(collection.shard_number):
            for one in sorted(self.holders(collection, shard), key=lambda holder: holder.peer_id):
                state = "Active"
                if (name, shard, one.number) in self._dead:
                    state = "Partial" if one.state == "alive" else "Dead"
                if one is node:
                    count = collection.shards[shard].info().points_count
                    local.append({"shard_id": shard, "points_count": count, "state": state})
                else:
                    remote.append({"shard_id": shard, "peer_id": one.peer_id, "state": state})
        return {
            "peer_id": node.peer_id,
            "shard_count": collection.shard_number,
            "local_shards": local,
            "remote_shards": remote,
            "shard_transfers": [],
        }


def _peer_id(folder: Path, number: int) -> int:
    digest = hashlib.sha256(f"{folder.resolve()}/{number}".encode()).digest()
    return int.from_bytes(digest[:6], "big") + 10**15
