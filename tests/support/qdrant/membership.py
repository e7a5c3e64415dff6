"""The part of a server that differs on a cluster: who answers, how late, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection as Group
from dataclasses import dataclass

from starlette.requests import Request

from tests.support.qdrant.collection import Collection, every_shard
from tests.support.qdrant.conversion import Body, Refused
from tests.support.qdrant.reading import Reading

PEER_ID = 7996346992896860


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a request fares: how late it is answered, by what refusal if any, and the shards that a write reaches."""

    seconds: float = 0.0
    error: Refused | None = None
    into: Callable[[int], bool] = every_shard


class Membership:
    """A server on its own: it holds every shard and waits for nobody."""

    peer_id = PEER_ID
    default_shards = 1

    async def admit(self, request: Request) -> None:
        """Wait for as long as this server takes no requests up."""

    def readiness(self) -> tuple[int, str]:
        """Return the status and text of /readyz."""
        return 200, "all shards are ready"

    def read(self, collection: Collection) -> Reading:
        """Return the reads of a collection as this server sees it."""
        return collection.read()

    def judge_read(self, name: str, collection: Collection) -> Verdict:
        """Return how a read of all shards fares."""
        return Verdict()

    def judge_write(self, name: str, collection: Collection, touched: Group[int]) -> Verdict:
        """Return how a write to some shards fares."""
        return Verdict()

    def judge_change(self, name: str, *, creates: bool, timeout: int) -> Verdict:
        """Return how a change that all nodes must agree on fares."""
        return Verdict()

    def describe_cluster(self) -> Body:
        """Return what GET /cluster answers."""
        return {"status": "disabled"}

    def describe_placement(self, name: str, collection: Collection) -> Body:
        """Return what GET /collections/{name}/cluster answers."""
        local = [
            {"shard_id": number, "points_count": shard.info().points_count, "state": "Active"}
            for number, shard in enumerate(collection.shards)
        ]
        return {
            "peer_id": self.peer_id,
            "shard_count": collection.shard_number,
            "local_shards": local,
            "remote_shards": [],
            "shard_transfers": [],
        }
