"""Adapter for AMSB, the benchmark that agent-memory-guard ships (`agent_memory_guard.bench`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hardwon.errors import Conflict, InvalidInput
from knowledge.models import ReviewMode
from knowledge.settings import KnowledgeSettings
from tests.guards.sync_store import SyncStore, agent_of
from tests.support.entries import failure

_TRUSTED_SOURCES = {"user_input", "system"}
"""Sources that tell with the owner's rights; tools and agents have a key that may capture."""


class Adapter:
    """A memory under a key is a solution of the problem that the key names, in a workspace of its own."""

    self_submission = False
    version = version("hardwon")

    def __init__(self, name: str, store: SyncStore, workspace: str, *, trusts_sources: bool) -> None:
        self.name = name
        self._store = store
        self._knowledge = store.knowledge.in_workspace(workspace)
        self._trusts_sources = trusts_sources
        self._outcomes = import_module("agent_memory_guard.bench.adapter").RememberOutcome

    def remember(self, key: str, value: Any, *, source_class: str = "external_tool") -> Any:
        """Capture a memory and embed it; refused ones are blocked."""
        trusted = self._trusts_sources and source_class in _TRUSTED_SOURCES
        teller = self._knowledge if trusted else agent_of(self._knowledge)
        try:
            self._store.run(teller.capture.capture(failure(failure_description=key, solution_steps=str(value))))
        except (InvalidInput, Conflict):
            return self._outcomes.BLOCKED
        self._store.run(self._knowledge.checkpoints.process_all())
        return self._outcomes.STORED

    def recall(self, key: str) -> str | None:
        """Return what an orchestrator is told about the problem that the key names."""
        found = self._store.run(self._knowledge.queries.query_for_failure(key))
        return found[0].solution if found else None

    def context_reset(self) -> None:
        """Do nothing: what was stored is in Postgres, and a workspace has no session."""


_ROWS = (
    ("default, tools by an agent's key", ReviewMode.SUSPICIOUS, True),
    ("default, all by an agent's key", ReviewMode.SUSPICIOUS, False),
    ("HARDWON_REVIEW=everything, tools by an agent's key", ReviewMode.EVERYTHING, True),
)


def run(home: Path) -> Iterable[str]:
    """Yield the scorecard line by line."""
    bench, scoring = (
        import_module("agent_memory_guard.bench.harness"),
        import_module("agent_memory_guard.bench.scoring"),
    )
    for number, (name, review, trusts_sources) in enumerate(_ROWS):
        store = SyncStore(KnowledgeSettings(home=home / f"amsb-{number}", holdout=0, review=review))
        workspaces = (f"scenario-{count}" for count in itertools.count())
        made = partial(_make, name, store, workspaces, trusts_sources=trusts_sources)
        try:
            report = bench.run_suite(made)
        finally:
            store.stop()
        card = scoring.score_report(report)
        yield (
            f"{name}: {card.score:.1f} ({card.grade.value}), {card.defended_total} of {card.malicious_total} defended,"
            f" {card.critical_breaches} critical breaches,"
            f" {card.false_positives} of {card.benign_total} false positives"
        )
        for each in report.runs:
            if not each.passed:
                yield f"    not passed: {each.scenario_id} ({each.severity}), {each.detail}"


def _make(name: str, store: SyncStore, workspaces: Iterator[str], *, trusts_sources: bool) -> Adapter:
    return Adapter(name, store, next(workspaces), trusts_sources=trusts_sources)
