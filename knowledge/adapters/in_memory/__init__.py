"""Every port in dicts, exact and forgetful: for unit tests, and the plainest statement of what a port promises."""

from __future__ import annotations

from knowledge.adapters.in_memory.distillations import InMemoryDistillations
from knowledge.adapters.in_memory.entries import InMemoryEntries
from knowledge.adapters.in_memory.index import InMemoryIndex
from knowledge.adapters.in_memory.keys import InMemoryKeys
from knowledge.adapters.in_memory.patterns import InMemoryPatterns
from knowledge.adapters.in_memory.points import InMemoryPoints
from knowledge.adapters.in_memory.records import InMemoryCheckpoints, InMemoryContexts, InMemoryJobs
from knowledge.adapters.in_memory.spaces import InMemorySpaces
from knowledge.adapters.in_memory.spending import InMemorySpending
from knowledge.adapters.in_memory.state import InMemoryState
from knowledge.ports import Clock, Embedder, Stores

__all__ = [
    "InMemoryCheckpoints",
    "InMemoryContexts",
    "InMemoryDistillations",
    "InMemoryEntries",
    "InMemoryIndex",
    "InMemoryJobs",
    "InMemoryKeys",
    "InMemoryPatterns",
    "InMemoryPoints",
    "InMemorySpaces",
    "InMemorySpending",
    "InMemoryState",
    "in_memory_stores",
]


def in_memory_stores(
    workspace: str, embedder: Embedder, clock: Clock, *, state: InMemoryState | None = None, budget: int | None = None
) -> Stores:
    """Return the ports of one workspace in memory; workspaces of one store share its `state`.

    `budget`: the tokens that it may send to endpoints a day.
    """
    state = state or InMemoryState()
    return Stores(
        workspace=workspace,
        entries=InMemoryEntries(state, workspace),
        patterns=InMemoryPatterns(state, workspace),
        distillations=InMemoryDistillations(state, workspace),
        points=InMemoryPoints(state, workspace),
        spaces=InMemorySpaces(state, workspace),
        checkpoints=InMemoryCheckpoints(state, workspace),
        contexts=InMemoryContexts(state, workspace),
        spending=InMemorySpending(state, workspace, budget),
        index=state.index,
        embedder=embedder,
        clock=clock,
    )
