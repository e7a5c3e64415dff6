"""What was learned, and finding it again: the learning memory of a multi-agent orchestrator.

async with open_knowledge(KnowledgeSettings(), workspace="default") as knowledge:
    await knowledge.capture.capture_failure_solution(...)
    await knowledge.checkpoints.process_checkpoint(project_id, "phase_completion")
    patterns = await knowledge.queries.query_for_task(task_description, agent_type, task_type, technology)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowledge.errors import HardwonError
from knowledge.models import AppliesWhen, CheckpointType, Context, Entry, EntryType, NewEntry, Pattern, Task
from knowledge.settings import KnowledgeSettings

if TYPE_CHECKING:
    from knowledge.wiring import Knowledge, open_knowledge

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


def __getattr__(name: str) -> Any:
    """Load the stores' drivers only when they are asked for: a client of a running owner never needs them."""
    if name in {"Knowledge", "open_knowledge"}:
        from knowledge import wiring  # noqa: PLC0415 - the point of it

        return getattr(wiring, name)
    raise AttributeError(f"module 'knowledge' has no attribute {name!r}")
