"""What a workspace spends at endpoints, in memory."""

from __future__ import annotations

from datetime import date

from knowledge.adapters.in_memory.state import InMemoryState
from knowledge.ports import SpendingStore


class InMemorySpending(SpendingStore):
    """The tokens of one workspace."""

    def __init__(self, state: InMemoryState, workspace: str, budget: int | None = None) -> None:
        self._state = state
        self._workspace = workspace
        self._budget = budget

    @property
    def budget(self) -> int | None:
        return self._budget

    async def reserve(self, day: date, tokens: int) -> bool:
        if self._budget is not None and self._state.spent[self._workspace, day] >= self._budget:
            return False
        self._state.spent[self._workspace, day] += tokens
        return True

    async def correct(self, day: date, by: int) -> None:
        if before := self._state.spent[self._workspace, day]:
            self._state.spent[self._workspace, day] = max(0, before + by)

    async def spent(self, day: date) -> int:
        return self._state.spent[self._workspace, day]
