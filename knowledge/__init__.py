"""The learning memory of a multi-agent orchestrator.

async with open_knowledge(KnowledgeSettings(), workspace="default") as knowledge:
    await knowledge.capture.capture_failure_solution(...)
    await knowledge.checkpoints.process_checkpoint(project_id, "phase_completion")
    patterns = await knowledge.queries.query_for_task(task_description, agent_type, task_type, technology)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardwon.errors import HardwonError
    from knowledge.models import AppliesWhen, CheckpointType, Context, Entry, EntryType, NewEntry, Pattern, Task
    from knowledge.settings import KnowledgeSettings
    from knowledge.wiring.open import Knowledge, open_knowledge

__all__ = [
    "AppliesWhen",
    "CheckpointType",
    "Context",
    "Entry",
    "EntryType",
    "HardwonError",
    "Knowledge",
    "KnowledgeSettings",
    "NewEntry",
    "Pattern",
    "Task",
    "open_knowledge",
]


_HOMES = {
    "HardwonError": "hardwon.errors",
    "Knowledge": "knowledge.wiring.open",
    "KnowledgeSettings": "knowledge.settings",
    "open_knowledge": "knowledge.wiring.open",
}
"""Modules that define the public names, except for the models."""


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: a client of a running owner never needs the drivers."""
    if name not in __all__:
        raise AttributeError(f"module 'knowledge' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "knowledge.models")), name)
