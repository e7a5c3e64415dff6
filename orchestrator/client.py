"""The HTTP client under the name that programs import: `from orchestrator.client import KnowledgeClient`."""

from __future__ import annotations

from hardwon.client.knowledge_client import KnowledgeClient

__all__ = ["KnowledgeClient"]
