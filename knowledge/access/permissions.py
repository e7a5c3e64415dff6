"""Permission table: the scopes that each operation requires, for all interfaces and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
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
_BOTH = Requirement(frozenset({Scope.CAPTURE, Scope.QUERY}))
_DOCUMENTS = Requirement(frozenset({Scope.DOCUMENTS}))
_REVIEW = Requirement(frozenset({Scope.REVIEW}))
_ADMIN = Requirement(frozenset({Scope.ADMIN}))
_KEYS = Requirement(frozenset({Scope.ADMIN}), authenticated=True)
_STORE = Requirement(frozenset({Scope.ADMIN}), Reach.STORE)
OPERATIONS: Final[Mapping[str, Requirement]] = {
    "capture.capture": _CAPTURE,
    "capture.capture_all": _CAPTURE,
    "capture.capture_failure_solution": _CAPTURE,
    "capture.capture_gate_approval": _CAPTURE,
    "capture.capture_gate_rejection": _CAPTURE,
    "capture.resolve_failure": _CAPTURE,
    "capture.resolve_gate_rejection": _CAPTURE,
    "capture.get": _QUERY,
    "capture.unresolved": _QUERY,
    "capture.delete": _ADMIN,
    "capture.delete_pattern": _ADMIN,
    "capture.delete_project": _ADMIN,
    "events.task_failed": _BOTH,
    "events.task_solved": _BOTH,
    "events.gate_decided": _BOTH,
    "checkpoints.process_checkpoint": _QUERY,
    "checkpoints.process_all": _QUERY,
    "checkpoints.get": _QUERY,
    "checkpoints.sweep": _ADMIN,
    "queries.query_for_task": _QUERY,
    "queries.query_for_failure": _QUERY,
    "queries.query_for_gate": _QUERY,
    "queries.weigh_failure": _ADMIN,
    "queries.get": _QUERY,
    "queries.browse": _QUERY,
    "contexts.record": _QUERY,
    "contexts.find_open_failure": _QUERY,
    "contexts.find_failed_patterns": _QUERY,
    "outcomes.record_outcome": _QUERY,
    "grouping.suggest": _REVIEW,
    "grouping.show": _REVIEW,
    "grouping.join": _REVIEW,
    "grouping.split": _REVIEW,
    "pruning.prune": _ADMIN,
    "pruning.prune_old_knowledge": _ADMIN,
    "reviews.waiting": _REVIEW,
    "reviews.show": _REVIEW,
    "reviews.approve": _REVIEW,
    "reviews.reject": _REVIEW,
    "reviews.alarms": _REVIEW,
    "revocations.revoke": _ADMIN,
    "revocations.affected": _ADMIN,
    "audits.list": _ADMIN,
    "audits.verify": _ADMIN,
    "upkeep.verify": _ADMIN,
    "upkeep.dead": _ADMIN,
    "upkeep.retry_dead": _ADMIN,
    "upkeep.local_only": _ADMIN,
    "upkeep.keep_local": _ADMIN,
    "store_upkeep.rebuild": _STORE,
    "store_upkeep.reembed_to": _STORE,
    "store_upkeep.finish": _STORE,
    "archives.export_archive": _STORE,
    "archives.export_entries": _STORE,
    "archives.import_archive": _STORE,
    "keys.create": _KEYS,
    "keys.list": _KEYS,
    "keys.rotate": _KEYS,
    "keys.revoke": _KEYS,
    "keys.prune": _STORE,
    "documents.for_principal": _DOCUMENTS,
    "documents.manage": _ADMIN,
    "answering.ask": _DOCUMENTS,
    "stats": _QUERY,
    "holds_anything": _QUERY,
    "progress": _QUERY,
    "workspaces": _STORE,
    "run_job": _STORE,
}
"""Requirements by service and method, or by method of `Knowledge` itself. Operations not listed are denied to all."""
