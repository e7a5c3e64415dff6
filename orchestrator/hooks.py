"""Hooks over services in this process, or over those of a client."""

from __future__ import annotations

from datetime import timedelta

from hardwon.hooks import DEADLINE, Hooks
from orchestrator.connection import AnyKnowledge
from orchestrator.context.builder import OrchestratorContextBuilder


class OrchestratorHooks(Hooks):
    """`hardwon.Hooks` that also work on what `knowledge.open_knowledge` yields."""

    def __init__(self, knowledge: AnyKnowledge, *, deadline: timedelta | float = DEADLINE) -> None:
        super().__init__(knowledge, deadline=deadline, contexts=OrchestratorContextBuilder(knowledge))
