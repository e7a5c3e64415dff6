"""Decoding of disguised text: lookalike letters, digits for letters, hyphenated words, escapes, encodings."""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import chain
from typing import Final
from urllib.parse import unquote

from knowledge.memory.capture.injection_rules import LOOKALIKES, RULES
from knowledge.memory.capture.orders.order_rules import SOURCE_RULES

_LATIN_NAME: Final = re.compile(
    r"(?:[A-Z]+ )*?(?:LATIN (?:CAPITAL|SMALL)? ?LETTER|REGIONAL INDICATOR SYMBOL LETTER)"
    r"(?: [A-Z]{2,})*? ([A-Z])(?: WITH .*)?"
)
_DIGITS_FOR_LETTERS: Final = str.maketrans("03456789@$+", "oeasgtbgast")
_ONE_LETTER: Final = str.maketrans("1!|il", "11111")
"""Characters that stand for either i or l, mapped to one character."""
LEET: Final = r"[a-z][0-9@$+!|]|[0-9@$!|][a-z]"
"""Digits beside letters, which may stand for letters."""
HYPHENED: Final = r"[a-z][-_.*~\x{2010}\x{2011}]\n?[a-z]"
"""Signs between letters, which may split a word."""
_TOKEN = re.compile(r"(?<![a-z0-9@$+!|])(?=[a-z]*[0-9@$+!|])[a-z0-9@$+!|]++")
_HYPHENED = re.compile(r"(?<![a-z])[a-z]++(?:(?:[-\u2010\u2011]\n?|[_.*~])[a-z]++)+")
_HYPHEN = re.compile(r"[-\u2010\u2011_.*~\s]+")
_ENTITY = re.compile(r"&#?[0-9A-Za-z]{2,8};")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_BACKSLASHED = re.compile(r"\\{1,4}(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8}))")
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}+={0,2}")
RUNS: Final = (r"[a-z0-9+/_-]{16}", r"(?:[0-9a-f]{2}[ :]?){16}")
"""Runs of characters that may be base64 or hexadecimal digits."""
_HEX = re.compile(r"\b(?:0x)?((?:[0-9a-fA-F]{2}[ :]?){16,})\b")
_MIN_WORD_CHARS: Final = 3
_MIN_SMUGGLED: Final = 2


_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{4,}")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
"""The flags of England, Scotland, Wales, Texas ...: a black flag and the region's code in tag characters."""
_FROM_TAGS: Final = {0xE0000 + code: code for code in range(0x20, 0x7F)}
_UNSEEN: Final = "\u200b-\u200d\u2060-\u2064\u00ad\u034f\u180b-\u180e\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
_UNSEEN_IN_WORD: Final = re.compile(f"(?<=[A-Za-z])[{_UNSEEN}]+(?=[A-Za-z])")
_UNSEEN_RUN: Final = re.compile(
    "[\u200b-\u200f\u2060-\u2064\u206a-\u206f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u3164\ufeff\uffa0]{6,}"
)
"""Signs without width in a row, which carry bits: nothing that is written has more than two."""
_DIRECTION: Final = re.compile("[\u202d\u202e]")
_DIRECTION_OF_OTHERS: Final = re.compile("[\u202b\u2067]")
_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")
_BRAILLE: Final = re.compile("[\u2801-\u28ff]+(?:[ \u2800]+[\u2801-\u28ff]+)*")
_BRAILLE_CELLS: Final = dict(
    zip(
        map(ord, "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵⠂⠆⠒⠲⠖⠦⠔⠴⠤⠀"),
        'abcdefghijklmnopqrstuvwxyz,;:.!?""- ',
        strict=True,
    )
)
_MIN_BRAILLE_WORDS: Final = 3
_LOOKALIKE: Final = "[аеорсухіјѕһԁԛԝѵАВЕКМНОРСТХІЈЅοΑΒΕΖΗΙΚΜΝΟΡΤΧυνι\u0585\u0578\u057d]"
_MIXED_WORD: Final = re.compile(
    f"(?<![^\\W\\d_])(?=[A-Za-z]*{_LOOKALIKE}[A-Za-z])(?:[A-Za-z]|{_LOOKALIKE}){{4,}}(?![^\\W\\d_])"
)
"""A word of our letters with a letter in it that only looks like one of ours, before one that is."""


def has_hidden_text(text: str) -> bool:
    """Return whether a text holds what only machines read: split words, turned letters, tags, lookalikes, Braille."""
    if len(_UNSEEN_IN_WORD.findall(text)) >= _MIN_SMUGGLED or _DIRECTION.search(text):
        return True
    if _DIRECTION_OF_OTHERS.search(text) and not _RIGHT_TO_LEFT.search(text):
        return True
    if (
        _UNSEEN_RUN.search(text)
        or _SELECTORS.search(text)
        or _MIXED_WORD.search(text)
        or _TAGS.search(_FLAG.sub("", text))
    ):
        return True
    return any(map(_is_sentence, _BRAILLE.findall(text)))


def _is_sentence(braille: str) -> bool:
    """Return whether a run of Braille is words, and not a picture or the steps of a progress bar."""
    words = [word for word in braille.translate(_BRAILLE_CELLS).split() if word.isascii()]
    return sum(len(word) > 1 for word in words) >= _MIN_BRAILLE_WORDS


def reveal(text: str) -> str:
    """Return a text with its tag characters, selectors of variants that carry bytes, and Braille as letters."""
    return _SELECTORS.sub(_from_selectors, text.translate(_FROM_TAGS)).translate(_BRAILLE_CELLS)


def _from_selectors(match: re.Match[str]) -> str:
    """Return the bytes in a run of variation selectors (the first sixteen, then the rest) as text."""
    codes = map(ord, match[0])
    data = bytes(code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16 for code in codes)
    return f" {data.decode(errors='replace')} "


class _LetterTable(dict[int, str]):
    """Maps character codes to the Latin letters they look like; filled on demand, at most the size of Unicode."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = letter = char if char.isascii() else _latin_letter(char)
        return letter


_LETTERS: Final = _LetterTable()


def _latin_letter(char: str) -> str:
    """Return the small Latin letter that a character looks like, by table, name or decomposition; else itself."""
    if letter := LOOKALIKES.get(ord(char)) or (len(char.upper()) == 1 and LOOKALIKES.get(ord(char.upper()))):
        return chr(letter)
    if name := _LATIN_NAME.fullmatch(unicodedata.name(char, "")):
        return name[1].lower()
    plain = unicodedata.normalize("NFKD", char)
    return plain if plain == char else "".join(mark for mark in plain if not unicodedata.combining(mark))


def fold_letters(text: str) -> str:
    """Return a text in lower case with each letter of another script or form replaced by its Latin lookalike."""
    normalised = unicodedata.normalize("NFKC", text).translate(_LETTERS)
    marks = dict.fromkeys(ord(each) for each in set(normalised) if unicodedata.combining(each))
    return (normalised.translate(marks) if marks else normalised).lower()


@cache
def _order_words() -> Mapping[str, str]:
    """Return the words of the injection rules, keyed by their spelling with 1 for i and l."""
    patterns = [*chain.from_iterable(RULES.values()), *(rule.pattern for rule in SOURCE_RULES)]
    words = {each for pattern in patterns for each in re.findall(r"[a-z]{3,}", pattern)}
    return {each.translate(_ONE_LETTER): each for each in sorted(words) if len(each) >= _MIN_WORD_CHARS}


def respell(plain: str, *, leet: bool, hyphened: bool) -> Iterator[str]:
    """Yield a lower-case text's readings where digits stand for letters or hyphens split words.

    `leet`, `hyphened`: the expression of that name matches it.
    """
    if leet and any(map(_is_order_word, set(_TOKEN.findall(plain)))):
        for one in "il":
            yield _TOKEN.sub(lambda found, one=one: _spell(found[0], one), plain)  # type: ignore[misc]
    if hyphened and any(map(_is_order_word_in_pieces, set(_HYPHENED.findall(plain)))):
        yield _HYPHENED.sub(lambda found: _join_pieces(found[0]), plain)


@lru_cache(maxsize=8192)
def _is_order_word(token: str) -> bool:
    return token.translate(_DIGITS_FOR_LETTERS).translate(_ONE_LETTER) in _order_words()


def _spell(token: str, one: str) -> str:
    spelled = token.translate(_DIGITS_FOR_LETTERS)
    word = _order_words().get(spelled.translate(_ONE_LETTER))
    return word or spelled.replace("1", one).replace("!", one).replace("|", one)


@lru_cache(maxsize=8192)
def _is_order_word_in_pieces(hyphened: str) -> bool:
    joined = _join_pieces(hyphened)
    return any(each.translate(_ONE_LETTER) in _order_words() for each in joined.split() if each != hyphened)


@lru_cache(maxsize=8192)
def _join_pieces(hyphened: str) -> str:
    """Join the pieces of a hyphenated word; with spaces where one of the pieces is a rule's word itself."""
    pieces = _HYPHEN.split(hyphened)
    has_word = any(len(each) > _MIN_WORD_CHARS and each.translate(_ONE_LETTER) in _order_words() for each in pieces)
    return (" " if has_word else "").join(pieces)


def decode(text: str, *, has_runs: bool) -> str:
    """Return a text without escapes; where it has none and `has_runs`, its decoded base64 and hexadecimal parts.

    Empty where nothing decodes to text. `has_runs`: an expression of `RUNS` matches it in lower case.
    """
    plain = _unescape(text)
    if plain != text:
        return plain
    if not has_runs:
        return ""
    pieces = [*map(_from_base64, _ENCODED.findall(text)), *map(_from_hex, _HEX.findall(text))]
    return "\n".join(filter(None, pieces))


def _unescape(text: str) -> str:
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    if "%" in text and _PERCENT.search(text):
        text = unquote(text)
    return _BACKSLASHED.sub(_char, text) if "\\" in text else text


def _char(match: re.Match[str]) -> str:
    code = int(match[match.lastindex or 0], 16)
    return chr(code) if code < 0x110000 else match[0]


def _from_base64(run: str) -> str:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _decode_bytes(base64.b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _from_hex(run: str) -> str:
    try:
        return _decode_bytes(bytes.fromhex(run.replace(" ", "").replace(":", "")))
    except ValueError:
        return ""


def _decode_bytes(data: bytes) -> str:
    """Return bytes decoded as text; empty where they are not text. Raises ValueError."""
    wide = data[1::2].count(0) * 3 > len(data)  # PowerShell's encoding
    text = data.decode("utf-16-le" if wide else "utf-8")
    return text if text.isprintable() or any(each in text for each in "\n\r\t") else ""
