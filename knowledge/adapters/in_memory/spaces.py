"""The embedding spaces of a store, and the lexicon of a workspace, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from knowledge.adapters.embedding_space import mean_cosine
from knowledge.adapters.in_memory.state import InMemoryState
from knowledge.mismatch import mismatch
from knowledge.models import BoundSpace, Calibration, EmbeddingSpace, Entry, TermStatistics, Vector, View
from knowledge.ports import SpaceStore


class InMemorySpaces(SpaceStore):
    """Spaces are of the whole store, term statistics of one workspace."""

    def __init__(self, state: InMemoryState, workspace: str) -> None:
        self._state = state
        self._workspace = workspace

    async def bound(self) -> BoundSpace | None:
        return None if self._state.active_space is None else self._state.spaces[self._state.active_space]

    async def bind(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        bound = await self.bound()
        if bound is not None and bound.space.fingerprint == space.fingerprint:
            return bound
        if bound is not None and any(self._state.behind(row) for row in self._state.points.values()):
            raise mismatch(bound.space, space)
        bound = BoundSpace(space=space, mean_terms=mean_terms, calibration=calibration)
        self._state.spaces[space.fingerprint] = bound
        self._state.probes.pop(space.fingerprint, None)
        self._state.active_space = space.fingerprint
        return bound

    async def recalibrate(self, space: EmbeddingSpace, calibration: Calibration) -> None:
        if space.fingerprint in self._state.spaces:
            bound = self._state.spaces[space.fingerprint]
            self._state.spaces[space.fingerprint] = replace(bound, calibration=calibration)

    async def probes(self, space: EmbeddingSpace) -> Vector | None:
        return self._state.probes.get(space.fingerprint)

    async def keep_probes(self, space: EmbeddingSpace, vectors: Vector) -> bool:
        if space.fingerprint not in self._state.spaces:
            return False
        kept = self._state.probes.setdefault(space.fingerprint, vectors)
        bound = self._state.spaces[space.fingerprint]
        self._state.spaces[space.fingerprint] = replace(bound, unrelated_cosine=mean_cosine(kept))
        return True

    async def local_only(self) -> bool:
        return self._workspace in self._state.local_only

    async def keep_local(self, *, on: bool) -> None:
        (self._state.local_only.add if on else self._state.local_only.discard)(self._workspace)

    async def statistics(self, terms: Sequence[int]) -> TermStatistics:
        known = self._state.frequencies[self._workspace]
        return TermStatistics(
            documents=self._state.documents[self._workspace],
            frequencies={term: known[term] for term in terms if term in known},
        )

    async def known(self) -> list[EmbeddingSpace]:
        spaces = [bound.space for bound in self._state.spaces.values()]
        return sorted(spaces, key=lambda space: space.fingerprint != self._state.active_space)

    async def sample_situations(self, space: EmbeddingSpace, limit: int) -> tuple[list[Entry], Vector]:
        sample = [
            (entry, self._state.vectors[i, space.fingerprint])
            for i, row in sorted(self._state.points.items())  # ids are hashes: the first ones are a fair sample
            if (row.workspace, row.view) == (self._workspace, View.SITUATION)
            and (i, space.fingerprint) in self._state.vectors
            and (entry := self._state.behind(row))
        ][: max(limit, 0)]
        vectors = np.array([vector for _, vector in sample], dtype=np.float32)
        return [entry for entry, _ in sample], vectors.reshape(len(sample), space.dims)

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        known = self._state.vectors
        both = [
            i
            for i, row in sorted(self._state.points.items())  # ids are hashes: the first ones are a fair sample
            if (row.workspace, row.view) == (self._workspace, View.SITUATION)
            and (i, one.fingerprint) in known
            and (i, other.fingerprint) in known
        ][: max(limit, 0)]
        in_one, in_other = (
            np.array([known[i, space.fingerprint] for i in both], dtype=np.float32).reshape(len(both), space.dims)
            for space in (one, other)
        )
        return in_one, in_other
