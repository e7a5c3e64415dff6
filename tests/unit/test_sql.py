"""T17: no statement is put together from text, and what callers write reaches Postgres as a parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import knowledge
from tests.support.cases import each_case

ROOT = Path(knowledge.__file__).parent.parent
SENDS = {
    "text",
    "execute",
    "executemany",
    "exec_driver_sql",
    "fetch",
    "fetchrow",
    "fetchval",
    "scalar",
    "literal_column",
}
"""What takes a statement as text, by SQLAlchemy or the driver."""


def built(source: str) -> Iterator[int]:
    """Yield the lines at which a statement is an f-string, a sum, or the result of `%` or `format`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = node.args[0]
        together = isinstance(given, ast.JoinedStr | ast.BinOp) or (
            isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "format"
        )
        if name in SENDS and together:
            yield node.lineno


@pytest.mark.long
def test_t17_no_statement_is_put_together_from_text() -> None:
    """T17. 0 in everything that is installed; a test may build what it likes."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("knowledge", "orchestrator", "jobs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in built(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@each_case
def test_the_lint_bites(statement: str) -> None:
    assert list(built(statement))
