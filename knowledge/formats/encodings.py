"""Recognise the encoding of a text file; refuse one that cannot be told, since wrong letters are quoted. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Final

from charset_normalizer import CharsetMatch, from_bytes

_DECLARED = re.compile(
    rb"(?i)(?:coding[:=][ \t]*|<\?xml[^>]{0,100}encoding=[\"']|charset=[\"']?|fileencoding=)([\w.-]{2,40})"
)
_DECLARED_BYTES: Final = 1024
_SAMPLE: Final = 40_000
"""Bytes that are looked at, of the lines that are not ASCII."""
_CANDIDATES: Final = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859_2", "iso8859_5",
    "iso8859_7", "koi8_r", "cp866", "cp932", "euc_jp", "gb18030", "big5", "cp949",
]  # fmt: skip
_MULTIBYTE: Final = frozenset({"cp932", "euc_jp", "gb18030", "big5", "cp949"})
_MIN_MULTIBYTE: Final = 8
_MIN_COHERENCE: Final = 0.2
_MIN_LETTERS: Final = 4
_WESTERN_LETTERS: Final = frozenset("àâäáãåæçéèêëíîïñóôöõøœßúûüÿÀÂÄÁÃÅÆÇÉÈÊËÍÎÏÑÓÔÖÕØŒÚÛÜ")
_INNER: Final = frozenset("’‘·–—…\u00ad\u00a0\u0300\u0301")  # noqa: RUF001
_SIGNS: Final = frozenset("€„…‰‹›‘’“”•–—™\u00a0¡¢£¥§©ª«®°±²³µ·¹º»¼½¾¿×÷\u00ad¶")  # noqa: RUF001
_ODD = re.compile(r"[^\W\d_a-zA-Z]{3}")


_INNER_SIGN = re.compile(r"(?<=[^\W\d_])([^\w\s\x00-\x7f])(?=[^\W\d_])")


class UnknownEncoding(ValueError):
    """No encoding is likely enough."""


def decode_text(content: bytes) -> str:
    """Return the text of bytes that are not UTF-8. Raises UnknownEncoding.

    Single broken bytes in UTF-8 are read as Windows-1252, and so is a text whose few other signs fit it.
    """
    declared = _DECLARED.search(content[:_DECLARED_BYTES])
    if declared and (text := _try_decode(content, declared[1].decode("ascii", "replace"))) is not None:
        return text
    mixed = content.decode("utf-8-sig", "surrogateescape")
    broken = sum("\udc80" <= char <= "\udcff" for char in mixed)
    letters = sum("\x7f" < char < "\ud800" or char > "\udfff" for char in mixed)
    western = mixed.translate(_AS_1252)
    if letters >= broken or (letters and broken < _MIN_LETTERS):
        return western
    sample = _sample(content)
    if letters == 0 and _is_western(sample.decode("cp1252", "replace")):
        rival = _recognise(sample)
        if rival is None or not _beats(rival, sample):
            return western
        return _decoded(content, rival.encoding)
    found = _recognise(sample)
    if found is None:
        raise UnknownEncoding("its encoding is not recognised: save it as UTF-8")
    return _decoded(content, found.encoding)


_AS_1252: Final = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}
"""Windows-1252 characters of bytes that are not UTF-8, by their `surrogateescape` code points."""


def as_utf16(content: bytes) -> str | None:
    """Return a text in UTF-16 without its mark: nearly every other byte is zero."""
    head = content[:2048]
    if len(head) < 4 or b"\0" not in head:
        return None
    for name, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if zeros.count(0) * 10 > len(zeros) * 9:
            return _try_decode(content, name)
    return None


def _try_decode(content: bytes, name: str) -> str | None:
    try:
        if codecs.lookup(name).name in {"utf-8", "utf-8-sig", "ascii"}:
            return None
        return content.decode(name)
    except (LookupError, UnicodeError, ValueError):
        return None


def _decoded(content: bytes, name: str) -> str:
    return content.decode(name, "replace")


def _sample(content: bytes) -> bytes:
    """Return the first lines with other than ASCII characters."""
    lines, size = [], 0
    for line in content.split(b"\n"):
        if not line.isascii():
            lines.append(line[:_SAMPLE])
            size += len(lines[-1])
        if size > _SAMPLE:
            break
    return b"\n".join(lines)


def _recognise(sample: bytes) -> CharsetMatch | None:
    """Return the most likely encoding of a sample, None if none is likely enough."""
    high = sum(byte > 0x7F for byte in sample)
    matches = list(from_bytes(sample, cp_isolation=_CANDIDATES, threshold=0.3))
    for match in matches:
        if match.encoding == "cp1252" or (match.encoding not in _MULTIBYTE and _has_inner_signs(str(match))):
            continue
        if match.encoding in _MULTIBYTE:
            if high >= _MIN_MULTIBYTE and _is_multibyte(match):
                return match
        elif match.coherence >= _MIN_COHERENCE and high >= _MIN_LETTERS:
            return match
    return None


def _is_multibyte(match: CharsetMatch) -> bool:
    """Return whether a text is of ideographs, syllables and their signs, as what was guessed wrongly seldom is."""
    letters = [char for char in str(match) if char > "\x7f"]
    usual = sum(
        "\u3000" <= char <= "\u30ff" or "\u4e00" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7a3" or char >= "\uff00"
        for char in letters
    )
    return usual * 20 >= len(letters) * 19


def _is_western(text: str) -> bool:
    """Return whether a text as Windows-1252 has only letters and signs where Western European languages have them."""
    if _ODD.search(text):
        return False
    if any(char > "\x7f" and char not in _WESTERN_LETTERS and char not in _SIGNS for char in text):
        return False
    return not _has_inner_signs(text)


def _has_inner_signs(text: str) -> bool:
    """Return whether a sign stands between two letters of a word, as it does in a text read wrongly."""
    return any(char not in _INNER for char in _INNER_SIGN.findall(text))


def _beats(match: CharsetMatch, sample: bytes) -> bool:
    """Return whether another encoding is clearly more likely than Windows-1252 that fits as well."""
    western = from_bytes(sample, cp_isolation=["cp1252"], threshold=0.9).best()
    return match.encoding not in _MULTIBYTE and western is not None and match.coherence > western.coherence + 0.2
