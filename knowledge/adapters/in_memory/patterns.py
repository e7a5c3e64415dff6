"""The patterns of a workspace in memory: decisions under one lock, counts from evidence, words, pruning."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from knowledge.adapters.in_memory.state import LONG_AGO, EntryRow, InMemoryState, PatternRow, point_row, trust
from knowledge.errors import NotFound
from knowledge.models import (
    ERROR_CODE,
    ERROR_NAME,
    MAX_CIRCUMSTANCES,
    MAX_RIVALS,
    MAX_WHEN_CHARS,
    MOST_HEARD,
    Circumstance,
    Decision,
    Distilled,
    EmbeddingSpace,
    Entry,
    EntryId,
    EntryStatus,
    Evidence,
    Founder,
    LeaseToken,
    Link,
    LinkKind,
    PatternId,
    PointId,
    PruneReport,
    View,
    fitting,
    pattern_id_of,
)
from knowledge.ports import Deciding, PatternStore

_NEVER_EMBEDDED = {EntryStatus.OPEN, EntryStatus.ABANDONED, EntryStatus.QUARANTINED, EntryStatus.DEAD}
_K = TypeVar("_K")
_V = TypeVar("_V")


class _InMemoryDeciding(Deciding):
    """A transaction: what is written lies in front of the tables until `commit` pours it in."""

    def __init__(self, state: InMemoryState, workspace: str, token: LeaseToken) -> None:
        self._state = state
        self._workspace = workspace
        self._token = token
        self._entries = _in_front_of(state.entries)
        self._patterns = _in_front_of(state.patterns)
        self._points = _in_front_of(state.points)
        self._vectors: dict[tuple[PointId, str], npt.NDArray[np.float16]] = {}
        self._match_keys = _in_front_of(state.match_keys)
        self._links = _in_front_of(state.links)
        self.locked: set[EntryId] = set()

    async def held(self, entry_ids: Sequence[EntryId]) -> Mapping[EntryId, PatternId | None]:
        rows = [row for entry_id in entry_ids if (row := self._mine(entry_id))]
        self.locked.update(row.entry.entry_id for row in rows)
        self._state.locked |= self.locked
        return {row.entry.entry_id: row.entry.pattern_id for row in rows}

    async def patterns_by_key(self, match_keys: Sequence[str]) -> Mapping[str, PatternId]:
        wanted = set(match_keys)
        founded = {
            row.match_key: row.pattern_id
            for row in self._patterns.values()
            if row.workspace == self._workspace and row.match_key in wanted
        }
        keys = {key: self._match_keys.get((self._workspace, key)) for key in wanted}
        return founded | {key: pattern_id for key, pattern_id in keys.items() if pattern_id is not None}

    async def resolutions(self, pattern_ids: Collection[PatternId]) -> Mapping[PatternId, Collection[str]]:
        found: dict[PatternId, set[str]] = {}
        for row in self._entries.values():
            entry, pattern_id = row.entry, row.entry.pattern_id
            told = entry.solution_steps or entry.revision_approach or entry.approved_approach
            if entry.workspace == self._workspace and pattern_id and pattern_id in pattern_ids and told:
                found.setdefault(pattern_id, set()).add(told)
        return found

    async def existing(self, pattern_ids: Collection[PatternId]) -> set[PatternId]:
        rows = (self._patterns.get(pattern_id) for pattern_id in pattern_ids)
        return {row.pattern_id for row in rows if row is not None and row.workspace == self._workspace}

    async def write(
        self, decisions: Sequence[Decision], space: EmbeddingSpace, *, embedded_at: datetime, expires_at: datetime
    ) -> Mapping[PointId, bool]:
        for decision in decisions:
            if decision.founds:
                self._found(decision, embedded_at)
        kept = self._within_limit(decisions)
        for decision in sorted(decisions, key=lambda decided: decided.entry.entry_id):  # the index takes the same one
            for point in decision.points:
                if point.point_id in kept:
                    self._points[point.point_id] = point_row(
                        self._points.get(point.point_id),
                        point,
                        workspace=self._workspace,
                        pattern_id=decision.pattern_id,
                        embedded_at=embedded_at,
                        expires_at=expires_at,
                    )
                    self._vectors.setdefault((point.point_id, space.fingerprint), point.vector.astype(np.float16))
            row = self._mine(decision.entry.entry_id)
            if row is not None:
                self._entries[decision.entry.entry_id] = replace(
                    row,
                    entry=replace(row.entry, pattern_id=decision.pattern_id),
                    point_ids=tuple(point.point_id for point in decision.points if point.point_id in kept),
                )
            if decision.why:
                self._match_keys.setdefault((self._workspace, decision.match_key), decision.pattern_id)
            for link in decision.links:
                self._link(decision.pattern_id, link)
        return {point_id: self._points[point_id].counted for point_id in kept}

    def _link(self, pattern_id: PatternId, link: Link) -> None:
        pair = min(pattern_id, link.pattern_id), max(pattern_id, link.pattern_id)
        known = self._links.get(pair)
        if pattern_id == link.pattern_id or (
            known and (known.kind is LinkKind.APART or known.probability >= link.probability)
        ):
            return
        self._links[pair] = replace(link, pattern_id=pair[1])

    def commit(self) -> None:
        """Make what was written the truth."""
        self._state.entries.update(self._entries.maps[0])
        self._state.patterns.update(self._patterns.maps[0])
        self._state.points.update(self._points.maps[0])
        self._state.vectors.update(self._vectors)
        self._state.match_keys.update(self._match_keys.maps[0])
        self._state.links.update(self._links.maps[0])

    def _mine(self, entry_id: EntryId) -> EntryRow | None:
        row = self._entries.get(entry_id)
        return row if row is not None and row.lease_token == self._token else None

    def _found(self, decision: Decision, founded_at: datetime) -> None:
        pattern = PatternRow(
            pattern_id=decision.pattern_id,
            workspace=self._workspace,
            match_key=decision.match_key,
            founded_at=founded_at,
        )
        self._patterns.setdefault(decision.pattern_id, pattern)

    def _within_limit(self, decisions: Sequence[Decision]) -> set[PointId]:
        there: dict[PatternId, set[PointId]] = {decision.pattern_id: set() for decision in decisions}
        for row in self._points.values():
            if row.pattern_id in there and row.held:
                there[row.pattern_id].add(row.point_id)
        kept: set[PointId] = set()
        for decision in decisions:
            kept.update(point.point_id for point in fitting(decision.points, there[decision.pattern_id]))
        return kept


class InMemoryPatterns(PatternStore):
    """Patterns of one workspace."""

    def __init__(self, state: InMemoryState, workspace: str) -> None:
        self._state = state
        self._workspace = workspace

    @asynccontextmanager
    async def deciding(self, token: LeaseToken) -> AsyncIterator[Deciding]:
        async with self._state.deciding[self._workspace]:
            deciding = _InMemoryDeciding(self._state, self._workspace, token)
            try:
                yield deciding
                deciding.commit()
            finally:
                self._state.locked -= deciding.locked

    async def mark_embedded(
        self,
        token: LeaseToken,
        entry_ids: Sequence[EntryId],
        space: EmbeddingSpace,
        *,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> set[EntryId]:
        async with self._state.deciding[self._workspace]:
            rows = [self._state.entries.get(entry_id) for entry_id in entry_ids]
            in_use = self._state.active_space in {None, space.fingerprint}
            held = [row for row in rows if row is not None and row.lease_token == token and in_use]
            marked = {row.entry.entry_id: row.entry.pattern_id for row in held if row.entry.pattern_id is not None}
            for entry_id in marked:
                self._state.change(
                    entry_id, status=EntryStatus.EMBEDDED, embedded_at=embedded_at, expires_at=expires_at
                )
            self._state.recount(marked.values())
            return set(marked)

    async def bound_to(self, match_key: str) -> PatternId | None:
        return self._state.match_keys.get((self._workspace, match_key))

    async def analyse(self) -> None:
        """Nothing is planned here."""

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        rows = (self._state.points.get(point_id) for point_id in point_ids)
        known = {row.point_id: row.pattern_id for row in rows if row and row.workspace == self._workspace}
        of_pattern = {pattern_id: self._founder(space, pattern_id) for pattern_id in set(known.values())}
        return {point_id: founder for point_id, of in known.items() if (founder := of_pattern[of])}

    def _founder(self, space: EmbeddingSpace, pattern_id: PatternId) -> Founder | None:
        kept = {EntryStatus.EMBEDDED, EntryStatus.STAGED}
        rows = [
            row
            for row in self._state.entries.values()
            if row.entry.pattern_id == pattern_id and row.entry.status in kept and row.point_ids
        ]
        rows.sort(
            key=lambda row: (
                pattern_id_of(self._workspace, row.entry.entry_id) != pattern_id,
                row.entry.captured_at,
                row.entry.entry_id,
            )
        )
        for point_id in rows[0].point_ids if rows else ():
            vector = self._state.vectors.get((point_id, space.fingerprint))
            if self._state.points[point_id].view is View.SITUATION and vector is not None:
                situation = vector.astype(np.float32)
                return Founder(pattern_id=pattern_id, words=rows[0].entry, situation=situation)
        return None

    async def evidence(
        self, point_ids: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> Mapping[PointId, Evidence]:
        rows = (self._state.points.get(point_id) for point_id in point_ids)
        patterns = {row.point_id: row.pattern_id for row in rows if row and row.workspace == self._workspace}
        live = self._live(patterns.values(), now, project_id)
        return {point_id: live[pattern_id] for point_id, pattern_id in patterns.items() if pattern_id in live}

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        live = self._live([pattern_id], now)
        if pattern_id not in live:
            raise NotFound(f"there is no live pattern {pattern_id} in workspace {self._workspace}")
        return live[pattern_id]

    async def page(self, *, after: PatternId | None, limit: int, now: datetime) -> list[Evidence]:
        ours = [row.pattern_id for row in self._state.patterns.values() if row.workspace == self._workspace]
        live = self._live((pattern_id for pattern_id in ours if after is None or pattern_id > after), now)
        return [live[pattern_id] for pattern_id in sorted(live)][:limit]

    def _live(
        self, pattern_ids: Iterable[PatternId], now: datetime, project_id: str | None = None
    ) -> dict[PatternId, Evidence]:
        support: dict[PatternId, list[Entry]] = {pattern_id: [] for pattern_id in pattern_ids}
        for row in self._state.entries.values():
            entry = row.entry
            if entry.workspace == self._workspace and entry.pattern_id in support and _embedded_until(entry) > now:
                support[entry.pattern_id].append(entry)
        live = {
            i: _evidence(self._state.patterns[i], found, project_id, self._rivals(i))
            for i, found in support.items()
            if found
        }
        return {i: replace(evidence, distilled=self._distilled(i, now)) for i, evidence in live.items()}

    def _rivals(self, pattern_id: PatternId) -> tuple[PatternId, ...]:
        rivals = [set(pair) for pair, link in self._state.links.items() if link.kind is LinkKind.RIVAL]
        every = [self._state.patterns[other] for pair in rivals if pattern_id in pair for other in pair - {pattern_id}]
        every.sort(key=lambda each: (-each.success_count, each.founded_at, each.pattern_id))
        return tuple(sorted(each.pattern_id for each in every[:MAX_RIVALS]))

    def _distilled(self, pattern_id: PatternId, now: datetime) -> Distilled | None:
        row = self._state.distillations.get(pattern_id)
        return row.distillation.distilled if row is not None and row.expires_at > now else None

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        async with self._state.deciding[self._workspace]:
            stale = list(islice(self._stale(now), limit))
            of_stale = {self._state.points[point_id].pattern_id for point_id in stale}
            self._state.remove_points(stale)
            noted = self._noted(now)
            expired = list(islice(self._expired(now), limit))
            unresolved = list(islice(self._never_resolved(open_before), limit))
            patterns = self._state.remove([*expired, *unresolved])
            self._state.recount(of_stale)
            return PruneReport(
                entries=len(expired),
                points=len(stale) + len(self._noted(now) - noted),
                patterns=len(patterns),
                never_resolved=len(unresolved),
            )

    async def forget_projects(self, *, limit: int) -> int:
        state = self._state
        told = {(row.entry.workspace or "", row.entry.project_id) for row in state.entries.values()}
        told |= {(row.workspace, row.task.project_id or "") for row in state.contexts.values()}
        told |= {(workspace, project_id) for workspace, _, project_id, *_ in state.outcomes}
        told |= {(workspace, report.project_id or "") for workspace, report in state.checkpoints.values()}
        gone = [each for each in sorted(state.projects - told) if each[0] == self._workspace][:limit]
        state.projects.difference_update(gone)
        return len(gone)

    async def prunable(self, now: datetime, *, open_before: datetime) -> PruneReport:
        expired, unresolved = list(self._expired(now)), list(self._never_resolved(open_before))
        going = {*expired, *unresolved}
        of_entries = {i: row.entry.pattern_id for i, row in self._state.entries.items()}
        staying = {pattern_id for i, pattern_id in of_entries.items() if i not in going}
        lonely = {of_entries[i] for i in going} - staying - {None}
        points = {*self._stale(now), *(i for i, row in self._state.points.items() if row.pattern_id in lonely)}
        points = {point_id for point_id in points if self._state.points[point_id].look_at is None}
        return PruneReport(
            entries=len(expired),
            points=len(points),
            patterns=len(lonely),
            never_resolved=len(unresolved),
            dry_run=True,
        )

    def _noted(self, now: datetime) -> set[PointId]:
        """Return the points that nothing stands behind any more, though they have not expired."""
        rows = [row for row in self._state.points.values() if row.look_at is not None and row.expires_at > now]
        return {row.point_id for row in rows if self._state.behind(row) is None}

    def _stale(self, now: datetime) -> Iterable[PointId]:
        points = self._state.points.items()
        return (i for i, row in points if row.workspace == self._workspace and row.expires_at <= now)

    def _expired(self, now: datetime) -> Iterable[EntryId]:
        entries = (row.entry for row in self._state.entries.values())
        return (
            entry.entry_id
            for entry in entries
            if entry.workspace == self._workspace
            and entry.status is EntryStatus.EMBEDDED
            and _embedded_until(entry) <= now
        )

    def _never_resolved(self, before: datetime) -> Iterable[EntryId]:
        entries = (row.entry for row in self._state.entries.values())
        return (
            entry.entry_id
            for entry in entries
            if entry.workspace == self._workspace and entry.status in _NEVER_EMBEDDED and entry.captured_at < before
        )


def _in_front_of(table: dict[_K, _V]) -> ChainMap[_K, _V]:
    return ChainMap({}, table)


def _embedded_until(entry: Entry) -> datetime:
    """Return until when an entry is evidence; long ago for one that is not embedded."""
    return entry.expires_at or LONG_AGO


def _evidence(
    pattern: PatternRow, live: Iterable[Entry], project_id: str | None, rivals: tuple[PatternId, ...]
) -> Evidence:
    every = sorted(live, key=lambda entry: entry.entry_id)
    latest = sorted(every, key=lambda entry: entry.embedded_at or LONG_AGO, reverse=True)
    trusted = sorted(latest, key=trust, reverse=True)[:MOST_HEARD]  # the first of equals: the latest
    words = trusted[0]
    by_id = sorted(trusted, key=lambda entry: entry.entry_id)
    heard = [entry for entry in by_id if words.low_trust or not entry.low_trust]
    return Evidence(
        pattern_id=pattern.pattern_id,
        entry_type=words.entry_type,
        words=words,
        success_count=pattern.success_count,
        attempt_count=pattern.attempt_count,
        project_count=pattern.project_count,
        founded_at=pattern.founded_at,
        entry_ids=tuple(entry.entry_id for entry in latest if entry in trusted),
        circumstances=_circumstances(by_id),
        conditions=tuple({entry.applies_when: None for entry in heard if entry.applies_when})[:MAX_CIRCUMSTANCES],
        whens=tuple(dict.fromkeys(each.when_to_try[:MAX_WHEN_CHARS] for each in heard if each.when_to_try))[
            :MAX_CIRCUMSTANCES
        ],
        of_project=None if project_id is None else any(entry.project_id == project_id for entry in every),
        when_to_try=next((entry.when_to_try for entry in trusted if entry.when_to_try is not None), None),
        rivals=rivals,
    )


def _circumstances(entries: Sequence[Entry]) -> tuple[Circumstance, ...]:
    counted = Counter(
        (entry.agent_type, entry.technology, entry.task_type, entry.gate_type, _error(entry)) for entry in entries
    )
    # as Postgres sorts: what is not told last
    often = sorted(counted.items(), key=lambda each: (-each[1], *((told is None, told or "") for told in each[0])))
    return tuple(
        Circumstance(
            entries=count,
            agent_type=agent_type,
            technology=technology,
            task_type=task_type,
            gate_type=gate_type,
            error=error,
        )
        for (agent_type, technology, task_type, gate_type, error), count in often[:MAX_CIRCUMSTANCES]
    )


def _error(entry: Entry) -> str | None:
    """Return the name of an error, else its code: of the error message, else the name the failure begins with."""
    message = entry.error_message or ""
    looked_at = (
        (ERROR_NAME, message[:2000]),
        (ERROR_NAME, message[-2000:]),
        (ERROR_CODE, message[:2000]),
        (ERROR_NAME, (entry.failure_description or "")[:200]),
    )
    found = (re.search(pattern, text) for pattern, text in looked_at)
    return next((match.group(1) for match in found if match), None)
