"""What a text says to whoever can read more than letters: other scripts, digits for letters, escapes, encodings."""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final
from urllib.parse import unquote

from knowledge.memory.orders import LOOKALIKES, RULES

_NAMED: Final = re.compile(
    r"(?:LATIN (?:CAPITAL|SMALL)? ?LETTER|REGIONAL INDICATOR SYMBOL LETTER)(?: [A-Z]+)* ([A-Z])(?: WITH .*)?"
)
_DIGITS_FOR_LETTERS: Final = str.maketrans("03456789@$+", "oeasgtbgast")
_ONE_LETTER: Final = str.maketrans("1!|il", "11111")
"""What is read as either of two letters, as one."""
_LEETED = re.compile(r"[a-z][0-9@$+!|]|[0-9@$!|][a-z]")
_TOKEN = re.compile(r"(?<![a-z0-9@$+!|])(?=[a-z]*[0-9@$+!|])[a-z0-9@$+!|]++")
_HYPHENED = re.compile(r"(?<![a-z])[a-z]++(?:(?:[-\u2010\u2011]\n?|[_.*~])[a-z]++)+")
_HYPHEN = re.compile(r"[-\u2010\u2011_.*~\s]+")
_ENTITY = re.compile(r"&#?[0-9A-Za-z]{2,8};")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_BACKSLASHED = re.compile(r"\\{1,4}(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8}))")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"\b(?:[0-9a-fA-F]{2}[ :]?){16,}\b")
_DEEPEST: Final = 4
"""So often a text is decoded: what is encoded once more nobody is meant to read."""
_WORD_LEAST: Final = 3


class _Folding(dict[int, str]):
    """What looks like a letter of ours, by its code; filled as texts come, no larger than Unicode is."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = made = char if char.isascii() else _folded(char)
        return made


_FOLDING: Final = _Folding()


def _folded(char: str) -> str:
    """Return the small letter that a character is or looks like, by our table or its name; itself where it is none."""
    if told := LOOKALIKES.get(ord(char)) or (len(char.upper()) == 1 and LOOKALIKES.get(ord(char.upper()))):
        return chr(told)
    if found := _NAMED.search(unicodedata.name(char, "")):
        return found[1].lower()
    plain = unicodedata.normalize("NFKD", char)
    return plain if plain == char else "".join(each for each in plain if not unicodedata.combining(each))


def folded(text: str) -> str:
    """Return a text with each letter of another script, or form, as the Latin one that it looks like."""
    straight = unicodedata.normalize("NFKC", text).translate(_FOLDING)
    return "".join(each for each in straight if not unicodedata.combining(each)).lower()


@cache
def _words() -> Mapping[str, str]:
    """Return the words that orders are made of, by how they look where 1, i and l are one."""
    told = {each for patterns in RULES.values() for pattern in patterns for each in re.findall(r"[a-z]{3,}", pattern)}
    return {each.translate(_ONE_LETTER): each for each in sorted(told) if len(each) >= _WORD_LEAST}


def respelt(plain: str) -> Iterator[str]:
    """Yield a text in small letters as it is meant where digits stand for letters, or hyphens cut words."""
    if _LEETED.search(plain):
        for one in "il":
            yield _TOKEN.sub(lambda found, one=one: _spelt(found[0], one), plain)  # type: ignore[misc]
    if _HYPHENED.search(plain):
        yield _HYPHENED.sub(_joined, plain)


def _spelt(token: str, one: str) -> str:
    told = token.translate(_DIGITS_FOR_LETTERS)
    word = _words().get(told.translate(_ONE_LETTER))
    return word or told.replace("1", one).replace("!", one).replace("|", one)


def _joined(found: re.Match[str]) -> str:
    """Return the pieces of a word as one, and words that hyphens join as words."""
    pieces = _HYPHEN.split(found[0])
    known = any(len(each) > _WORD_LEAST and each.translate(_ONE_LETTER) in _words() for each in pieces)
    return (" " if known else "").join(pieces)


def decoded(text: str) -> Iterator[str]:
    """Yield what is encoded in a text, and in that, each time all of it at once; nothing where nothing is a text.

    Raises TooDeep for what is encoded in what was decoded so often that nobody is meant to read it.
    """
    for _ in range(_DEEPEST):
        text = _decoded_once(text)
        if not text:
            return
        yield text
    if _decoded_once(text):
        raise TooDeep


class TooDeep(Exception):
    """A text is encoded within itself more often than it is decoded."""


def _decoded_once(text: str) -> str:
    """Return what a text is without escapes, or else what of it is written in base64 or hexadecimal digits."""
    plain = _unescaped(text)
    if plain != text:
        return plain
    pieces = [*map(_from_base64, _ENCODED.findall(text)), *map(_from_hex, _HEX.findall(text))]
    return "\n".join(filter(None, pieces))


def _unescaped(text: str) -> str:
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    if "%" in text and _PERCENT.search(text):
        text = unquote(text)
    return _BACKSLASHED.sub(_char, text) if "\\" in text else text


def _char(found: re.Match[str]) -> str:
    code = int(found[found.lastindex or 0], 16)
    return chr(code) if code < 0x110000 else found[0]


def _from_base64(run: str) -> str:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _as_text(base64.b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _from_hex(run: str) -> str:
    try:
        return _as_text(bytes.fromhex(run.replace(" ", "").replace(":", "")))
    except ValueError:
        return ""


def _as_text(told: bytes) -> str:
    """Return bytes as a text, and nothing where they are none."""
    wide = told[1::2].count(0) * 3 > len(told)  # as PowerShell takes it
    text = told.decode("utf-16-le" if wide else "utf-8")
    return text if text.isprintable() or any(each in text for each in "\n\r\t") else ""
