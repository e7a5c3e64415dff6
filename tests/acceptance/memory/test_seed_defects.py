"""Every defect of the design's code has a test that proves it absent and names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
LATER = {"D49"}
"""Keys and scopes."""
DEFECTS = {f"D{number}" for number in range(1, 50)}


def docstrings() -> Iterator[str]:
    """Yield what each test says of itself."""
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield ast.get_docstring(node) or ""


@pytest.mark.long
def test_every_defect_of_the_seed_is_named_by_a_test() -> None:
    named = {each for text in docstrings() for each in re.findall(r"\bD\d+\b", text)}
    assert named <= DEFECTS, "there is no such defect"
    assert DEFECTS - LATER - named == set()
