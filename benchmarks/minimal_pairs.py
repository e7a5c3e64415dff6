"""Pairs of texts that differ in one particular, and therefore tell of different things: made from real texts.

Each edit changes one number, version, identifier, path, error code, exception type or negation, at one place or, every
other time, wherever it stands. The seed is fixed: the same texts give the same pairs. In a stack trace the number of a
line of code is no particular: whatever is written above moves it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from knowledge.text.stack_traces import read_trace

_SEED = 20260115
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\.\d)(?!\w)")
_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)+\b|\bv\d+(?:\.\d+)*\b")
_IDENTIFIER = re.compile(
    r"\b(?:[A-Za-z]+_\w+|_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)\b|(?<=[`\"'])[A-Za-z]\w+(?=[`\"'])"
)
_PATH = re.compile(r"(?<![\w/])(?:[\w.-]+/)+[\w.-]*\w|(?<!\w)(?:/[\w.-]+){2,}")
_CODE = re.compile(r"\b[A-Z]{1,6}\d{2,5}\b|\b[A-Z]{2,12}-\d+\b")
_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b")
_EXCEPTIONS = ("ValueError", "KeyError", "TimeoutError", "PermissionError", "NullPointerException", "IOException")
_TURNED = (
    ("is not", "is"), ("are not", "are"), ("cannot", "can"), ("does not", "does"), ("could not", "could"),
    ("is", "is not"), ("are", "are not"), ("can", "cannot"), ("has", "has not"), ("should", "should not"),
    ("enable", "disable"), ("enabled", "disabled"), ("fails", "succeeds"), ("failed", "succeeded"),
    ("before", "after"), ("up", "down"), ("with", "without"), ("has no", "has"), ("not", ""),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """A text, the same text with one particular changed, and which kind of particular it is."""

    kind: str
    text: str
    changed: str


def minimal_pairs(texts: Sequence[str]) -> list[MinimalPair]:
    """Return a pair for each text and each kind of particular that it holds."""
    made = []
    known = sorted({name for text in texts for name in _IDENTIFIER.findall(text)})
    for text in texts:
        rng = random.Random(f"{_SEED}{text}")
        for kind, changed in _edits(text, known, rng):
            if changed and _told(changed) != _told(text):
                made.append(MinimalPair(kind, text, changed))
    return made


def _told(text: str) -> str:
    trace = read_trace(text)
    return " ".join((trace.full if trace else text).split()).casefold()


def _edits(text: str, known: Sequence[str], rng: random.Random) -> Iterable[tuple[str, str | None]]:
    yield "number", _edited(text, _NUMBER, lambda found: str(int(float(found)) + rng.choice((1, 2, 7, 40))), rng)
    yield "version", _edited(text, _VERSION, lambda found: _next_version(found, rng), rng)
    yield "identifier renamed", _edited(text, _IDENTIFIER, lambda found: _renamed(found, rng), rng)
    yield "identifier exchanged", _edited(text, _IDENTIFIER, lambda found: _another(known, found, rng), rng)
    yield "path", _edited(text, _PATH, lambda found: _moved(found, rng), rng)
    yield "error code", _edited(text, _CODE, lambda found: found[:-1] + str((int(found[-1]) + 3) % 10), rng)
    yield "exception type", _edited(text, _EXCEPTION, lambda found: _another(_EXCEPTIONS, found, rng), rng)
    yield "negation", _turned(text, rng)


def _edited(text: str, wanted: re.Pattern[str], change: Callable[[str], str], rng: random.Random) -> str | None:
    """Change one match, or every occurrence of what was matched."""
    found = list(wanted.finditer(text))
    if not found:
        return None
    match = rng.choice(found)
    new = change(match.group())
    if rng.random() < 0.5:
        return re.sub(rf"(?<!\w){re.escape(match.group())}(?!\w)", lambda _: new, text)
    return text[: match.start()] + new + text[match.end() :]


def _next_version(found: str, rng: random.Random) -> str:
    head, last = re.fullmatch(r"(.*?)(\d+)", found, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{head}{int(last) + rng.choice((1, 2, 10))}"


def _renamed(found: str, rng: random.Random) -> str:
    return found + rng.choice(("_2", "Base", "s", "_async", "Id")) if rng.random() < 0.5 else rng.choice("xyz") + found


def _another(known: Sequence[str], found: str, rng: random.Random) -> str:
    return rng.choice([name for name in known if name != found] or [f"{found}2"])


def _moved(found: str, rng: random.Random) -> str:
    parts = found.split("/")
    at = rng.choice([place for place, part in enumerate(parts) if part])
    parts[at] = rng.choice(("other", "backup", "v2", parts[at] + "2"))
    return "/".join(parts)


def _turned(text: str, rng: random.Random) -> str | None:
    held = [(old, new) for old, new in _TURNED if re.search(rf"\b{old}\b", text)]
    if not held:
        return None
    old, new = rng.choice(held)
    return re.sub(rf"\b{old}\b", new, text, count=1)
