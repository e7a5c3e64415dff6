"""Harm done to an index behind the back of its stores, of every kind that `verify` tells of."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np

from knowledge.models import PointId
from knowledge.wiring.open import Knowledge

_EVERY = 100_000
"""More points than any test has."""


@dataclass(frozen=True, slots=True)
class Damage:
    """How many points were taken out, put in, given another end, given another field or vector."""

    missing: int
    orphan: int
    stale: int
    mismatched: int


async def in_index(knowledge: Knowledge) -> list[PointId]:
    """Return the ids of all points of the workspace, in the order of the index."""
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    return [i for i, _ in await knowledge.stores.index.scan(bound.space, "default", after=None, limit=_EVERY)]


async def damage(knowledge: Knowledge, rng: random.Random, *, points: int, strangers: int) -> Damage:
    """Harm so many points at random, a quarter of them in each way, and add so many that no row has."""
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    index, space = knowledge.stores.index, bound.space
    held = {i: point for i, point in await index.scan(space, "default", after=None, limit=_EVERY) if point is not None}
    chosen = rng.sample(sorted(held), points)
    missing, stale, fields, vectors = (chosen[at::4] for at in range(4))
    await index.delete(space, missing)
    changed = [
        *(replace(held[i], expires_at=held[i].expires_at.replace(year=2099)) for i in stale),
        *(replace(held[i], agent_type="somebody else") for i in fields),
        *(replace(held[i], dense=np.roll(held[i].dense, 1)) for i in vectors),
    ]
    copied = rng.choices(sorted(held), k=strangers)
    orphans = [replace(held[i], point_id=PointId(UUID(int=rng.getrandbits(128), version=4))) for i in copied]
    await index.upsert(space, [*changed, *orphans])
    return Damage(len(missing), strangers, len(stale), len(fields) + len(vectors))
