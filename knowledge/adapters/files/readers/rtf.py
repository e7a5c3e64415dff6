"""Rewrite the elements of RTF that its converter drops or joins; what stays is converted as before."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_TOKEN = re.compile(
    rb"\\bin(\d{1,9}) ?|\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|([^\\{}]+)", re.DOTALL
)
_SIGNS: Final = {b"_": b"-", b"-": b"", b"~": b" "}
"""Non-breaking and optional hyphen, non-breaking space."""
_WORDS: Final = {b"tab": b" ", b"emspace": b" ", b"enspace": b" ", b"qmspace": b" "}
_LIST_SIGNS: Final = frozenset({b"listtext", b"pntext"})
"""Begin the number of a step, which is text like any other without them."""
_CHARACTERS: Final = frozenset(b"bullet endash emdash lquote rquote ldblquote rdblquote line par".split())
_MAX_DEPTH: Final = 2000


@dataclass(frozen=True, slots=True)
class _State:
    hidden: bool = False
    raised: bool = False
    lowered: bool = False
    caps: bool = False


def rewrite_rtf(content: bytes) -> bytes:  # noqa: C901, PLR0912 - a branch for each kind of token
    """Return RTF without hidden and deleted text, with superscripts as `10^6`, hyphens and tabs as characters.

    Raises ValueError for groups that are nested too deeply.
    """
    state = _State()
    stack: list[_State] = []
    written = bytearray()
    mark, at = b"", 0
    while found := _TOKEN.match(content, at):
        at = found.end()
        binary, word, number, _, sign, brace, _ = found.groups()
        if binary is not None:
            at += int(binary)
        elif brace == b"{":
            stack.append(state)
            if len(stack) > _MAX_DEPTH:
                raise ValueError("its groups are nested too deeply")
            written += brace
        elif brace == b"}":
            state = stack.pop() if stack else state
            written += brace
        elif word is not None:
            state = _after(state, word, number)
            shown = _WORDS.get(word)
            if word in {b"super", b"sub", b"nosupersub"} or (word in {b"up", b"dn", b"v", b"deleted"}):
                mark = b"^" if state.raised else b"_" if state.lowered else b""
            elif shown is not None:
                written += b"" if state.hidden else b"{}" + shown
            elif word in _LIST_SIGNS:
                continue
            elif not (state.hidden and (word == b"u" or word in _CHARACTERS)):
                written += found[0]
        elif state.hidden:
            continue
        elif sign is not None:
            written += (b"{}" + _SIGNS[sign]) if sign in _SIGNS else found[0]
        else:
            piece = found[0]
            if mark and piece.strip():
                joined = mark == b"_" and written[-1:].isalpha()
                written += b"" if joined else b"{}" + mark
                mark = b""
            written += piece
        if not state.raised and not state.lowered:
            mark = b""
    return bytes(written) + content[at:]


def _after(state: _State, word: bytes, number: bytes | None) -> _State:
    """Return the state of the text behind a control word."""
    on = number != b"0"
    match word:
        case b"plain":
            return _State()
        case b"v" | b"deleted":
            return replace(state, hidden=on)
        case b"super" | b"up":
            return replace(state, raised=on, lowered=False)
        case b"sub" | b"dn":
            return replace(state, lowered=on, raised=False)
        case b"nosupersub":
            return replace(state, raised=False, lowered=False)
    return state
