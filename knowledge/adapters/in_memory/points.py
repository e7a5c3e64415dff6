"""What the index is to hold, in memory, and where it may hold something else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from itertools import groupby

import numpy as np

from knowledge.adapters.in_memory.state import DROPPED, LONG_AGO, InMemoryState, PointRow, point_row
from knowledge.errors import SpaceSwitched
from knowledge.models import (
    MAX_POINTS,
    EmbeddingSpace,
    Entry,
    EntryId,
    EntryStatus,
    PointId,
    StoredPoint,
    TextPoint,
    fitting,
)
from knowledge.ports import PointStore, Unsettled


class InMemoryPoints(PointStore):
    """Points of one workspace."""

    def __init__(self, state: InMemoryState, workspace: str) -> None:
        self._state = state
        self._workspace = workspace

    async def known(self, point_ids: Sequence[PointId]) -> set[PointId]:
        return {row.point_id for row in self._ours(point_ids) if self._state.behind(row)}

    async def doubt(self, point_ids: Sequence[PointId]) -> None:
        self._state.doubt(row.point_id for row in self._ours(point_ids))

    async def doubt_all(self) -> int:
        rows = [row for row in self._state.points.values() if row.workspace == self._workspace and row.look_at is None]
        self._state.doubt((row.point_id for row in rows), look_at=DROPPED)
        return len(rows)

    async def fewest(self, space: EmbeddingSpace, now: datetime, *, roughly: bool) -> int:
        rows = [row for row in self._state.points.values() if row.workspace == self._workspace]
        live = sum(row.look_at is None and row.expires_at > now for row in rows)
        return live if roughly else sum(self._must_stand(row, space, now) for row in rows)

    async def standing(
        self, space: EmbeddingSpace, now: datetime, *, after: PointId | None, limit: int
    ) -> dict[PointId, bool]:
        rows = (row for row in self._state.points.values() if row.workspace == self._workspace)
        behind = sorted((row for row in rows if after is None or row.point_id > after), key=lambda row: row.point_id)
        return {row.point_id: self._must_stand(row, space, now) for row in behind[:limit]}

    def _must_stand(self, row: PointRow, space: EmbeddingSpace, now: datetime) -> bool:
        live = row.look_at is None and row.expires_at > now
        kept = (row.point_id, space.fingerprint) in self._state.vectors
        return live and kept and not self._behind(row, EntryStatus.STAGED)

    async def any_learned(self, now: datetime) -> bool:
        rows = (row for row in self._state.points.values() if row.workspace == self._workspace)
        return any(row.expires_at > now and self._behind(row, EntryStatus.EMBEDDED) for row in rows)

    async def overtaken(self, point_ids: Sequence[PointId], embedded_at: datetime) -> int:
        rows = self._ours(point_ids)
        late = [row.point_id for row in rows if row.embedded_at > embedded_at or row.look_at not in {None, DROPPED}]
        self._state.doubt(late)
        return len(late)

    @asynccontextmanager
    async def settling(
        self,
        *,
        now: datetime,
        again_at: datetime,
        limit: int,
        also: Sequence[PointId] = (),
        dropped: bool = True,
    ) -> AsyncIterator[Unsettled]:
        async with self._state.deciding[self._workspace]:
            in_use = self._state.active_space
            if in_use is None:
                yield Unsettled()
                return
            bound = self._state.spaces[in_use]
            due = [
                (row.look_at, row.point_id)
                for row in self._ours(self._state.points)
                if row.look_at is not None and row.look_at <= now and (dropped or row.look_at != DROPPED)
                if not self._behind(row, EntryStatus.STAGED)
            ]
            ids = {*(point_id for _, point_id in sorted(due)[:limit]), *also}
            stored = [self._stored(self._as_its_entries(row), bound.space) for row in self._ours(sorted(ids))]
            found = [each for each in stored if each is not None]
            settled = tuple(each for each in found if not each.pending)
            gone = ids - {each.point_id for each in found}
            spaces = tuple(each.space for each in self._state.spaces.values())
            yield Unsettled(bound=bound, spaces=spaces, stored=settled, gone=tuple(sorted(gone)))
            if self._state.active_space != in_use:
                raise SpaceSwitched("another embedding space came into use meanwhile")
            for each in settled:
                row = self._state.points[each.point_id]
                self._state.points[each.point_id] = replace(
                    row, look_at=None, embedded_at=each.embedded_at, expires_at=each.expires_at
                )
            self._leave(gone, again_at)

    async def out_of_reach(
        self, now: datetime, limit: int, *, without: Collection[EntryId] = (), tries: int | None = None
    ) -> list[Entry]:
        found: list[tuple[int, EntryId, Entry]] = []
        bare = [
            entry
            for entry in self._bare(now)
            if entry.entry_id not in without and (tries is None or entry.attempts < tries)
        ]
        for pattern_id, entries in groupby(bare, key=lambda entry: entry.pattern_id):
            held = sum(row.held for row in self._state.points.values() if row.pattern_id == pattern_id)
            found += [(place, each.entry_id, each) for place, each in enumerate(entries) if place < MAX_POINTS - held]
        return [entry for *_, entry in sorted(found, key=lambda each: each[:2])][:limit]

    async def tried(self, entry_ids: Collection[EntryId]) -> None:
        for each in self._bare(LONG_AGO):
            if each.entry_id in entry_ids:
                self._state.change(each.entry_id, attempts=each.attempts + 1)

    def _bare(self, now: datetime) -> list[Entry]:
        """Return the live entries that no point stands for, by pattern, the latest of each first."""
        mine = [row for row in self._state.entries.values() if row.entry.workspace == self._workspace]
        bare = [row.entry for row in mine if row.entry.status is EntryStatus.EMBEDDED and not row.point_ids]
        live = [entry for entry in bare if (entry.expires_at or LONG_AGO) > now]
        live.sort(key=lambda entry: entry.entry_id)
        live.sort(key=lambda entry: entry.embedded_at or LONG_AGO, reverse=True)
        return sorted(live, key=lambda entry: str(entry.pattern_id))

    async def reach(self, given: Sequence[tuple[Entry, Sequence[TextPoint]]], space: EmbeddingSpace) -> int:
        async with self._state.deciding[self._workspace]:
            if self._state.active_space != space.fingerprint:
                raise SpaceSwitched("another embedding space came into use meanwhile")
            bare = {entry.entry_id: entry for entry in self._bare(LONG_AGO)}
            reached = 0
            for told, texts in given:
                entry = bare.get(told.entry_id)
                if entry is None or entry.pattern_id != told.pattern_id:
                    continue
                rows = (row for row in self._state.points.values() if row.pattern_id == entry.pattern_id and row.held)
                kept = fitting(texts, {row.point_id for row in rows})
                for point in kept:
                    self._stand_for(entry, point, space)
                ids = tuple(point.point_id for point in kept)
                self._state.entries[entry.entry_id] = replace(self._state.entries[entry.entry_id], point_ids=ids)
                reached += bool(kept)
            return reached

    def _stand_for(self, entry: Entry, point: TextPoint, space: EmbeddingSpace) -> None:
        """Write a point of an embedded entry, with its vector, and have the index look at it."""
        if entry.pattern_id is None:  # none that is embedded
            return
        self._state.points[point.point_id] = point_row(
            self._state.points.get(point.point_id),
            point,
            workspace=self._workspace,
            pattern_id=entry.pattern_id,
            embedded_at=entry.embedded_at or LONG_AGO,
            expires_at=entry.expires_at or LONG_AGO,
            look_at=LONG_AGO,
        )
        self._state.vectors[point.point_id, space.fingerprint] = point.vector.astype(np.float16)

    async def count_words(self, counted: Mapping[PointId, Collection[int]]) -> None:
        for row in self._ours(counted):
            if not row.counted:
                self._state.points[row.point_id] = replace(row, counted=True)
                self._state.frequencies[self._workspace].update(counted[row.point_id])
                self._state.documents[self._workspace] += 1

    async def uncounted(self, space: EmbeddingSpace, limit: int) -> list[StoredPoint]:
        rows = [row for _, row in sorted(self._state.points.items()) if not row.counted]
        stored = [self._stored(row, space) for row in self._ours(row.point_id for row in rows)]
        return [each for each in stored if each is not None and each.settled][:limit]

    def _ours(self, point_ids: Iterable[PointId]) -> list[PointRow]:
        rows = (self._state.points.get(point_id) for point_id in point_ids)
        return [row for row in rows if row is not None and row.workspace == self._workspace]

    def _behind(self, point: PointRow, *statuses: EntryStatus) -> list[Entry]:
        entries = (row.entry for row in self._state.entries.values() if point.point_id in row.point_ids)
        return [entry for entry in entries if entry.status in statuses]

    def _as_its_entries(self, point: PointRow) -> PointRow:
        """Return a point with the times of the entries behind it."""
        times = [(each.embedded_at, each.expires_at) for each in self._behind(point, EntryStatus.EMBEDDED)]
        known = [(embedded, expires) for embedded, expires in times if embedded is not None and expires is not None]
        if not known or self._behind(point, EntryStatus.STAGED):
            return point
        embedded_at, expires_at = (max(each) for each in zip(*known, strict=True))
        return replace(point, embedded_at=embedded_at, expires_at=expires_at)

    def _stored(self, point: PointRow, space: EmbeddingSpace) -> StoredPoint | None:
        entry = self._state.behind(point)
        if entry is None:
            return None
        vector = self._state.vectors.get((point.point_id, space.fingerprint))
        return StoredPoint(
            point_id=point.point_id,
            view=point.view,
            entry=entry,
            vector=None if vector is None else vector.astype(np.float32),
            embedded_at=point.embedded_at,
            expires_at=point.expires_at,
            settled=bool(self._behind(point, EntryStatus.EMBEDDED)),
            pending=bool(self._behind(point, EntryStatus.STAGED)),
        )

    def _leave(self, gone: Collection[PointId], again_at: datetime) -> None:
        """Look once more at points that went from the index just now; forget those that went before."""
        rows = self._ours(gone)
        before = [row for row in rows if row.look_at is not None and row.look_at > DROPPED]
        self._state.remove_points(row.point_id for row in before)
        for key in [key for key in self._state.vectors if key[0] in gone]:
            del self._state.vectors[key]
        for row in rows:
            if row not in before:
                self._state.points[row.point_id] = replace(row, look_at=again_at)
        self._state.recount(row.pattern_id for row in before)
