"""Stored text on a page: invisible and control characters by name, long texts cut, suspicious places marked."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from markupsafe import Markup, escape

MAX_SHOWN_CHARS: Final = 8000
"""Characters of one text that a page shows before it offers the whole, ours: pages stay small."""
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_SECTION: Final = re.compile(r"#{2,6} ")
"""The mark of a heading of a section in Markdown."""
_EMPHASIS: Final = re.compile(r"(\*\*|`)([^*`]+)\1")
"""Bold words and code of Markdown, which a list shows without their marks."""
_EMOJI_PARTS: Final = {"\ufe0f", "\u200d"}
"""Invisible characters that emoji are made of, behind a symbol."""


@lru_cache(maxsize=512)
def character_name(character: str) -> str:
    """Return the code point of a character and its name, where it has one."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".strip()


def _is_shown(match: re.Match[str]) -> bool:
    """Return whether a hidden character is only a part of an emoji."""
    before = match.string[match.start() - 1 : match.start()]
    return match[0] in _EMOJI_PARTS and bool(before) and unicodedata.category(before) in {"So", "Sk", "Mn"}


def name_hidden(text: str) -> str:
    """Return a text with the code points of its invisible and control characters in their place, as plain text."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(lambda match: match[0] if _is_shown(match) else f"\u27e8U+{ord(match[0]):04X}\u27e9", text)


def show_text(text: str) -> Markup:
    """Return a text as HTML, each invisible or control character as a mark that says its name."""
    parts: list[Markup] = []
    end = 0
    for match in _HIDDEN.finditer(text):
        if _is_shown(match):
            continue
        name = character_name(match[0])
        mark = Markup('<span class="hidden-char" title="{}">{}</span>').format(name, name.partition(" ")[0])
        parts += [escape(text[end : match.start()]), mark]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def first_line(text: str, limit: int = 160) -> str:
    """Return the first line of a text that says anything, cut to so many characters, for a list.

    Of a text in sections, the heading of the first (`## What it does`) is passed over: it says what stands in each such
    text there. A single heading is a title.
    """
    lines = [line for line in text.splitlines() if line.strip(" \t#*`>-=_")] or [text]
    line = lines[0]
    if (heading := _SECTION.match(line)) and sum(each.startswith(heading[0]) for each in lines) > 1:
        line = next((each for each in lines if not _SECTION.match(each)), line)
    line = _EMPHASIS.sub(r"\2", line.strip().lstrip("#>").strip())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}\u2026"


def cut_text(text: str, limit: int = MAX_SHOWN_CHARS) -> tuple[str, int]:
    """Return the beginning of a text and the number of characters left out."""
    return (text, 0) if len(text) <= limit else (text[:limit], len(text) - limit)
