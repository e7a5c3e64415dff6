"""Run by `conversion.py` in a process of its own: a file on standard input, its text as JSON on standard output.

Of hardwon it loads the readers of formats alone. Arguments: the suffix of the file, and limits: seconds, bytes,
characters of its text and, once more, of all its pages together. `text_cut` and `pages_cut` say that there were more,
`of_pages` is the number of pages.
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

_PAGES = frozenset({".html", ".htm", ".xhtml"})
_HEADING_SIGNS = re.compile(r"(?m)^#{1,6} ")
_ESCAPED_NUMBER = re.compile(r"(?m)^(\d{1,9})\\([.)])")
_MAX_RECURSION = 5000
_MAIL = "message/rfc822"
_CHARSET = re.compile(rb"""(?i)(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""")
_SEARCHED_BYTES = 4096
_MAX_NAME = 1000
_MAX_NAMES = 100
_READ_WITH_TEXT = re.compile(r"(?:attachment|nested_message)_\d+|.*\.eml", re.IGNORECASE | re.DOTALL)
"""Names of a mail in a mail, given by its sender or by the library, which has read it with the text."""


def main(ending: str, seconds: int, memory: int, characters: int) -> None:
    """Convert standard input."""
    ctypes.CDLL(None).unshare(_NETWORK_AND_USER)  # no network, if the system allows this
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    sys.setrecursionlimit(_MAX_RECURSION)
    content = sys.stdin.buffer.read()
    output = _read_exactly(ending, content) or _read_by_library(ending, content)
    text, pages = output.pop("text"), output.pop("pages")
    first_pages = first(pages, characters)
    title = output.pop("title")
    output |= {
        "text": text[:characters],
        "pages": first_pages,
        "of_pages": len(pages),
        "text_cut": len(text) > characters,
        "pages_cut": sum(map(len, first_pages)) < sum(map(len, pages)),
        "title": html.unescape(title[:_MAX_NAME]) if isinstance(title, str) else None,
    }
    sys.stdout.write(json.dumps(output))


def _read_exactly(ending: str, content: bytes) -> dict[str, Any] | None:
    """Return a file as its reader shows it, None for a format without one."""
    from knowledge.adapters.files.readers.formats import read_exactly  # noqa: PLC0415 - after the limits are set

    page = in_utf8(content).decode("utf-8", "replace") if ending in _PAGES else None
    read = read_exactly(ending, content, page)
    if read is None:
        return None
    return {"text": read.text, "pages": read.pages, "title": read.title, "unread": [], "notes": read.notes}


def _read_by_library(ending: str, content: bytes) -> dict[str, Any]:
    """Return a file as kreuzberg reads it."""
    import kreuzberg  # noqa: PLC0415 - only after the limits are set

    kind = _TYPES.get(ending) or mimetypes.guess_type(f"file{ending}")[0] or "application/octet-stream"
    if kind == _MAIL:
        content = _replace_html_bodies(content, _as_plain)
    if kind == _TYPES[".rtf"]:
        content = _rewrite_rtf(content)
    pages_wanted = kreuzberg.PageConfig(extract_pages=True)
    config = kreuzberg.ExtractionConfig(use_cache=False, output_format="markdown", pages=pages_wanted)
    result = kreuzberg.extract_bytes_sync(content, kind, config)
    pages = [_content(page) for page in result.pages or ()]
    metadata = result.metadata or {}
    title = metadata.get("subject" if kind == _MAIL else "title")
    inside = list(_attachments(result))
    read_names = {name for name, _ in inside}
    body = _ESCAPED_NUMBER.sub(r"\1\2", result.content) if kind == _TYPES[".rtf"] else result.content
    text = "\n\n".join([body, *(f"## {name}\n\n{text}" for name, text in inside)])
    unread = [
        name[:_MAX_NAME]
        for name in map(_one_line, metadata.get("attachments") or ())
        if name not in read_names and not _READ_WITH_TEXT.fullmatch(name)
    ]
    return {
        "text": text,
        "pages": [] if inside else pages,
        "title": title,
        "unread": unread[:_MAX_NAMES],
        "notes": [],
    }


def _as_plain(page: str) -> str:
    """Return an HTML page as text without the signs of headings."""
    from knowledge.adapters.files.readers.html import read_html  # noqa: PLC0415 - after the limits are set

    return _HEADING_SIGNS.sub("", read_html(page)[0])


def _rewrite_rtf(content: bytes) -> bytes:
    from knowledge.adapters.files.readers.rtf import rewrite_rtf  # noqa: PLC0415 - after the limits are set

    return rewrite_rtf(content)


def first(pages: Sequence[str], characters: int) -> list[str]:
    """Return the first pages that together have at most so many characters; the last one is cut."""
    shortened = []
    for page in pages:
        if characters <= 0:
            break
        shortened.append(page[:characters])
        characters -= len(page) + 1  # so that an endless number of empty pages ends, too
    return shortened


def in_utf8(page: bytes, charset: str | None = None) -> bytes:
    """Return an HTML page in UTF-8: from `charset`, the declared encoding, or the one that is recognised.

    Raises UnknownEncoding.
    """
    from knowledge.formats.encodings import decode_text  # noqa: PLC0415 - after the limits are set

    try:
        page.decode()
    except UnicodeDecodeError:
        declared = _CHARSET.search(page[:_SEARCHED_BYTES])
        if page[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            charset = "utf-16"
        elif charset is None and declared:
            charset = declared[1].decode("ascii", "replace")
        try:
            return (page.decode(charset, "replace") if charset else decode_text(page)).encode("utf-8", "replace")
        except LookupError:
            return decode_text(page).encode("utf-8", "replace")
    return page


def _replace_html_bodies(content: bytes, read: Callable[[str], str]) -> bytes:
    """Return a mail with HTML parts alone as plain text: the library would join words across tags."""
    mail = email.message_from_bytes(content)
    bodies = [part for part in mail.walk() if part.get_content_maintype() == "text" and not _is_attachment(part)]
    if not bodies or any(part.get_content_subtype() == "plain" for part in bodies):
        return content
    for part in bodies:
        page = part.get_payload(decode=True)
        if part.get_content_subtype() == "html" and isinstance(page, bytes):
            text = read(in_utf8(page, part.get_content_charset()).decode("utf-8", "replace"))
            del part["Content-Transfer-Encoding"]
            part.set_type("text/plain")
            part.set_payload(text, "utf-8")
    return mail.as_bytes()


def _is_attachment(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or part.get_filename() is not None


def _attachments(result: Any) -> Iterator[tuple[str, str]]:
    """Yield names and texts of files attached to a file or packed into it, at any depth."""
    for child in result.children or ():
        path, inner = (child["path"], child["result"]) if isinstance(child, dict) else (child.path, child.result)
        if inner.content.strip() and not _READ_WITH_TEXT.fullmatch(path):
            yield _one_line(path), inner.content
        yield from _attachments(inner)


def _one_line(name: object) -> str:
    return " ".join(str(name).split())


def _content(page: Any) -> str:
    """Return the text of a page, which is a dict or an object, depending on the release."""
    content = page["content"] if isinstance(page, dict) else page.content
    return str(content)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
