"""Document Q&A for agents and planners: tools over knowledge bases, the strict base, the subagent, selection."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.tools.planner import PlannerSteps
    from orchestrator.tools.wrappers import document_tools

__all__ = ["PlannerSteps", "document_tools"]

_HOMES = {"PlannerSteps": "orchestrator.tools.planner", "document_tools": "orchestrator.tools.wrappers"}


def __getattr__(name: str) -> Any:
    """Import a name lazily."""
    if name not in _HOMES:
        raise AttributeError(f"module 'orchestrator.tools' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
