"""Putting what was learned in front of agents: doors to `knowledge`. Only the orchestrator queries; agents never do."""

from __future__ import annotations

from orchestrator.connection import connect
from orchestrator.context import OrchestratorContextBuilder

__all__ = ["OrchestratorContextBuilder", "connect"]
