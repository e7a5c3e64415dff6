"""Run by `conversion.py` in a process of its own: a file on standard input, its text as JSON on standard output.

Knows nothing of hardwon. Takes as arguments the ending of the file, and what it may use: seconds, bytes, characters of
its text and, once more, of all its pages together. `text_cut` and `pages_cut` say that there were more, `of_pages` how
many pages there are.
"""

from __future__ import annotations

import ctypes
import email
import html
import json
import mimetypes
import re
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from email.message import Message
from typing import Any

_NETWORK_AND_USER = 0x40000000 | 0x10000000
_TYPES = {
    ".eml": "message/rfc822",
    ".msg": "application/vnd.ms-outlook",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".xhtml": "text/html",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".rtf": "application/rtf",
    ".epub": "application/epub+zip",
}

_PAGE = "text/html"
_MAIL = "message/rfc822"
_CHARSET = re.compile(rb"""(?i)(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""")
_LOOKED_AT = 4096
_LONGEST_NAME = 1000
_MOST_NAMES = 100
_WITH_THE_TEXT = re.compile(r"(?:attachment|nested_message)_\d+|.*\.eml", re.IGNORECASE | re.DOTALL)
"""What a mail in a mail is called, by its sender or by the library, which has read it with the text."""


def main(ending: str, seconds: int, memory: int, characters: int) -> None:
    """Convert standard input."""
    ctypes.CDLL(None).unshare(_NETWORK_AND_USER)  # no network, where the system lets us go without it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    import kreuzberg  # noqa: PLC0415 - only after the limits stand

    def read(content: bytes, kind: str, written: str = "markdown") -> Any:
        config = kreuzberg.ExtractionConfig(
            use_cache=False,
            output_format=written,
            pages=kreuzberg.PageConfig(extract_pages=True),
        )
        return kreuzberg.extract_bytes_sync(in_utf8(content) if kind == _PAGE else content, kind, config)

    kind = _TYPES.get(ending) or mimetypes.guess_type(f"file{ending}")[0] or "application/octet-stream"
    content = sys.stdin.buffer.read()
    if kind == _MAIL:
        content = _told_in_words(content, lambda page: str(read(page, _PAGE, "plain").content))
    result = read(content, kind)
    pages = [_content(page) for page in result.pages or ()]
    metadata = result.metadata or {}
    title = metadata.get("subject" if kind == _MAIL else "title")
    inside = list(_inside(result))
    read_of_it = {name for name, _ in inside}
    text = "\n\n".join([result.content, *(f"## {name}\n\n{text}" for name, text in inside)])
    kept = [] if inside else first(pages, characters)
    unread = [
        name[:_LONGEST_NAME]
        for name in map(_flat, metadata.get("attachments") or ())
        if name not in read_of_it and not _WITH_THE_TEXT.fullmatch(name)
    ]
    told = {
        "text": text[:characters],
        "pages": kept,
        "of_pages": 0 if inside else len(pages),
        "text_cut": len(text) > characters,
        "pages_cut": not inside and sum(map(len, kept)) < sum(map(len, pages)),
        "title": html.unescape(title[:_LONGEST_NAME]) if isinstance(title, str) else None,
        "unread": unread[:_MOST_NAMES],
    }
    sys.stdout.write(json.dumps(told))


def first(pages: Sequence[str], characters: int) -> list[str]:
    """Return the first pages, the last of them cut, that have at most so many characters together."""
    kept = []
    for page in pages:
        if characters <= 0:
            break
        kept.append(page[:characters])
        characters -= len(page) + 1  # that an endless lot of empty ones ends, too
    return kept


def in_utf8(page: bytes, charset: str | None = None) -> bytes:
    """Return a page of HTML in UTF-8, the only letters the library reads: from `charset`, or what the page names."""
    try:
        page.decode()
    except UnicodeDecodeError:
        named = _CHARSET.search(page[:_LOOKED_AT])
        if page[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            charset = "utf-16"
        elif charset is None and named:
            charset = named[1].decode("ascii", "replace")
        try:
            return page.decode(charset or "cp1252", "replace").encode("utf-8", "replace")
        except (LookupError, UnicodeError):
            return page.decode("cp1252", "replace").encode()
    return page


def _told_in_words(content: bytes, read: Callable[[bytes], str]) -> bytes:
    """Return a mail that is HTML alone with that as text: of its tags the library leaves no blank between two words."""
    mail = email.message_from_bytes(content)
    bodies = [part for part in mail.walk() if part.get_content_maintype() == "text" and not _attached(part)]
    if not bodies or any(part.get_content_subtype() == "plain" for part in bodies):
        return content
    for part in bodies:
        page = part.get_payload(decode=True)
        if part.get_content_subtype() == "html" and isinstance(page, bytes):
            text = read(in_utf8(page, part.get_content_charset()))
            del part["Content-Transfer-Encoding"]
            part.set_type("text/plain")
            part.set_payload(text, "utf-8")
    return mail.as_bytes()


def _attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or part.get_filename() is not None


def _inside(result: Any) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what is attached to a file, or packed into it, at any depth."""
    for child in result.children or ():
        path, told = (child["path"], child["result"]) if isinstance(child, dict) else (child.path, child.result)
        if told.content.strip() and not _WITH_THE_TEXT.fullmatch(path):
            yield _flat(path), told.content
        yield from _inside(told)


def _flat(name: object) -> str:
    return " ".join(str(name).split())


def _content(page: Any) -> str:
    """Return the text of a page, which is a dict or an object by the release."""
    told = page["content"] if isinstance(page, dict) else page.content
    return str(told)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
