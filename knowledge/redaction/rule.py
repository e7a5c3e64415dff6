"""What a rule is: the form of one kind of secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import re2

HIDDEN: Final = 0xFF
"""Stands for what is hidden already, while a text is worked on: UTF-8 never holds this byte."""

Check = Callable[[bytes, bytes], int]
"""Given what was found and what led to it, return how many bytes of it are to be hidden; 0 for none."""

_MEMORY = 4 * 1024 * 1024
_MEMORY_OF_ALL = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One form of secret.

    `pattern` finds the secret itself, or, where there is a `value`, what leads to it; `value` then begins where that
    ends, and its group is the secret. What leads to a secret without a `value` is the byte before it. `hint` is found
    in every text that has the secret, and soon says so. `alone`: not where letters or digits are joined to it.
    `repeats`: it is hidden wherever else it stands in the text. `each`: values follow one another. `personal`: gives
    way to secrets.
    """

    kind: str
    hint: bytes
    pattern: re2._Regexp
    value: re.Pattern[bytes] | None = None
    check: Check | None = None
    alone: bool = False
    repeats: bool = False
    each: bool = False
    personal: bool = False


def token(kind: str, pattern: str, *, hint: str | None = None, alone: bool = False, check: Check | None = None) -> Rule:
    """Return the rule of a secret that its own form gives away; without a hint the pattern is its own."""
    return Rule(kind=kind, hint=(hint or pattern).encode(), pattern=compiled(pattern), check=check, alone=alone)


def assigned(
    kind: str, lead: str, value: re.Pattern[bytes], check: Check, *, hint: str | None = None, each: bool = False
) -> Rule:
    """Return the rule of a secret that what leads to it gives away."""
    return Rule(
        kind=kind,
        hint=(hint or lead).encode(),
        pattern=compiled(lead),
        value=value,
        check=check,
        repeats=True,
        each=each,
    )


def personal(
    kind: str, pattern: str, check: Check, *, hint: str | None = None, value: re.Pattern[bytes] | None = None
) -> Rule:
    """Return the rule of data that a person is known by."""
    return Rule(
        kind=kind,
        hint=(hint or pattern).encode(),
        pattern=compiled(pattern),
        value=value,
        check=check,
        alone=True,
        personal=True,
    )


class Automaton:
    """Tells in one pass which of many patterns a text has, or, with `whole`, is."""

    def __init__(self, patterns: Sequence[bytes], *, whole: bool = False) -> None:
        kind = re2.Set.FullMatchSet if whole else re2.Set.SearchSet
        self._set = kind(_options(_MEMORY_OF_ALL))
        for pattern in patterns:
            self._set.Add(pattern)
        self._set.Compile()

    def of(self, text: bytes) -> list[int]:
        """Return the numbers of the patterns, in no order."""
        return self._set.Match(text) or []


def compiled(pattern: str) -> re2._Regexp:
    """Return a pattern without groups, which takes no more than two automata to find."""
    made = re2.compile(pattern.encode(), _options(_MEMORY))
    if made.groups:
        raise ValueError(f"{pattern!r} has groups")
    return made


def _options(max_mem: int) -> re2.Options:
    """Return how patterns are read: as bytes, so that places in the text need not be counted anew."""
    told = re2.Options()
    told.encoding = re2.Options.Encoding.LATIN1
    told.log_errors = False
    told.max_mem = max_mem
    return told
