"""What is loaded for what is asked: a start costs what its modules cost, and those are counted, not timed."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cases import over
from tests.support.loaded import HEAVY, heavy, loaded, ours


@pytest.mark.long
@over("arguments", [["--help"], ["--version"], ["doctor", "--help"], ["kb", "ask", "--help"]])
def test_help_loads_the_commands_and_nothing_they_need(arguments: list[str]) -> None:
    modules = loaded("from orchestrator.cli.commands.root import main; main()", *arguments)
    assert not {name for name in modules if name.startswith("orchestrator.cli.reports")}
    assert {name for name in ours(modules) if not f"{name}.".startswith("orchestrator.cli.")} <= {
        "knowledge",
        "knowledge.access",
        "knowledge.access.permissions",
        "hardwon.errors",
        "hardwon.models.ids",
        "orchestrator",
        "hardwon.client.paging",
        "orchestrator.agent_hooks",
        "orchestrator.agent_hooks.hook_tools",
    }
    assert not modules & (HEAVY | {"asyncio", "httpx", "pydantic_settings", "rich", "structlog"})


def test_the_packages_load_nothing_until_a_name_is_asked_for() -> None:
    assert ours(loaded("import knowledge, orchestrator")) == {"knowledge", "orchestrator"}


def test_a_program_that_connects_loads_no_store_and_no_documents_before_it_owns_them() -> None:
    assert not heavy(loaded("from orchestrator import OrchestratorContextBuilder, connect"))


def test_the_hooks_load_what_they_pass_on_to_and_neither_stores_nor_documents() -> None:
    """They have the methods of the service of events, which redacts what it keeps."""
    modules = loaded("from orchestrator import OrchestratorHooks")
    theirs = {name for name in modules if name.startswith("knowledge.text.redaction")} | {"re2", "snowballstemmer"}
    assert heavy(modules) <= theirs


STOPPED_AS_IT_LOADS = """
import os, signal, sys
from importlib import import_module

loading, entry = sys.argv.pop(1), sys.argv.pop(1)

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == loading:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Stop())
module, function = entry.split(":")
getattr(import_module(module), function)()
"""


def stopped_at(loading: str, before: Callable[[], object] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the installed command's entry point; Ctrl-C comes as it loads a module."""
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    command = [sys.executable, "-c", STOPPED_AS_IT_LOADS, loading, scripts["hardwon"], "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=before)


@over("loading", ["orchestrator.cli.commands.root", "typer", "orchestrator.cli.commands.learn"])
def test_ctrl_c_as_a_command_begins_ends_it_without_a_word(loading: str) -> None:
    stopped = stopped_at(loading)
    assert stopped.returncode == -signal.SIGINT
    assert stopped.stdout + stopped.stderr == ""


def test_a_command_that_was_told_to_ignore_ctrl_c_goes_on() -> None:
    """As a shell tells what it starts in the background."""
    went_on = stopped_at("typer", before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert (went_on.returncode, went_on.stdout[:8]) == (0, "hardwon ")
