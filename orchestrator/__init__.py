"""Putting what was learned in front of agents: doors to `knowledge`. Only the orchestrator queries; agents never do."""

from __future__ import annotations

from orchestrator.connection import connect
from orchestrator.context import OrchestratorContextBuilder
from orchestrator.hooks import OrchestratorHooks

__all__ = ["OrchestratorContextBuilder", "OrchestratorHooks", "connect"]
