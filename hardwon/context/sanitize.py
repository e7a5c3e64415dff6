"""Sanitising of stored text before it is shown: no invisible characters, plain line breaks, no context markers."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from hardwon.text.invisible import visible_text

_MARKER = re.compile(r"\[(?=\s*(?:end\s+context|orchestrator\s+context))", re.IGNORECASE)
_LINE_BREAKS = re.compile("\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_BRACKETS = str.maketrans(
    dict.fromkeys("\u2045\u2772\u27e6\u2983\u2985\u3010\u3014\u3016\u3018\u301a\ufe47\ufe5d\uff3b\uff5f", "[")
)
_LETTERS = str.maketrans(
    # Cyrillic, then Greek
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456"
    "\u0405\u0406\u0501\u0391\u0395\u0397\u0399\u039d\u039f\u03a1\u03a4\u03a7\u0396\u03bf\u03f9",
    "ABEKMHOPCTYXaeopcyxi" + "SIdAEHINOPTXZoC",
)


def sanitize(text: str) -> str:
    """Return stored text without invisible characters, with plain line breaks and broken markers."""
    shown = _MARKER.sub("(", visible_text(_LINE_BREAKS.sub("\n", text)))
    return (shown if shown.isascii() else _break_lookalike_markers(shown)).strip()


def _break_lookalike_markers(text: str) -> str:
    """Break markers in wide, mathematical or foreign letters: no parser takes them for ours, but a reader may."""
    folded = "".join(map(_fold_char, text))
    chars = list(text)
    for match in _MARKER.finditer(folded):
        chars[match.start()] = "("
    return "".join(chars)


@lru_cache(maxsize=4096)
def _fold_char(char: str) -> str:
    """Return the ASCII letter or bracket that a character looks like, else the character: always exactly one."""
    if char.isascii():
        return char
    plain = unicodedata.normalize("NFKC", char.translate(_BRACKETS).translate(_LETTERS))
    return plain if len(plain) == 1 else char
