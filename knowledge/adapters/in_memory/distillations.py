"""What a model wrote of the patterns of a workspace, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

from knowledge.adapters.in_memory.state import LONG_AGO, DistillationRow, InMemoryState, trust
from knowledge.models import Distillation, Entry, EntryStatus, PatternId
from knowledge.ports import DistillationStore, Undistilled


class InMemoryDistillations(DistillationStore):
    """Distillations of one workspace."""

    def __init__(self, state: InMemoryState, workspace: str) -> None:
        self._state = state
        self._workspace = workspace

    @asynccontextmanager
    async def distilling(self) -> AsyncIterator[bool]:
        if self._workspace in self._state.distilling:
            yield False
            return
        self._state.distilling.add(self._workspace)
        try:
            yield True
        finally:
            self._state.distilling.remove(self._workspace)

    async def due(self, model: str, *, now: datetime, least: int, grown: int) -> list[Undistilled]:
        evidence: dict[PatternId, int] = {}
        for entry in self._live(now):
            if entry.pattern_id is not None:
                evidence[entry.pattern_id] = evidence.get(entry.pattern_id, 0) + 1

        def wanting(pattern_id: PatternId, number: int) -> bool:
            row = self._state.distillations.get(pattern_id)
            if row is None or row.expires_at <= now or number >= grown * row.distillation.evidence:
                return True
            return row.distillation.refused is not None and row.distillation.model != model

        due = [(number, i) for i, number in evidence.items() if number >= least and wanting(i, number)]
        ordered = sorted(due, key=lambda each: (-each[0], each[1]))
        return [Undistilled(pattern_id=pattern_id, evidence=number) for number, pattern_id in ordered]

    async def material(self, pattern_id: PatternId, *, now: datetime, limit: int) -> list[Entry]:
        found = [entry for entry in self._live(now) if entry.pattern_id == pattern_id]
        found.sort(key=lambda entry: entry.entry_id)
        found.sort(key=lambda entry: (trust(entry), entry.embedded_at or LONG_AGO), reverse=True)
        return found[:limit]

    async def keep(self, distillation: Distillation) -> bool:
        async with self._state.deciding[self._workspace]:
            entries = {entry.entry_id: entry for entry in self._live(LONG_AGO)}
            sources = [entries.get(entry_id) for entry_id in distillation.entry_ids]
            ends = [entry.expires_at or LONG_AGO for entry in sources if entry and self._of(distillation, entry)]
            if len(ends) < len(sources):
                return False
            row = DistillationRow(distillation=distillation, expires_at=min(ends))
            before = self._state.distillations.get(distillation.pattern_id)
            stands = before is not None and before.expires_at > distillation.answered_at
            if before is not None and stands and distillation.refused and before.distillation.distilled:
                row = replace(before, distillation=replace(before.distillation, evidence=distillation.evidence))
            self._state.distillations[distillation.pattern_id] = row
            return True

    @staticmethod
    def _of(distillation: Distillation, entry: Entry) -> bool:
        return entry.pattern_id == distillation.pattern_id

    def _live(self, now: datetime) -> list[Entry]:
        entries = [row.entry for row in self._state.entries.values()]
        return [
            entry
            for entry in entries
            if entry.workspace == self._workspace
            and entry.status is EntryStatus.EMBEDDED
            and (entry.expires_at or LONG_AGO) > now
        ]
