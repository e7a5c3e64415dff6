"""Entry points to `knowledge` for an orchestrator. Only the orchestrator queries; agents never do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.connection import connect
    from orchestrator.context.builder import OrchestratorContextBuilder
    from orchestrator.hooks import OrchestratorHooks

__all__ = ["OrchestratorContextBuilder", "OrchestratorHooks", "connect"]

_HOMES = {
    "OrchestratorContextBuilder": "orchestrator.context.builder",
    "OrchestratorHooks": "orchestrator.hooks",
    "connect": "orchestrator.connection",
}


def __getattr__(name: str) -> Any:
    """Import a name lazily: none of them needs what the others do."""
    if name not in _HOMES:
        raise AttributeError(f"module 'orchestrator' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
