"""Text that commands print for a person of what they were given."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import orchestrator.cli
from orchestrator.cli.reports.memory_report import print_patterns
from tests.support.entries import pattern

COMMANDS = Path(orchestrator.cli.__file__).parent


def test_the_reports_that_commands_name_are_functions() -> None:
    """A name is looked up when its command prints: a mistyped one was found by whoever ran that."""
    sources = [path.read_text(encoding="utf-8") for path in COMMANDS.rglob("*.py")]
    named = {name for source in sources for name in re.findall(r'"(\w+_report:\w+)"', source)}
    assert len(named) > 10
    for name in named:
        module, function = name.split(":")
        assert callable(getattr(import_module(f"orchestrator.cli.reports.{module}"), function, None)), name


def test_a_query_says_of_how_many_attempts_a_pattern_worked_where_some_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = ((1, 15), (1, 1), (4, 4))
    print_patterns([pattern(success_count=worked, attempt_count=of) for worked, of in records], as_json=False)
    heads = [line for line in capsys.readouterr().out.splitlines() if "relevance" in line]
    assert [head.split(", relevance")[0] for head in heads] == [
        "1. Less Common, 1 of 15 attempts",
        "2. Less Common, 1 success",
        "3. Moderate, 4 successes",
    ]
