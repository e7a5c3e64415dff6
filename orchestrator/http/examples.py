"""The examples of the OpenAPI document: one story, from a failure that was solved to a task that profits."""

from __future__ import annotations

from typing import Any, Final

from knowledge.errors import (
    AccessDenied,
    HardwonError,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    Overloaded,
    StorageUnavailable,
    TextRejected,
)
from orchestrator.http import examples_documents as documents
from orchestrator.http.access import NEEDS_KEY
from orchestrator.http.problems import problem

_ENTRY = "6f1c7e0a-52a1-4a5e-9d0e-4e9f2a9d1c11"
_ANOTHER = "0b9f3d1e-8a34-4f44-8f0e-2f7a1a0b7c22"
_PATTERN = "c1d4a8f2-3b5e-5a7c-9e10-6d2b8f4a1e33"
_TWIN = "d2e5b9a3-4c6f-5b8d-8f21-7e3c9a5b2f44"
_CONTEXT = "a7b8c9d0-1e2f-4a3b-8c4d-5e6f7a8b9c55"
_CHECKPOINT = "b8c9d0e1-2f3a-4b4c-9d5e-6f7a8b9c0d66"
_OPERATION = "e9f0a1b2-3c4d-4e5f-8a6b-7c8d9e0f1a77"
_KEY = "3f9a1c7e5b2d"
_AT = "2026-03-02T09:30:00Z"
_YEAR_LATER = "2027-03-02T09:30:00Z"
_FAILURE = "Cart total is wrong when an item has no price"
_ERROR = "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"
_SOLUTION = "Treat a missing price as zero before summing, and say so in the cart's log."

VALUES: Final[dict[str, Any]] = {
    "entry_id": _ENTRY,
    "pattern_id": _PATTERN,
    "checkpoint_id": _CHECKPOINT,
    "operation": _OPERATION,
    "key_id": _KEY,
    "project_id": "web-shop",
    "name": "sweep",
    "Hardwon-Workspace": "default",
    "workspace": "default",
    "idempotency-key": "web-shop/cart-total/run-7",
    **documents.VALUES,
}
"""Parameters in a path, a query or a header."""

_FAILED: Final[dict[str, Any]] = {
    "project_id": "web-shop",
    "agent_type": "backend",
    "task_type": "bugfix",
    "technology": "python",
    "failure_description": _FAILURE,
    "error_message": _ERROR,
    "task_id": "cart-total",
    "run_id": "run-7",
}
_NEW_ENTRY: Final[dict[str, Any]] = {
    "entry_type": "failure_solution",
    **_FAILED,
    "solution_steps": _SOLUTION,
    "success_verified": True,
    "verified_by": "pytest tests/test_cart.py::test_total",
}
_GATE: Final[dict[str, Any]] = {"gate_type": "design_review", "proposal": "Store prices as floats."}

REQUESTS: Final[dict[str, Any]] = {
    "capture": _NEW_ENTRY,
    "capture_all": {"entries": [_NEW_ENTRY]},
    "resolve": {"solution_steps": _SOLUTION, "verified_by": "pytest tests/test_cart.py::test_total"},
    "query_for_task": {
        "task_description": "Add discounts to the cart",
        "agent_type": "backend",
        "technology": "python",
    },
    "query_for_failure": {"failure_description": _FAILURE, "error_message": _ERROR, "agent_type": "backend"},
    "query_for_gate": _GATE,
    "build_context": {
        "task": {"description": "Add discounts to the cart", "type": "feature", "technology": "python"},
        "agent_type": "backend",
    },
    "record_outcome": {"context_id": _CONTEXT, "pattern_id": _PATTERN, "worked": True},
    "process_checkpoint": {"project_id": "web-shop", "checkpoint_type": "phase_completion"},
    "sweep": {"staged_for_seconds": 86_400},
    "task_failed": _FAILED,
    "task_solved": {
        "project_id": "web-shop",
        "task_id": "cart-total",
        "solution_steps": _SOLUTION,
        "verified_by": "pytest tests/test_cart.py::test_total",
        "run_id": "run-7",
    },
    "gate_decided": {
        "project_id": "web-shop",
        **_GATE,
        "accepted": False,
        "human_feedback": "Floats lose cents: store prices as integers.",
    },
    "join": {"other": _TWIN},
    "split": {"entry_ids": [_ANOTHER]},
    "reembed": {"model": "all-MiniLM-L6-v2"},
    "keep_local": {"local_only": True},
    "create_key": {"scopes": ["capture", "query"], "workspace": "default", "name": "the orchestrator"},
    "rotate_key": {"overlap_seconds": 3600},
    "revoke_entries": {"key_id": _KEY, "since": _AT, "dry_run": True},
    **documents.REQUESTS,
}

_PATTERN_SHOWN: Final[dict[str, Any]] = {
    "pattern_id": _PATTERN,
    "entry_type": "failure_solution",
    "problem": f"{_FAILURE}\n{_ERROR}",
    "solution": _SOLUTION,
    "when_to_try": "Backend bugfix in python",
    "success_count": 3,
    "attempt_count": 4,
    "project_count": 2,
    "relevance": 0.83,
    "agent_type": "backend",
    "task_type": "bugfix",
    "technology": "python",
    "gate_type": None,
    "entry_ids": [_ENTRY],
    "founded_at": _AT,
    "rivals": [],
    "distilled": None,
}
_ENTRY_SHOWN: Final[dict[str, Any]] = {
    **_NEW_ENTRY,
    "workspace": "default",
    "entry_id": _ENTRY,
    "status": "embedded",
    "content_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "captured_at": _AT,
    "attempts": 1,
    "pattern_id": _PATTERN,
    "embedded_at": _AT,
    "expires_at": _YEAR_LATER,
}
_PAIR: Final[dict[str, Any]] = {
    "kind": "twin",
    "probability": 0.71,
    "why": ["both name TypeError"],
    "patterns": [_PATTERN_SHOWN, {**_PATTERN_SHOWN, "pattern_id": _TWIN}],
}
_CREATED: Final = {"entry_id": _ENTRY}
_REPORT: Final[dict[str, Any]] = {
    "checkpoint_id": _CHECKPOINT,
    "project_id": "web-shop",
    "checkpoint_type": "phase_completion",
    "started_at": _AT,
    "finished_at": _AT,
    "embedded": 1,
    "founded": 1,
    "joined": 0,
    "abandoned": 0,
    "dead": 0,
    "truncated": 0,
    "dead_entries": [],
    "error": None,
    "distillation": None,
}
_FOUND: Final = {"patterns": [_PATTERN_SHOWN], "degraded": None}
_KEPT: Final = {"entry_ids": [_ENTRY], "outcomes": 0, "degraded": None}
_MADE: Final[dict[str, Any]] = {
    "key_id": _KEY,
    "secret": f"hw_{_KEY}_(43 characters, shown this once)",
    "name": "the orchestrator",
    "scopes": ["capture", "query"],
    "workspace": "default",
    "created_at": _AT,
    "expires_at": None,
}
_HELD_BACK: Final = {
    **_ENTRY_SHOWN,
    "status": "quarantined",
    "pattern_id": None,
    "embedded_at": None,
    "expires_at": None,
    "captured_by": _KEY,
    "low_trust": True,
    "suspicions": ["tells a reader to ignore what was said: solution_steps"],
}
_UNRESOLVED: Final = {
    **_ENTRY_SHOWN,
    "status": "open",
    "solution_steps": None,
    "success_verified": False,
    "verified_by": None,
    "attempts": 0,
    "pattern_id": None,
    "embedded_at": None,
    "expires_at": None,
}
_AFFECTED: Final = {
    "context_id": _CONTEXT,
    "project_id": "web-shop",
    "task_id": "cart-discounts",
    "run_id": "run-8",
    "agent_type": "backend",
    "handed_out_at": _AT,
}
_COUNTS: Final = {"knowledge_staging": 1, "patterns": 1, "points": 1}

ANSWERS: Final[dict[str, Any]] = {
    "healthz": {"status": "ok"},
    "readyz": {"status": "ok"},
    "capture": _CREATED,
    "capture_all": {"answers": [{"outcome": "accepted", "entry_id": _ENTRY, "status": "staged"}]},
    "resolve": _CREATED,
    "get_entry": _ENTRY_SHOWN,
    "list_unresolved": [_UNRESOLVED],
    "query_for_task": _FOUND,
    "query_for_failure": _FOUND,
    "query_for_gate": _FOUND,
    "build_context": {
        "context_id": _CONTEXT,
        "text": "Task: Add discounts to the cart\n\n[ORCHESTRATOR CONTEXT: Historical Knowledge]\n...\n[END CONTEXT]",
        "patterns": [_PATTERN_SHOWN],
        "degraded": None,
    },
    "process_checkpoint": _REPORT,
    "sweep": [_REPORT],
    "get_checkpoint": _REPORT,
    "prune": {"entries": 0, "points": 0, "patterns": 0, "never_resolved": 0, "dry_run": False},
    "run_one_job": {"dealt_with": 1},
    "stats": {
        "workspace": "default",
        "projects": 1,
        "entries": {"embedded": 1},
        "patterns": 1,
        "points": 1,
        "checkpoints": 1,
        "oldest_staged_at": None,
        "last_checkpoint_at": _AT,
        "next_expiry_at": _YEAR_LATER,
        "vector_bytes": 768,
        "embedding_model": "all-MiniLM-L6-v2",
        "dims": 384,
        "unused_vector_bytes": 0,
        "dead_entries": [],
        "tokens_today": 41_230,
        "tokens_per_day": 2_000_000,
    },
    "holds_anything": {"workspace": "default", "holds_anything": True},
    "workspaces": ["default"],
    "task_failed": _KEPT,
    "task_solved": _KEPT,
    "gate_decided": _KEPT,
    "get_pattern": _PATTERN_SHOWN,
    "browse": {"patterns": [_PATTERN_SHOWN]},
    "suggest": [_PAIR],
    "show": {"pattern": _PATTERN_SHOWN, "entries": [_ENTRY_SHOWN], "twins": [_PAIR], "rivals": []},
    "join": _PATTERN_SHOWN,
    "split": _PATTERN_SHOWN,
    "progress": {"done": 256, "total": 1024},
    "verify": {
        "points": 1,
        "missing": 0,
        "orphan": 0,
        "stale": 0,
        "mismatched": 0,
        "passages": 1,
        "passages_missing": 0,
        "passages_orphan": 0,
        "repaired": 0,
        "examples": {},
    },
    "rebuild": {"points": 1, "embedded": 0, "dry_run": False, "passages": 0},
    "reembed": {
        "from_model": "text-embedding-3-small",
        "to_model": "all-MiniLM-L6-v2",
        "embedded": 1,
        "kept": 0.9,
        "switched": True,
        "forgotten": 0,
    },
    "locality": {"local_only": False},
    "keep_local": {"local_only": True},
    "dead": [{"entry_id": _ENTRY, "reason": "the endpoint refuses this text"}],
    "retry_dead": {"staged": 1},
    "delete_project": {"entries": 1},
    "import_archive": {"rows": _COUNTS, "new": _COUNTS, "points": 1, "embedded": 0, "passages": 0},
    "create_key": _MADE,
    "rotate_key": _MADE,
    "list_waiting": [_HELD_BACK],
    "show_waiting": _HELD_BACK,
    "approve_entry": {**_HELD_BACK, "status": "staged", "low_trust": False},
    "list_alarms": [{"pattern_id": _PATTERN, "contexts": 64, "tasks": 41, "success_count": 1}],
    "revoke_entries": {"entries": 1, "outcomes": 1, "affected": [_AFFECTED], "dry_run": True, "settled": True},
    "list_affected": [_AFFECTED],
    "list_audit": [
        {
            "workspace": "default",
            "number": 7,
            "at": _AT,
            "who": "key 3f9a1c7e5b2d",
            "what": "entry approved",
            "details": '{"entry": "6f1c7e0a-52a1-4a5e-9d0e-4e9f2a9d1c11"}',
            "hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        }
    ],
    "verify_audit": {
        "rows": 7,
        "head": "7:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "problems": [],
    },
    **documents.ANSWERS,
    "list_keys": [
        {
            **{name: value for name, value in _MADE.items() if name != "secret"},
            "revoked_at": None,
            "replaced_by": None,
            "first_key": None,
            "last_used_at": _AT,
        }
    ],
}


def _told(error: HardwonError, status: int | None = None) -> dict[str, Any]:
    usual, body = problem(error)
    return {**body, "status": status or usual, "request_id": "2c1f6c0e-9d35-4a39-a6f0-0a8a5c1b7e88"}


PROBLEMS: Final[dict[int, dict[str, Any]]] = {
    401: _told(AccessDenied(NEEDS_KEY), 401),
    403: _told(AccessDenied("this takes a key of scope query, and this one has capture")),
    404: _told(NotFound(f"there is no entry {_ENTRY} in this workspace")),
    409: _told(IdempotencyConflict("the idempotency key was used before with another body")),
    408: _told(InvalidInput("body", "did not come in time: send all of it again"), 408),
    413: _told(InvalidInput("body", "has more than the 262,144 bytes allowed"), 413),
    422: _told(InvalidInput("failure_description", "is empty or blank")),
    429: _told(Overloaded("this key may ask 100 times a second", retry_after_seconds=0.4)),
    500: _told(HardwonError("hardwon met a defect of its own: its log says which")),
    502: _told(TextRejected("the endpoint refuses this text")),
    503: _told(StorageUnavailable("Postgres does not answer: is it running?")),
}
