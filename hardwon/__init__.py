"""The learning memory of a multi-agent orchestrator, for programs that use it.

async with hardwon.connect() as knowledge:
    hooks = hardwon.Hooks(knowledge)
    context = await hooks.task_started(hardwon.Task(description="Mend the cart", type="bugfix"), "backend")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardwon.blocking import connect_sync
    from hardwon.client.knowledge_client import KnowledgeClient
    from hardwon.connection import connect
    from hardwon.errors import HardwonError
    from hardwon.hooks import Hooks
    from hardwon.hooks import Hooks as OrchestratorHooks
    from hardwon.models.entries import AppliesWhen, Entry, EntryType, NewEntry
    from hardwon.models.ids import CheckpointType
    from hardwon.models.patterns import Pattern
    from hardwon.models.tasks import Context, Task

__all__ = [
    "AppliesWhen",
    "CheckpointType",
    "Context",
    "Entry",
    "EntryType",
    "HardwonError",
    "Hooks",
    "KnowledgeClient",
    "NewEntry",
    "OrchestratorHooks",
    "Pattern",
    "Task",
    "connect",
    "connect_sync",
]

_HOMES = {
    "AppliesWhen": "hardwon.models.entries",
    "CheckpointType": "hardwon.models.ids",
    "Context": "hardwon.models.tasks",
    "Entry": "hardwon.models.entries",
    "EntryType": "hardwon.models.entries",
    "HardwonError": "hardwon.errors",
    "Hooks": "hardwon.hooks",
    "KnowledgeClient": "hardwon.client.knowledge_client",
    "NewEntry": "hardwon.models.entries",
    "OrchestratorHooks": "hardwon.hooks",
    "Pattern": "hardwon.models.patterns",
    "Task": "hardwon.models.tasks",
    "connect": "hardwon.connection",
    "connect_sync": "hardwon.blocking",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: httpx and pydantic take ten times as long as Python itself to start."""
    if name == "__version__":
        return import_module("hardwon.settings").VERSION
    if name not in _HOMES:
        raise AttributeError(f"module 'hardwon' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), "Hooks" if name == "OrchestratorHooks" else name)
