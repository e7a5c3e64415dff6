"""The Python client of the HTTP API, a file for each service."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.client.knowledge_client import KnowledgeClient

__all__ = ["KnowledgeClient"]


def __getattr__(name: str) -> Any:
    """Load the client on first use: servers need only the modules of requests."""
    if name != "KnowledgeClient":
        raise AttributeError(f"module 'orchestrator.client' has no attribute {name!r}")
    return import_module("orchestrator.client.knowledge_client").KnowledgeClient
