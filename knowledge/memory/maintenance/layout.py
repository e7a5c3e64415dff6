"""A new layout of the index: built beside the one in use from what Postgres holds, and taken into use at once.

Nothing is embedded again, and queries are answered by the old collections until the new ones hold everything. Killed,
it goes on where it was when it is called again, or, after the switch, with the next maintenance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from knowledge.memory.index.points import from_stored
from knowledge.memory.maintenance.verify import KnowledgeUpkeepService
from knowledge.models import BoundSpace, EmbeddingSpace, Point, PointId, StoredPoint
from knowledge.ports import Embedder, Progress
from knowledge.retrieval.reconcile import compare_pages
from knowledge.runtime.scheduling import yield_to_loop

MAX_DURING_SWITCH = 64
"""Points that may remain to be written during the switch, which blocks checkpoints' marks for a minute at most."""
_MAX_PASSES = 20
_PAGE = 256
_LOOK_AGAIN_SECONDS = 2.0

_Report: TypeAlias = Callable[[int], None]


async def build_layout(
    every: Sequence[KnowledgeUpkeepService], bound: BoundSpace, embedder: Embedder, *, progress: Progress | None
) -> BoundSpace:
    """Fill collections of the next layout beside those in use; return their space, which is not in use yet."""
    space = replace(bound.space, layout=bound.space.layout + 1)
    into = replace(bound, space=space)
    index, documents = every[0].stores.index, every[0].documents
    await index.ensure(space, in_use=False)
    total = sum([(await upkeep.upkeep.tally(space))[0] for upkeep in every])
    done = 0

    def report(written: int) -> None:
        nonlocal done
        done += written
        if progress:
            progress(min(done, total), total)

    for _ in range(_MAX_PASSES):
        written = 0
        for upkeep in every:
            written += await _write_missing(upkeep, into, report)
            await upkeep.documents.backfill(space, embedder)
        if written <= MAX_DURING_SWITCH:
            break
    while True:  # switched to sooner, it would be searched exactly or in part
        if await index.is_built(space) and await documents.is_built(space):
            return into
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def write_rest(every: Sequence[KnowledgeUpkeepService], into: BoundSpace) -> None:
    """Write the points that were stored since the last pass; nothing is marked embedded meanwhile."""
    for upkeep in every:
        await _write_missing(upkeep, into, lambda _: None)


async def drop_older_layouts(every: Sequence[KnowledgeUpkeepService], space: EmbeddingSpace) -> None:
    """Drop the collections of the layouts before that of a space."""
    for layout in range(space.layout):
        older = replace(space, layout=layout)
        await every[0].stores.index.drop(older)
        await every[0].documents.leave(older)


async def _write_missing(upkeep: KnowledgeUpkeepService, into: BoundSpace, report: _Report) -> int:
    """Write the points of a workspace that its collection in a space lacks; return their number."""
    stores, space = upkeep.stores, into.space
    after: PointId | None = None
    written = 0
    while True:
        found = await stores.index.ids(space, stores.workspace, after=after, limit=_PAGE)
        wanted = await stores.points.index_membership(space, stores.clock.now(), after=after, limit=_PAGE)
        comparison = compare_pages(found, wanted, page=_PAGE)
        if comparison.missing:
            written += await _write(upkeep, into, comparison.missing, after)
        report(len(wanted))
        if comparison.end is None:
            return written
        after = comparison.end
        await yield_to_loop()


async def _write(
    upkeep: KnowledgeUpkeepService, into: BoundSpace, missing: frozenset[PointId], after: PointId | None
) -> int:
    """Write some of the points that come after an id."""
    left, written = set(missing), 0
    while left and (page := await upkeep.upkeep.points(into.space, after=after, limit=_PAGE)):
        chosen = [stored for stored in page if stored.point_id in left and stored.settled]
        points = await asyncio.to_thread(_to_points, upkeep.stores.workspace, into, chosen)
        await upkeep.stores.index.upsert(into.space, points)
        left.difference_update(stored.point_id for stored in page)
        written += len(points)
        after = page[-1].point_id
    return written


def _to_points(workspace: str, into: BoundSpace, stored: Sequence[StoredPoint]) -> list[Point]:
    return [
        from_stored(each, each.vector, workspace=workspace, mean_terms=into.mean_terms)
        for each in stored
        if each.vector is not None
    ]
