"""Three accounts of the same knowledge, compared: what was acknowledged, what Postgres holds, what the index holds.

What ought to be is worked out here again from the words of the entries alone, without the code that is examined.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory_tables import knowledge_staging, outcomes, patterns, points
from knowledge.models import MAX_POINTS, EntryId, PointId
from knowledge.wiring.open import Knowledge
from tests.faults.model import Heard, counted
from tests.support.stores import counted as counted_rows
from tests.support.stores import of_counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was found: sentences about what is lost, doubled or otherwise wrong, none where all is well.

    `stale` points are there, once, but with an older expiry or the filter fields of an older entry.
    """

    acknowledged: int
    embedded: int
    points: int
    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    stale: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing was lost, doubled or wrong."""
        return not (self.lost or self.doubled or self.wrong)

    @property
    def sound(self) -> bool:
        """Whether the index is exactly what Postgres says, besides."""
        return self.complete and not self.stale

    def __str__(self) -> str:
        """Say it in a line, with up to five sentences on what is wrong."""
        counts = f"{len(self.lost)} lost, {len(self.doubled)} doubled, {len(self.wrong)} wrong, {self.stale} stale"
        said = "; ".join((*self.lost, *self.doubled, *self.wrong)[:5])
        return f"{self.acknowledged} acknowledged, {self.points} points: {counts}{f' ({said})' if said else ''}"


async def examine(
    knowledge: Knowledge,
    acknowledged: Collection[EntryId],
    *,
    deleted: Collection[EntryId] = (),
    abandoned: Collection[EntryId] = (),
) -> Truth:
    """Compare all accounts once every checkpoint is done; what was deleted must be gone, or abandoned left out."""
    rows = await _rows(knowledge)
    ids = {row["id"] for row in rows}
    lost = [f"{i} was acknowledged and is gone" for i in acknowledged if i not in ids and i not in set(deleted)]
    wrong = [f"{i} was deleted and is back" for i in deleted if i in ids]
    wrong += [
        f"{row['id']} was abandoned and is {row['status']}"
        for row in rows
        if row["id"] in set(abandoned) and row["status"] != "abandoned"
    ]
    lost += [f"{row['id']} is still {row['status']}" for row in rows if row["status"] == "staged"]
    embedded = [row for row in rows if row["status"] == "embedded"]
    expected = _expected(embedded)
    found = await _found(knowledge)
    stored = await _stored_points(knowledge)
    keys = Counter(_key(row) for row in {row["pattern_id"]: row for row in embedded}.values())
    doubled = [f"{number} patterns say the same" for number in keys.values() if number > 1]
    for pattern_id, texts in expected.items():
        have = len(stored.get(pattern_id, ()))
        if have != len(texts):
            (lost if have < len(texts) else doubled).append(f"{pattern_id} has {have} points for {len(texts)} texts")
    named = {point for row in embedded for point in row["point_ids"]}
    known = {point for of_pattern in stored.values() for point in of_pattern}
    lost += [f"point {i} is not in the index" for i in (named | known) - found - await _expired_points(knowledge)]
    doubled += [f"point {i} is in the index and stands for nothing" for i in found - (named & known)]
    wanted = sum(map(len, expected.values()))
    if len(found) > wanted:
        doubled.append(f"{len(found)} points for {wanted} texts")
    wrong += await _counts_that_differ(knowledge, embedded)
    kept, told = await of_counters(knowledge.engine), await counted_rows(knowledge.engine)
    wrong += [f"the counters differ from the counts: {sorted(kept.items() ^ told.items())}"] if kept != told else []
    wrong += await _expiries_that_differ(knowledge, embedded)
    report = await knowledge.upkeep.verify()
    wrong += report.seals.problems if report.seals is not None else ()
    if report.missing or report.orphan:
        wrong.append(f"verify says {report}")
    return Truth(
        acknowledged=len(acknowledged),
        embedded=len(embedded),
        points=len(found),
        lost=tuple(lost),
        doubled=tuple(doubled),
        wrong=tuple(wrong),
        stale=report.stale + report.mismatched - report.repaired,
    )


async def lost_by_a_kill(knowledge: Knowledge) -> tuple[str, ...]:
    """Say which points of marked entries the index lacks without a note."""
    return tuple(f"point {i} of a marked entry was not in the index" for i in await lacking_points(knowledge))


async def lacking_points(knowledge: Knowledge) -> set[PointId]:
    """Return the points of marked entries that the index lacks without a note: to be asked before anybody counts."""
    row = knowledge_staging.c
    marked = sa.exists().where(row.status == "embedded", points.c.id == sa.any_(row.point_ids))
    live = (points.c.look_at.is_(None), points.c.expires_at > knowledge.stores.clock.now())
    query = sa.select(points.c.id).where(points.c.workspace == knowledge.workspace, *live, marked)
    async with autocommit(knowledge.engine) as connection:
        expected = set((await connection.execute(query)).scalars())
    return expected - await _found(knowledge)


async def _rows(knowledge: Knowledge) -> list[dict[str, Any]]:
    query = sa.select(knowledge_staging).where(knowledge_staging.c.workspace == knowledge.workspace)
    async with autocommit(knowledge.engine) as connection:
        return [dict(row) for row in (await connection.execute(query)).mappings()]


async def _stored_points(knowledge: Knowledge) -> dict[Any, set[PointId]]:
    # one that is to be looked at again is gone already, and remembered only for what may yet bring it back
    query = sa.select(points.c.id, points.c.pattern_id).where(
        points.c.workspace == knowledge.workspace, points.c.look_at.is_(None)
    )
    found: dict[Any, set[PointId]] = defaultdict(set)
    async with autocommit(knowledge.engine) as connection:
        for row in await connection.execute(query):
            found[row.pattern_id].add(row.id)
    return found


async def _expired_points(knowledge: Knowledge) -> set[PointId]:
    """Return the points that the index need not have any more."""
    query = sa.select(points.c.id).where(points.c.expires_at <= knowledge.stores.clock.now())
    async with autocommit(knowledge.engine) as connection:
        return {PointId(found) for found in (await connection.execute(query)).scalars()}


async def _found(knowledge: Knowledge) -> set[PointId]:
    """Return the ids of all points of the workspace in the index."""
    bound = await knowledge.stores.spaces.bound()
    if bound is None:
        return set()
    await knowledge.stores.index.ensure(bound.space)
    found: set[PointId] = set()
    after: PointId | None = None
    while page := await knowledge.stores.index.scan(bound.space, knowledge.workspace, after=after, limit=1000):
        found.update(point_id for point_id, _ in page)
        after = page[-1][0]
    return found


async def _expiries_that_differ(knowledge: Knowledge, embedded: list[dict[str, Any]]) -> list[str]:
    """Return which points do not expire with the last of their entries."""
    last: dict[Any, Any] = {}
    for row in embedded:
        for point in row["point_ids"]:
            last[point] = max(last.get(point, row["expires_at"]), row["expires_at"])
    async with autocommit(knowledge.engine) as connection:
        rows = await connection.execute(sa.select(points.c.id, points.c.expires_at))
        return [
            f"point {row.id} expires at {row.expires_at}, its last entry at {last[row.id]}"
            for row in rows
            if row.id in last and row.expires_at != last[row.id]
        ]


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).casefold()


def _situation(row: dict[str, Any]) -> str:
    match row["entry_type"]:
        case "failure_solution":
            return "\n".join(filter(None, (row["failure_description"], row["error_message"])))
        case "gate_rejection":
            return "\n".join(filter(None, (row["proposal"], row["human_feedback"])))
        case _:
            return str(row["proposal"] or row["task_description"])


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    solved = row["solution_steps"] or row["revision_approach"] or row["approved_approach"]
    return str(row["entry_type"]), _plain(_situation(row)), _plain(solved)


def _expected(embedded: list[dict[str, Any]]) -> dict[Any, set[tuple[str, str]]]:
    """Return the distinct texts of each pattern."""
    texts: dict[Any, set[tuple[str, str]]] = defaultdict(set)
    for row in embedded:
        told = [("situation", _plain(_situation(row)))]
        if row["task_description"] and _plain(row["task_description"]) != told[0][1]:
            told.append(("task", _plain(row["task_description"])))
        of_pattern = texts[row["pattern_id"]]
        of_pattern.update(text for text in told if len(of_pattern | {text}) <= MAX_POINTS)
    return texts


async def _counts_that_differ(knowledge: Knowledge, embedded: list[dict[str, Any]]) -> list[str]:
    """Return where a pattern's counts are not those of its entries and outcomes."""
    heard: dict[Any, list[Heard]] = defaultdict(list)
    for row in embedded:
        run = (row["project_id"], row["task_id"] or str(row["id"]), row["run_id"] or row["content_hash"])
        key_id = row["agent_key"] if row["low_trust"] else None
        heard[row["pattern_id"]].append(Heard(run=run, worked=True, at=row["timestamp"], key_id=key_id))
    said = []
    async with autocommit(knowledge.engine) as connection:
        told = sa.select(outcomes).where(outcomes.c.workspace == knowledge.workspace)
        for each in await connection.execute(told):
            key_id = each.recorded_by if each.low_trust else None
            run = (each.project_id, each.task_id, each.run_id)
            if each.pattern_id in heard:  # without an entry they count for nothing
                heard[each.pattern_id].append(Heard(run=run, worked=each.worked, at=each.recorded_at, key_id=key_id))
        query = sa.select(patterns).where(patterns.c.workspace == knowledge.workspace)
        for pattern in await connection.execute(query):
            true = counted(heard[pattern.id])
            counts = (pattern.success_count, pattern.attempt_count, pattern.project_count)
            if counts != true:
                said.append(f"{pattern.id} counts {counts}, truth {true}")
    return said
