"""The names others import: a change here is a change for everybody."""

from __future__ import annotations

import re

import knowledge
import orchestrator
from hardwon import errors
from hardwon.errors import HardwonError


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


def test_the_tree_of_errors_is_drawn_whole_at_the_top_of_its_module() -> None:
    above: list[str] = []
    drawn: dict[str, str] = {}
    for branches, name in re.findall(r"^([│ ]*[├└]── )(\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(branches) // 4
        above[depth - 1 :] = [name]
        drawn[name] = above[depth - 2] if depth > 1 else "HardwonError"
    defined = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, HardwonError) and kind is not HardwonError
    }
    assert drawn == defined
