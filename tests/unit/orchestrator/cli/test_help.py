"""The help of the command line: grouped, reached by the words that people type, and leading on."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from orchestrator.cli.commands.root import app
from orchestrator.cli.support.help import COMMAND_GROUPS, iterate_groups
from orchestrator.cli.support.run import make_lazy_group
from tests.support.cases import over


def typed(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [*arguments])


def test_every_command_is_in_one_group_of_the_help() -> None:
    root: Any = typer.main.get_command(app)
    listed = [name for group in COMMAND_GROUPS.values() for name in group]
    assert len(listed) == len(set(listed))
    assert set(root.commands) <= set(listed)


def test_a_command_that_no_group_lists_is_shown_all_the_same() -> None:
    assert list(iterate_groups(["stats", "unheard-of"])) == [("Everyday", ["stats"]), ("Other", ["unheard-of"])]


def test_the_help_has_each_command_once_beneath_its_group() -> None:
    lines = typed("--help").stdout.splitlines()
    group = ""
    shown: dict[str, list[str]] = {}
    for line in lines[lines.index("Everyday:") :]:
        if line.endswith(":") and not line.startswith(" "):
            group = line.removesuffix(":")
        elif line.startswith("  "):
            shown.setdefault(group, []).append(line.split()[0])
    root: Any = typer.main.get_command(app)
    assert shown == dict(iterate_groups(list(root.commands)))
    assert "hardwon help COMMAND" in lines[-1]


@over("words", [[], ["query"], ["kb", "ask"], ["patterns", "list"]])
def test_help_and_a_command_is_the_help_of_the_command(words: list[str]) -> None:
    told = typed("help", *words)
    assert told.exit_code == 0
    assert told.stdout == typed(*words, "--help").stdout
    assert told.stdout.startswith(f"Usage: {' '.join(['hardwon', *words])} ")


def test_help_of_help_is_the_help() -> None:
    assert typed("help", "help").stdout == typed("--help").stdout


def test_help_of_what_is_no_command_names_the_nearest() -> None:
    told = typed("help", "quary")
    assert told.exit_code == 2
    assert "Did you mean 'query'?" in told.stderr


@pytest.mark.parametrize(
    "arguments",
    [["Rename the table"], ["--technology", "python", "Rename the table"], ["table"], ["--input", "facts.json"]],
)
def test_a_query_without_a_kind_is_one_before_a_task(arguments: list[str]) -> None:
    root = make_lazy_group(app, before=lambda: None)
    query = root.commands["query"].make_context("query", [*arguments])
    assert query._protected_args[0] == "task"
    assert query.args == arguments


@pytest.mark.parametrize("arguments", [["faliure", "x"], ["tasks", "x"], ["gates"]])
def test_a_query_of_a_mistyped_kind_names_the_nearest(arguments: list[str]) -> None:
    told = typed("query", *arguments)
    assert told.exit_code == 2
    assert "Did you mean" in told.stderr
