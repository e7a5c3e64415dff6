"""The points of some shards as they were before they changed: what a node that was away still answers (S15)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import qdrant_edge as edge


class Journal:
    """The ids that changed since it was opened, and those of them that existed then, in an engine folder of its own.

    `sealed`: the node is back, but lacks for good what it missed (S13); a write of the same point heals it.
    """

    def __init__(self, folder: Path, past: edge.EdgeShard, shards: frozenset[int]) -> None:
        self.past = past
        self.shards = shards
        self.changed: set[int | str] = set()
        self.sealed = False
        self._folder = folder

    def record(self, shard: edge.EdgeShard, ids: list[int | str]) -> None:
        """Keep how points are that are about to change; of a sealed journal, forget them."""
        if self.sealed:
            self.forget(ids)
            return
        new: list[Any] = [one for one in ids if one not in self.changed]
        before = shard.retrieve(new, with_payload=True, with_vector=True)
        points = [edge.Point(one.id, one.vector or {}, one.payload or {}) for one in before]
        if points:
            self.past.update(edge.UpdateOperation.upsert_points(points))
        self.changed.update(new)

    def forget(self, ids: Iterable[int | str]) -> None:
        """Show points as they are now."""
        known: list[Any] = [one for one in ids if one in self.changed]
        self.changed.difference_update(known)
        if known:
            self.past.update(edge.UpdateOperation.delete_points(known))

    def close(self) -> None:
        """Delete it."""
        self.past.close()
        shutil.rmtree(self._folder)
