"""The tests that fail in the output of a test runner, by name and in words.

A test's name says in a few words what should hold. A situation that begins with them is found by a paraphrase of the
task, and by the test's name alone: relevance .80 to .90 where the command and the whole output give none to .82
(measured 2026-11-27 on one failure, seven questions; questions about other tests stay without a hint).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TEST_LINE = re.compile(
    r"^(?:(?:ERROR|FAIL): (?P<unittest>\w+) \(|(?:FAILED|ERROR) (?P<pytest>\S+::\S+?)(?: - |$)|\s*--- FAIL: (?P<go>\S+)"
    r"|test (?P<rust>\S+) \.\.\. FAILED|\s*● (?P<jest>.+)|\s+[×✕✗] (?P<vitest>.+?)(?: \d+ ?ms)?$"  # noqa: RUF001 - vitest's sign
    r"|not ok \d+ -? ?(?P<tap>.+)|\s{1,4}\d+\) (?P<mocha>\S.*)|rspec \S+ # (?P<rspec>.+)"
    r"|\[ERROR\]\s+(?P<maven>\w+(?:\.\w+)+)(?::\d+)?\b|\s*Failed (?P<dotnet>[\w.]+) \[)",
    re.MULTILINE,
)
_NOISE = re.compile(
    r"^(?:Traceback \(most|FAILED \(|=+|-+$|Ran \d|\d+ (?:passed|failed)|\[?(?:INFO|ERROR)\]? Tests run)"
)
_MAX_NAMES = 3
_MAX_NAME_CHARS = 120
_SEPARATORS = re.compile(r"::|\u203a|>|/|\.(?=\w+$)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def failing_tests(text: str, *, most: int = _MAX_NAMES) -> list[str]:
    """Return the names of the first tests that fail in an output, each once, without files and parameters."""
    names: dict[str, None] = {}
    for match in _TEST_LINE.finditer(text):
        told = match[match.lastgroup or 0].strip()
        name = _SEPARATORS.split(re.sub(r"\[[^\]]*\]$|\(\)$", "", told))[-1].strip(" :")
        if name and re.search(r"[A-Za-z]", name):
            names[name[:_MAX_NAME_CHARS]] = None
        if len(names) == most:
            break
    return list(names)


def name_in_words(name: str) -> str:
    """Return what a test's name says: `test_missing_price_is_zero` as `missing price is zero`."""
    words = _CAMEL.sub(" ", name).replace("_", " ").replace("-", " ").split()
    if len(words) > 1 and words[0].lower() in {"test", "tests", "it", "should"}:
        words = words[1:]
    return " ".join(word.lower() if word.istitle() else word for word in words)


def describe_tests(names: Sequence[str]) -> str | None:
    """Return what tests say should hold, None where it is no more than a word each."""
    told = [words for name in names if " " in (words := name_in_words(name))]
    return "; ".join(told) or None


def is_of_frame(line: str) -> bool:
    """Return whether a line of an output names a test or counts results, rather than says what went wrong."""
    return bool(_TEST_LINE.match(line) or _NOISE.match(line))
