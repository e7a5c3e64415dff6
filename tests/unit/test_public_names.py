"""The names others import: a change here is a change for everybody."""

from __future__ import annotations

import knowledge
import orchestrator


def test_the_public_names_of_knowledge_are_these() -> None:
    assert knowledge.__all__ == [
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


def test_the_public_names_of_orchestrator_are_these() -> None:
    assert orchestrator.__all__ == ["OrchestratorContextBuilder", "OrchestratorHooks", "connect"]


def test_public_names_are_sorted_and_there() -> None:
    for package in (knowledge, orchestrator):
        assert list(package.__all__) == sorted(package.__all__)
        assert all(getattr(package, name) is not None for name in package.__all__)
