"""The bytes of an XML report without what XML forbids: control characters and leading blanks; always as UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import IO

from hardwon.text.truncation import escape_unstorable

MAX_BYTES = 256 * 1024 * 1024
"""A report of more than a million tests is smaller."""
_CHUNK_BYTES = 64 * 1024
_HEAD_BYTES = 1024
MARK = "\x7f"
"""Stands for a control character while a report is parsed: the only one that XML allows."""
_REPLACED_BYTES = bytes(0x7F if byte < 0x20 and byte not in b"\t\n\r" else byte for byte in range(256))
_REFERENCE = re.compile(rb"&#(?:x([0-9a-fA-F]+)|([0-9]+));")
_HALF_REFERENCE = re.compile(rb"&#?[0-9a-zA-Z]{0,12}\Z")
_ESCAPE_SEQUENCE = re.compile(r"\x7f\[[0-?]*[ -/]*[@-~]|\x7f\][^\x7f]*(?:\x7f\\?)?")
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._:-]+)[\"']")
_ENCODING = re.compile(r"(?i)(?:utf|iso|latin|windows|cp\d|us-ascii|ascii|shift|euc|gb|big5|koi8|mac)")
_MARKS_OF_ORDER = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


class Unreadable(Exception):
    """The report is broken or above a limit; the text says where."""


def valid_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the report as UTF-8 without leading blanks and without characters that XML forbids."""
    head = stream.read(_HEAD_BYTES)
    encoding = _encoding(head)
    decode = codecs.getincrementaldecoder(encoding)("replace").decode
    plain = encoding == "utf-8"  # until a character is not ASCII, the bytes are the text
    size, started, rest, chunk = 0, False, b"", head
    while chunk:
        size += len(chunk)
        if size > MAX_BYTES:
            raise Unreadable(f"has more than the {MAX_BYTES:,} bytes allowed")
        utf8 = chunk if plain and chunk.isascii() else decode(chunk).encode("utf-8", "replace")
        plain = plain and utf8 is chunk
        valid = rest + utf8.translate(_REPLACED_BYTES)
        rest = b""
        if not started:
            valid = valid.removeprefix(codecs.BOM_UTF8).lstrip()
            started = bool(valid)
        if b"&" in valid[-14:] and (half := _HALF_REFERENCE.search(valid, max(0, len(valid) - 14))):
            valid, rest = valid[: half.start()], valid[half.start() :]
        if b"&#" in valid:
            valid = _REFERENCE.sub(_replace_reference, valid)
        if b"\xef\xbf" in valid:
            valid = valid.replace(b"\xef\xbf\xbe", b"\xef\xbf\xbd").replace(b"\xef\xbf\xbf", b"\xef\xbf\xbd")
        yield valid
        chunk = stream.read(_CHUNK_BYTES)
    yield rest


def _encoding(head: bytes) -> str:
    for mark, name in _MARKS_OF_ORDER:
        if head.startswith(mark):
            return name
    declared = _DECLARED.search(head)
    if declared is None:
        return "utf-8"
    name = declared[1].decode("ascii")
    if not _ENCODING.match(name):
        raise LookupError(f"unknown encoding: {name}")
    return "utf-8" if name.lower().startswith("utf-16") else codecs.lookup(name).name


def _replace_reference(reference: re.Match[bytes]) -> bytes:
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    if code in {9, 10, 13} or (0x20 <= code < 0xD800) or (0xE000 <= code < 0xFFFE) or (0x10000 <= code < 0x110000):
        return reference[0]
    return b"\x7f" if code < 0x20 else b"\xef\xbf\xbd"


def clean_text(text: str) -> str:
    """Return the text without colours, and with a replacement character for each other control character."""
    if MARK in text:
        text = _ESCAPE_SEQUENCE.sub("", text).replace(MARK, "\ufffd")
    return escape_unstorable(text)
