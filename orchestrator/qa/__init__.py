"""Document Q&A for agents and planners: tools over knowledge bases, the strict base, the subagent, selection."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.qa.planner import PlannerSteps
    from orchestrator.qa.wrappers import document_tools

__all__ = ["PlannerSteps", "document_tools"]

_HOMES = {"PlannerSteps": "orchestrator.qa.planner", "document_tools": "orchestrator.qa.wrappers"}


def __getattr__(name: str) -> Any:
    """Import a name lazily."""
    if name not in _HOMES:
        raise AttributeError(f"module 'orchestrator.qa' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
