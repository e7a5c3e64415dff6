"""What routes, tools and commands were before they came from one table, and what differs since: each on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support import doors

BEFORE = Path(__file__).parent / "doors"

ROUTES: Mapping[str, str] = {}
TOOLS: Mapping[str, str] = {}
COMMANDS: Mapping[str, str] = {}
"""What differs from the files, by the name that a line begins with, and why."""


@pytest.mark.parametrize(
    ("name", "lines", "meant"),
    [
        ("routes", doors.routes, ROUTES),
        ("tools", doors.tools, TOOLS),
        ("helps", doors.helps, COMMANDS),
    ],
    ids=["routes", "tools", "commands"],
)
def test_what_differs_from_before_is_listed(
    name: str, lines: Callable[[], list[str]], meant: Mapping[str, str]
) -> None:
    before = _by_name((BEFORE / f"{name}.txt").read_text(encoding="utf-8").splitlines())
    now = _by_name(lines())
    differs = {each for each in before.keys() | now.keys() if before.get(each) != now.get(each)}
    shown = "\n".join(f"- {before.get(each)}\n+ {now.get(each)}" for each in sorted(differs - meant.keys()))
    assert not shown, f"not listed:\n{shown}"
    assert meant.keys() <= differs, "listed, though it is as before"


def _by_name(lines: list[str]) -> dict[str, str]:
    """Return lines by what they begin with: a method and path, the name of a type, a tool or a command."""
    named = {line.partition(" takes ")[0].partition(": ")[0].partition(" [")[0]: line for line in lines}
    assert len(named) == len(lines)
    return named
