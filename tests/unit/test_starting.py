"""What is loaded for what is asked: a start costs what its modules cost, and those are counted, not timed."""

from __future__ import annotations

import pytest

from tests.support.loaded import HEAVY, heavy, loaded, ours


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["doctor", "--help"], ["kb", "ask", "--help"]])
def test_help_loads_the_commands_and_nothing_they_need(arguments: list[str]) -> None:
    modules = loaded("from orchestrator.cli import main; main()", *arguments)
    assert {name for name in ours(modules) if not name.startswith("orchestrator.cli")} <= {
        "knowledge",
        "knowledge.access",
        "knowledge.access.operations",
        "knowledge.errors",
        "knowledge.names",
        "orchestrator",
        "orchestrator.paging",
    }
    assert not modules & (HEAVY | {"asyncio", "httpx", "pydantic_settings", "rich", "structlog"})


def test_the_packages_load_nothing_until_a_name_is_asked_for() -> None:
    assert ours(loaded("import knowledge, orchestrator")) == {"knowledge", "orchestrator"}


def test_a_program_that_connects_loads_no_store_and_no_documents_before_it_owns_them() -> None:
    assert not heavy(loaded("from orchestrator import OrchestratorContextBuilder, connect"))


def test_the_hooks_load_what_they_pass_on_to_and_neither_stores_nor_documents() -> None:
    """They have the methods of the service of events, which redacts what it keeps."""
    modules = loaded("from orchestrator import OrchestratorHooks")
    theirs = {name for name in modules if name.startswith("knowledge.redaction")} | {"re2", "snowballstemmer"}
    assert heavy(modules) <= theirs
