"""Permission table: the scopes that each operation requires, for all interfaces and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from hardwon.models.access import Scope

BEYOND_AGENTS: Final = frozenset({Scope.QUERY, Scope.REVIEW, Scope.ADMIN})
"""Scopes that no agent gets: a key with none of them is an agent's, and of low trust."""


class Reach(StrEnum):
    """The data that an operation affects."""

    WORKSPACE = "workspace"
    STORE = "store"
    """All workspaces at once: denied to keys of a single workspace, whatever their scopes."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Requirement of an operation: all of `scopes`, or `admin`. `authenticated`: not without a key or local access."""

    scopes: frozenset[Scope]
    reach: Reach = Reach.WORKSPACE
    authenticated: bool = False


_CAPTURE = Requirement(frozenset({Scope.CAPTURE}))
_QUERY = Requirement(frozenset({Scope.QUERY}))
_ADMIN = Requirement(frozenset({Scope.ADMIN}))
_STORE = Requirement(frozenset({Scope.ADMIN}), Reach.STORE)
_WITHOUT_A_ROW: Final[Mapping[str, Requirement]] = {
    "capture.capture": _CAPTURE,
    "capture.capture_all": _CAPTURE,
    "capture.capture_failure_solution": _CAPTURE,
    "capture.capture_gate_approval": _CAPTURE,
    "capture.capture_gate_rejection": _CAPTURE,
    "capture.resolve_failure": _CAPTURE,
    "capture.resolve_gate_rejection": _CAPTURE,
    "checkpoints.process_checkpoint": _QUERY,
    "checkpoints.process_all": _QUERY,
    "queries.weigh_failure": _ADMIN,
    "queries.hint_for_task": _QUERY,
    "queries.hint_for_failure": _QUERY,
    "contexts.record": _QUERY,
    "contexts.find_open_failure": _QUERY,
    "contexts.find_failed_patterns": _QUERY,
    "contexts.find_dead_ends": _QUERY,
    "outcomes.record_outcome": _QUERY,
    "pruning.prune_old_knowledge": _ADMIN,
    "upkeep.keep_local": _ADMIN,
    "store_upkeep.finish": _STORE,
    "archives.export_archive": _STORE,
    "archives.export_entries": _STORE,
    "archives.import_archive": _STORE,
    "keys.prune": _STORE,
    "holds_anything": _QUERY,
    "progress": _QUERY,
}
"""Requirements of what the client writes out by hand, and of what only this process asks for."""


@cache
def operations() -> Mapping[str, Requirement]:
    """Return the requirement of every operation: of the rows of the table, and of those without a row.

    The keys are service and method, or a method of `Knowledge` itself. Operations not listed are denied to all.
    """
    from hardwon.client.knowledge_client import services  # noqa: PLC0415 - loads the HTTP client, at the first check

    rows = {
        row.permission: Requirement(
            frozenset(map(Scope, row.scopes)), Reach.STORE if row.whole_store else Reach.WORKSPACE, row.authenticated
        )
        for service in services()
        for row in service.operations
    }
    return {**rows, **_WITHOUT_A_ROW}
