"""The map of one workspace: made from the vectors of its patterns where they changed, and shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hardwon.event_log import get_logger
from hardwon.models.maps import PatternMap
from hardwon.validation import as_integer
from knowledge.memory.map.groups import MAX_GROUPS, group_places, name_groups
from knowledge.memory.map.projection import lay_out
from knowledge.models import PatternId, Vector
from knowledge.ports import MadeMap, Placed, Stores

log = get_logger(__name__)

MAX_MAPPED: Final = 20_000
"""Patterns with a place, those with the most successes; ours: the nearest neighbours of all take the square of it."""
MAX_MARKS: Final = 10_000
RULES: Final = 1
"""Raised with each change of the layout or the groups, so that maps are made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapService:
    """The map of one workspace."""

    stores: Stores

    async def show(self, *, group: int | None = None, limit: int = 500) -> PatternMap:
        """Return the map: its groups, and marks of one or of all, the most successes first. Raises InvalidInput."""
        limit = as_integer("limit", limit, least=1, most=MAX_MARKS)
        if group is not None:
            group = as_integer("group", group, least=0, most=MAX_GROUPS - 1)
        bound, made = await self.stores.spaces.bound(), await self.stores.maps.find()
        if bound is None or made is None or made.space != bound.space.fingerprint:
            return PatternMap()
        groups = await self.stores.maps.groups(made.terms)
        return PatternMap(
            made_at=made.made_at,
            total=sum(each.patterns for each in groups),
            groups=tuple(groups),
            marks=tuple(await self.stores.maps.marks(group, limit=limit, now=self.stores.clock.now())),
        )

    async def project(self) -> int:
        """Make the map again if points changed since it was made; return the number of patterns placed.

        The computation runs in a thread, in calls that are short where numpy holds the interpreter.
        """
        stores = self.stores
        bound, now = await stores.spaces.bound(), stores.clock.now()
        if bound is None:
            return 0
        points = await stores.maps.state(bound.space, now)
        state, made = f"{RULES} {points}", await stores.maps.find()
        if points is None and made is None:
            return 0
        if made is not None and (made.space, made.state) == (bound.space.fingerprint, state):
            return 0
        vectors = await stores.maps.vectors(bound.space, now, limit=MAX_MAPPED)
        texts = await stores.maps.texts(list(vectors))
        places, terms = await asyncio.to_thread(place_patterns, vectors, texts)
        renewed = MadeMap(space=bound.space.fingerprint, state=state, made_at=stores.clock.now(), terms=terms)
        await stores.maps.replace(renewed, places)
        log.info("map_made", workspace=stores.workspace, patterns=len(places), groups=len(terms))
        return len(places)


def place_patterns(
    vectors: Mapping[PatternId, Vector], texts: Mapping[PatternId, str]
) -> tuple[list[Placed], tuple[tuple[str, ...], ...]]:
    """Return the place and the group of each pattern, and the names of the groups.

    They depend on the vectors and texts alone, not on ids, which differ between two stores of the same.
    """
    if not vectors:
        return [], ()
    ids = sorted(vectors, key=lambda each: (vectors[each].tobytes(), texts.get(each, "")))
    means = np.stack([vectors[each] for each in ids]).astype(np.float32)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.float32(1e-6))
    places = lay_out(means)
    groups = group_places(places)
    placed = [
        Placed(pattern_id=pattern_id, x=float(x), y=float(y), group=int(group))
        for pattern_id, (x, y), group in zip(ids, places, groups, strict=True)
    ]
    return placed, tuple(name_groups([texts.get(each, "") for each in ids], groups))
