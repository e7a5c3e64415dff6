"""Redaction rules: patterns for one form of a secret each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import re2

HIDDEN: Final = 0xFF
"""Placeholder byte for hidden secrets while a text is processed; it never occurs in UTF-8."""

Check = Callable[[bytes, bytes], int]
"""Takes a candidate and the bytes that lead to it; returns the number of bytes to hide, 0 for none."""

_MEMORY = 4 * 1024 * 1024
_SET_MEMORY = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One form of a secret.

    `pattern` matches the secret itself, or, with a `value`, the lead before it; `value` is matched right behind the
    lead, and its group is the secret. The lead of a secret without a `value` is the byte before it. `hint` is a cheap
    pattern that matches every text with the secret. `alone`: not next to letters or digits. `repeats`: other
    occurrences in the text are hidden, too. `each`: several values may follow. `personal`: gives way to secrets.
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


def token_rule(
    kind: str, pattern: str, *, hint: str | None = None, alone: bool = False, check: Check | None = None
) -> Rule:
    """Return the rule of a secret that is recognised by its own form; `hint` defaults to the pattern."""
    return Rule(kind=kind, hint=(hint or pattern).encode(), pattern=compile_pattern(pattern), check=check, alone=alone)


def context_rule(
    kind: str, lead: str, value: re.Pattern[bytes], check: Check, *, hint: str | None = None, each: bool = False
) -> Rule:
    """Return the rule of a secret that is recognised by its context, `lead`."""
    return Rule(
        kind=kind,
        hint=(hint or lead).encode(),
        pattern=compile_pattern(lead),
        value=value,
        check=check,
        repeats=True,
        each=each,
    )


def personal_rule(
    kind: str, pattern: str, check: Check, *, hint: str | None = None, value: re.Pattern[bytes] | None = None
) -> Rule:
    """Return the rule of a kind of personal data."""
    return Rule(
        kind=kind,
        hint=(hint or pattern).encode(),
        pattern=compile_pattern(pattern),
        value=value,
        check=check,
        alone=True,
        personal=True,
    )


class Automaton:
    """Finds in one pass which of many patterns match in a text, or, with `whole`, match it entirely."""

    def __init__(self, patterns: Sequence[bytes], *, whole: bool = False) -> None:
        kind = re2.Set.FullMatchSet if whole else re2.Set.SearchSet
        self._set = kind(_options(_SET_MEMORY))
        for pattern in patterns:
            self._set.Add(pattern)
        self._set.Compile()

    def of(self, text: bytes) -> list[int]:
        """Return the numbers of the matching patterns, unordered."""
        return self._set.Match(text) or []


def compile_pattern(pattern: str) -> re2._Regexp:
    """Compile a pattern; groups are not allowed, so that two DFA passes are enough."""
    compiled = re2.compile(pattern.encode(), _options(_MEMORY))
    if compiled.groups:
        raise ValueError(f"{pattern!r} has groups")
    return compiled


def _options(max_mem: int) -> re2.Options:
    """Return the RE2 options: Latin-1, so that offsets are in bytes."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = max_mem
    return options
