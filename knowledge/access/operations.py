"""What each operation takes: the one table that every door and every service is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """What a key may do. Agents get `capture` at most; `admin` includes the others."""

    CAPTURE = "capture"
    """Tell what happened: entries and their resolutions."""
    QUERY = "query"
    """Ask what was learned, tell what came of it, and say when a checkpoint is reached: the orchestrator."""
    DOCUMENTS = "documents"
    """Ask documents, and add some, as far as whom the key is named after may: agents, and the people behind them."""
    REVIEW = "review"
    """Decide on entries that wait for a person, and on what belongs together."""
    ADMIN = "admin"
    """Delete, keep up, and make keys."""


BEYOND_AGENTS: Final = frozenset({Scope.QUERY, Scope.REVIEW, Scope.ADMIN})
"""What no agent gets: a key without any of it is of low trust, whatever else it may."""


class Reach(StrEnum):
    """What an operation touches."""

    WORKSPACE = "workspace"
    STORE = "store"
    """All workspaces at once: a key of one workspace may not, whatever its scopes."""


@dataclass(frozen=True, slots=True)
class Needed:
    """What an operation takes: all of the scopes, or `admin`; `known`: to have shown who one is."""

    scopes: frozenset[Scope]
    reach: Reach = Reach.WORKSPACE
    known: bool = False


_CAPTURE = Needed(frozenset({Scope.CAPTURE}))
_QUERY = Needed(frozenset({Scope.QUERY}))
_BOTH = Needed(frozenset({Scope.CAPTURE, Scope.QUERY}))
_DOCUMENTS = Needed(frozenset({Scope.DOCUMENTS}))
_REVIEW = Needed(frozenset({Scope.REVIEW}))
_ADMIN = Needed(frozenset({Scope.ADMIN}))
_KEYS = Needed(frozenset({Scope.ADMIN}), known=True)
_STORE = Needed(frozenset({Scope.ADMIN}), Reach.STORE)

OPERATIONS: Final[Mapping[str, Needed]] = {
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
    "contexts.failing": _QUERY,
    "contexts.failed": _QUERY,
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
    "documents.asked_by": _DOCUMENTS,
    "documents.manage": _ADMIN,
    "answering.ask": _DOCUMENTS,
    "stats": _QUERY,
    "holds_anything": _QUERY,
    "progress": _QUERY,
    "workspaces": _STORE,
    "run_job": _STORE,
}
"""Service and method, or a method of `Knowledge` itself, and what it takes. What is not here is nobody's to ask for."""
