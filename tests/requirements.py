"""`python -m tests.requirements`: each requirement of document Q&A with the tests that name it; fails on a missing one.

A test names an id in its own name (`test_a1_04_...`) or in its docstring ("A1-04, T26."). An id that does not apply has
a line in docs/document-qa.md that says why: `- A2-31: ...`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs" / "document-qa.md"


def _numbered(part: str, *ranges: tuple[int, int]) -> list[str]:
    return [f"{part}-{number:02}" for first, last in ranges for number in range(first, last + 1)]


IDS = (
    *_numbered("A0", (1, 16), (20, 28), (30, 52), (60, 63), (70, 75), (80, 88)),
    *_numbered("A1", (1, 26), (30, 35)),
    *_numbered("A2", (1, 31)),
    *_numbered("A4", (1, 30)),
    *_numbered("X", (1, 30)),
    "D3",
    "D4",
    "D5",
    *(f"F{number}" for number in range(1, 11)),
    "T14",
    "T15",
    "T26",
    "T27",
)
"""The requirements of the four systems, the contradictions that were settled, measured rules, design, threats."""

_IN_NAME = re.compile(r"(?<![a-z0-9])(a[0124]_\d\d|x_\d\d|[dft]\d{1,2})(?![0-9])")
_IN_TEXT = re.compile(r"\b(A[0124]-\d\d|X-\d\d|[DFT]\d{1,2})\b")
_APART = re.compile(r"^- (?:\*\*)?([A-Z]\d?-?\d*(?:, [A-Z]\d?-?\d+)*)(?:\*\*)?: (.+)$", re.MULTILINE)


def named(tests: Path = TESTS) -> dict[str, list[str]]:
    """Return for each id the tests that name it, as file::test."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        for test, text in _tests(path):
            ids = {name.upper().replace("_", "-") for name in _IN_NAME.findall(test)} | set(_IN_TEXT.findall(text))
            for each in ids:
                found.setdefault(each, []).append(f"{path.name}::{test}")
    return found


def _tests(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def apart(docs: Path = DOCS) -> dict[str, str]:
    """Return the ids that do not apply, with the reason."""
    text = docs.read_text(encoding="utf-8") if docs.exists() else ""
    return {each: why for ids, why in _APART.findall(text) for each in ids.split(", ")}


def missing(tests: Mapping[str, list[str]], reasons: Mapping[str, str]) -> list[str]:
    """Return the ids that neither a test nor a reason names."""
    return [each for each in IDS if each not in tests and each not in reasons]


def main() -> int:
    """Print the table; fails where an id is missing."""
    tests, reasons = named(), apart()
    for each in IDS:
        found = tests.get(each, [])
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        told = f"{found[0]}{more}" if found else f"does not apply: {reasons[each]}" if each in reasons else "MISSING"
        sys.stdout.write(f"{each:<6} {told}\n")
    left = missing(tests, reasons)
    sys.stdout.write(f"{len(IDS) - len(left)} of {len(IDS)} requirements are tested or do not apply\n")
    if left:
        sys.stderr.write(f"missing: {', '.join(left)}\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
