"""Regular expressions that whoever captures an entry may write, matched in time that no expression can blow up.

Python's own engine tries one way after another, which takes for ever with `(a+)+$`. Here all ways are followed at once
(Thompson 1968) and the steps are kept (a lazy automaton), so that a text costs a bounded step a character.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

MAX_CHARS = 200
"""An expression has at most so many characters."""

MAX_STATES = 200
"""Characters an expression matches, once each repetition such as `{3}` is written out."""

MAX_TEXT_CHARS = 2_000
"""Of a longer text the first and the last half of this are looked at; half a second at the very worst (measured)."""

_MAX_STEPS_KEPT = 20_000
_REPETITION = re.compile(r"\{(\d{1,3})(,(\d{0,3}))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPES = frozenset("dDwWsStnrfv")
_IGNORE_CASE = "(?i)"

_START, _NEWLINE, _WORD, _OTHER = range(4)
"""What stands before a position."""


@dataclass(frozen=True, slots=True)
class _One:
    """One character, by an expression of Python's for it."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class _Where:
    """No character: `^`, `$` or `b`, the edge of a word."""

    kind: str


@dataclass(frozen=True, slots=True)
class _All:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Either:
    ways: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeated:
    what: _Node
    least: int
    most: int | None


_Node: TypeAlias = "_One | _Where | _All | _Either | _Repeated"


@lru_cache(maxsize=512)
def expression(source: str) -> Expression:
    r"""Return a regular expression, ready to be looked for. Raises ValueError, saying what is not allowed.

    Allowed is what Python's `re` knows of: characters, `.`, classes in brackets, `\d \D \w \W \s \S \t \n`, `\b`,
    `^` and `$` (of a line), groups, `|`, and the repetitions `? * + {2} {2,} {2,5}`, greedy or not, which is the
    same here. `(?i)` in front ignores case. Not allowed: back references, look-around and possessive repetitions.
    """
    if len(source) > MAX_CHARS:
        raise ValueError(f"has {len(source)} characters, more than the {MAX_CHARS} allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(source)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from error
    flags = re.IGNORECASE if source.startswith(_IGNORE_CASE) else re.NOFLAG
    tree = _Reader(source.removeprefix(_IGNORE_CASE), flags).read()
    made = Expression()
    made.begin = made.add(tree, made.end)
    return made


@dataclass(slots=True)
class _Reader:
    """Reads an expression from left to right; what Python itself refuses was refused before."""

    left: str
    flags: re.RegexFlag

    def read(self) -> _Node:
        ways = [self._row()]
        while self._skip("|"):
            ways.append(self._row())
        return ways[0] if len(ways) == 1 else _Either(tuple(ways))

    def _row(self) -> _Node:
        parts: list[_Node] = []
        while self.left and self.left[0] not in "|)":
            parts.append(self._repeated(self._one()))
        return _All(tuple(parts))

    def _one(self) -> _Node:
        if self._skip("("):
            if self.left.startswith("?") and not self._skip("?:"):
                raise ValueError("may have groups, and (?i) in front, but nothing else that begins with (?")
            inner = self.read()
            self._skip(")")
            return inner
        if self.left[0] == "[" and (match := _CLASS.match(self.left)):
            return self._taken(match.group())
        if self.left[0] == "\\":
            letter = self.left[1]
            if letter == "b":
                self.left = self.left[2:]
                return _Where(letter)
            if letter.isalnum() and letter not in _ESCAPES:
                raise ValueError(f"may not have \\{letter}")
            return self._taken(self.left[:2])
        if self.left[0] in "^$":
            return _Where(self._cut(1))
        if self.left[0] == "{":
            raise ValueError("has a { that repeats nothing: write \\{ for the character")
        return self._taken(self.left[0])

    def _taken(self, source: str) -> _One:
        self._cut(len(source))
        return _One(re.compile(source, self.flags))

    def _repeated(self, what: _Node) -> _Node:
        match = _REPETITION.match(self.left)
        if match:
            least = int(match.group(1))
            most = least if match.group(2) is None else int(match.group(3)) if match.group(3) else None
            self._cut(match.end())
        elif self.left[:1] and self.left[0] in "?*+":
            least, most = {"?": (0, 1), "*": (0, None), "+": (1, None)}[self._cut(1)]
        else:
            return what
        self._skip("?")
        if self.left.startswith("+"):
            raise ValueError("may not have possessive repetitions")
        return _Repeated(what, least, most)

    def _skip(self, mark: str) -> bool:
        if not self.left.startswith(mark):
            return False
        self._cut(len(mark))
        return True

    def _cut(self, length: int) -> str:
        taken, self.left = self.left[:length], self.left[length:]
        return taken


_States: TypeAlias = frozenset[int]


@dataclass(slots=True)
class Expression:
    """The automaton of an expression: states by number, each with what it asks and where it leads."""

    asks: list[_One | _Where | None] = field(default_factory=lambda: [None])
    leads_to: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    begin: int = 0
    end: int = 0
    _steps: dict[tuple[_States, int, str], tuple[_States, int] | None] = field(default_factory=dict)

    def found_in(self, text: str) -> bool:
        """Return whether any part of a text matches; of a long one the beginning and the end are looked at."""
        if len(text) > MAX_TEXT_CHARS:
            text = f"{text[: MAX_TEXT_CHARS // 2]}\n{text[-MAX_TEXT_CHARS // 2 :]}"
        states, before = frozenset[int](), _START
        for letter in (*text, ""):
            key = (states, before, letter)
            try:
                step = self._steps[key]
            except KeyError:
                if len(self._steps) >= _MAX_STEPS_KEPT:
                    self._steps.clear()
                step = self._steps[key] = self._step(states, before, letter)
            if step is None:
                return True
            states, before = step
        return False

    def add(self, node: _Node, then: int) -> int:
        """Add the states of a part that goes on to state `then`; return where it begins."""
        match node:
            case _One() | _Where():
                return self._state(node, (then,))
            case _All():
                for part in reversed(node.parts):
                    then = self.add(part, then)
                return then
            case _Either():
                return self._state(None, tuple(self.add(way, then) for way in node.ways))
            case _Repeated():
                return self._add_repeated(node, then)

    def _add_repeated(self, node: _Repeated, then: int) -> int:
        if node.most is None:
            loop = self._state(None, ())
            self.leads_to[loop] = (self.add(node.what, loop), then)
            then = loop
        else:
            skip = then
            for _ in range(node.most - node.least):
                then = self._state(None, (self.add(node.what, then), skip))
        for _ in range(node.least):
            then = self.add(node.what, then)
        return then

    def _state(self, asks: _One | _Where | None, leads_to: tuple[int, ...]) -> int:
        if len(self.asks) > 4 * MAX_STATES or sum(isinstance(each, _One) for each in self.asks) > MAX_STATES:
            raise ValueError(f"is too large: with its repetitions written out it has more than {MAX_STATES} characters")
        self.asks.append(asks)
        self.leads_to.append(leads_to)
        return len(self.asks) - 1

    def _step(self, states: _States, before: int, letter: str) -> tuple[_States, int] | None:
        """Return where a character leads, None where the end is reached before it. A match may begin anywhere."""
        reached: set[int] = set()
        following: set[int] = set()
        waiting = [self.begin, *states]
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            asked = self.asks[state]
            if isinstance(asked, _One):
                if letter and asked.pattern.fullmatch(letter):
                    following.update(self.leads_to[state])
            elif asked is None or _holds(asked.kind, before, letter):
                waiting.extend(self.leads_to[state])
        return None if self.end in reached else (frozenset(following), _kind(letter))


def _holds(kind: str, before: int, letter: str) -> bool:
    match kind:
        case "^":
            return before in {_START, _NEWLINE}
        case "$":
            return letter in {"", "\n"}
        case _:
            return (before == _WORD) != (_kind(letter) == _WORD)


def _kind(letter: str) -> int:
    if letter == "\n":
        return _NEWLINE
    return _WORD if letter.isalnum() or letter == "_" else _OTHER
