"""Invisible and control characters; stripped before text is matched or shown."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = bytes([*range(0x09), *range(0x0E, 0x1C), 0x1F, 0x7F])
_INVISIBLE: Final = re.compile(
    r"(?:\x1b\[[0-?]{0,64}|\x9b[0-?]{1,64})[ -/]{0,8}[@-~]"  # control sequences of terminals, in seven or eight bits
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n\r\v\f\x1c-\x1e\x85\u2028\u2029]{0,2048}(?:\x07|\x1b\\|\x9c)"
    "|[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\U00013430-\U00013440\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    f"{''.join(chr(plane << 16 | last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF))}]"
)
"""Unicode's Default_Ignorable_Code_Point and noncharacters, and format characters of some scripts."""
_BLANK: Final = "\u2800"
"""Braille without a dot: a letter to programs, a blank to readers."""


def visible_text(text: str) -> str:
    """Return a text without invisible characters and terminal colours; line breaks stay, blank Braille becomes a space.

    Returns the same object if there is nothing to strip.
    """
    if text.isascii() and len(text.encode().translate(None, _CONTROLS)) == len(text):
        return text
    stripped = _INVISIBLE.sub("", text.replace(_BLANK, " "))
    return text if stripped == text else stripped
