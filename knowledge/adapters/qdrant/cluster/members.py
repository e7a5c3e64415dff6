"""The state of a Qdrant cluster, from what its nodes say about each other and about the replicas of a collection.

`/readyz` is not asked: a node answers there that all shards are ready while the others are dead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from qdrant_client import models

from hardwon.models.maintenance import CollectionHealth
from hardwon.text.pluralize import count_of

_ACTIVE: Final = models.ReplicaState.ACTIVE
_FAILING_FOR: Final = timedelta(seconds=30)
"""A message that could not be sent counts for so long: a node keeps the last one after the other came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The nodes of a cluster by peer id, and those that another could not reach. `known`: the key may ask for them."""

    known: bool = True
    addresses: Mapping[int, str] = field(default_factory=dict)
    dead: frozenset[int] = frozenset()

    @property
    def nodes(self) -> int:
        """Number of nodes; a server that is not part of a cluster is one."""
        return max(1, len(self.addresses))

    @property
    def nodes_or_none(self) -> int | None:
        """Number of nodes, None where it is not known."""
        return self.nodes if self.known else None

    def address(self, peer: int) -> str:
        """Return the address of a node as the others reach it."""
        return self.addresses.get(peer, f"peer {peer}")

    @property
    def dead_addresses(self) -> tuple[str, ...]:
        """The addresses of the dead nodes."""
        return tuple(sorted(map(self.address, self.dead)))


def read_members(status: models.ClusterStatus) -> Members:
    """Return the members of a cluster, as a node reports them."""
    if not isinstance(status, models.ClusterStatusOneOf1):
        return Members()
    addresses = {int(peer): _host(info.uri) for peer, info in status.peers.items()}
    heard = getattr(status.consensus_thread_status, "last_update", None)
    failing = {
        _host(uri)
        for uri, failure in status.message_send_failures.items()
        if _is_recent(failure.latest_error_timestamp, heard)
    }
    dead = frozenset(peer for peer, address in addresses.items() if address in failing and peer != status.peer_id)
    return Members(addresses=addresses, dead=dead)


def _host(uri: str) -> str:
    return urlsplit(uri).netloc or uri.rstrip("/")


def _is_recent(failed_at: date | None, now: datetime | None) -> bool:
    return not isinstance(failed_at, datetime) or now is None or now - failed_at < _FAILING_FOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The replicas of a collection: for each shard by peer whether the replica is live, and the points as far as known.

    `total`: the number of points of all shards, None where no node could tell.
    """

    points: Mapping[int, int] = field(default_factory=dict)
    live: Mapping[int, Mapping[int, bool]] = field(default_factory=dict)
    total: int | None = None

    @property
    def unreadable(self) -> float:
        """Share of the points in shards without a live replica."""
        return self._share([shard for shard in self.live if not self.living(shard)])

    @property
    def at_risk(self) -> float:
        """Share of the points in shards with a single live replica."""
        return self._share([shard for shard in self.live if self.living(shard) == 1]) if self.live else 1.0

    def living(self, shard: int) -> int:
        """Return the number of live replicas of a shard."""
        return sum(self.live[shard].values())

    def _share(self, shards: Collection[int]) -> float:
        """Return the share of the points in these shards; by their number where no node told how many they hold."""
        if self.total and all(shard in self.points for shard in shards):
            return sum(self.points[shard] for shard in shards) / self.total
        return len(shards) / len(self.live) if self.live else 0.0


def read_replicas(info: models.CollectionClusterInfo, members: Members, total: int | None) -> Replicas:
    """Return the replicas of a collection, as a node reports them; those on dead nodes are not live.

    A node calls a replica active until the first write to it has failed.
    """
    live: defaultdict[int, dict[int, bool]] = defaultdict(dict)
    for local in info.local_shards:
        live[local.shard_id][info.peer_id] = local.state == _ACTIVE
    for remote in info.remote_shards:
        live[remote.shard_id][remote.peer_id] = remote.state == _ACTIVE and remote.peer_id not in members.dead
    points = {local.shard_id: local.points_count for local in info.local_shards}
    return Replicas(points=points, live=dict(live), total=total)


def describe_collection(
    name: str, found: models.CollectionInfo, replicas: Replicas, differs: Iterable[str]
) -> CollectionHealth:
    """Return the state of a collection."""
    return CollectionHealth(
        name=name,
        points=found.points_count or 0,
        shards=max(1, len(replicas.live)),
        replicas=found.config.params.replication_factor or 1,
        least_replicas=min(map(replicas.living, replicas.live), default=1),
        unreadable=replicas.unreadable,
        at_risk=replicas.at_risk,
        differs=tuple(differs),
    )


def find_problems(name: str, members: Members, replicas: Replicas) -> list[str]:
    """Return a sentence for each shard of a collection that lacks replicas, and what to do."""
    problems = []
    for shard, peers in sorted(replicas.live.items()):
        gone = sorted(members.address(peer) for peer, lives in peers.items() if not lives)
        if not gone:
            continue
        living, nodes = replicas.living(shard), " and ".join(gone)
        if living:
            problems.append(
                f"shard {shard} of {name} has {living} of {count_of(len(peers), 'replica')} alive: those on"
                f" {nodes} are dead or behind. If one more node dies, up to {replicas.at_risk:.0%} of its points cannot"
                f" be read. Start {nodes}"
            )
        else:
            problems.append(
                f"shard {shard} of {name} has no replica alive, so that nothing can be searched: start {nodes}"
            )
    return problems


def advise(members: Members, health: CollectionHealth) -> list[str]:
    """Return a sentence for each thing that would be better otherwise."""
    advice = []
    if members.nodes > 1 and health.replicas == 1:
        advice.append(
            f"{health.name} has a single replica of each shard: a node that dies or hangs silences everything. Set"
            " HARDWON_QDRANT_REPLICATION=2 and run `hardwon rebuild --layout`"
        )
    elif health.differs:
        advice.append(
            f"{health.name} is not laid out as the settings ask ({'; '.join(health.differs)}): run"
            " `hardwon rebuild --layout`"
        )
    return advice
