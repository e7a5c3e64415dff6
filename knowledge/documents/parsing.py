"""Bytes to text in which lines and characters can be counted, and what the head of a document says of it.

Text, Markdown, code, configuration and logs are read here, so that a line stays the line of the file; other formats
are converted in a process of their own (`Converter`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from knowledge.documents.headings import headings
from knowledge.documents.log_lines import looks_like_log
from knowledge.documents.markup import MARKUPS, as_markdown
from knowledge.documents.models import DocumentType
from knowledge.documents.ports import Parsed
from knowledge.documents.tables import SEPARATED, as_rows
from knowledge.errors import HardwonError
from knowledge.redaction import redact

_MARKDOWN = frozenset({".md", ".markdown", ".mdx", ".mkd"}) | MARKUPS
_CODE_ENDINGS = (
    ".py .pyi .js .jsx .mjs .ts .tsx .java .kt .kts .scala .go .rs .c .h .cc .cpp .hpp .cs .rb .php .swift .sh .bash"
    " .zsh .ps1 .sql .lua .pl .r .jl .dart .ex .exs .erl .hs .clj .vue .css .scss"
)
_CODE = frozenset(_CODE_ENDINGS.split())
_CONFIG_ENDINGS = ".yaml .yml .toml .ini .cfg .conf .env .properties .json .jsonc .tf .hcl .service"
_CONFIG = frozenset(_CONFIG_ENDINGS.split())
_CONFIG_NAMES = frozenset({"dockerfile", "makefile", ".env", ".gitconfig", "procfile"})
_TEXT_NAMES_SPELT = (
    "readme changelog changes history news notes notice license licence copying copyright authors contributors"
    " maintainers credits thanks contributing install installing upgrading security support roadmap todo faq"
)
_TEXT_NAMES = frozenset(_TEXT_NAMES_SPELT.split())
_LOG = frozenset({".log", ".out", ".err"})
_CONVERTED_ENDINGS = ".pdf .docx .doc .pptx .ppt .xlsx .xls .odt .ods .odp .rtf .eml .msg .epub .html .htm .xhtml"
CONVERTED: Final = frozenset(_CONVERTED_ENDINGS.split())
"""Formats that no line can be counted in: they are converted."""

_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
_KEY = re.compile(r"[A-Za-z_][\w-]*")
LONGEST_NAME: Final = 300
"""Characters of a title, heading, category or tag that are kept: they go along with every passage."""

MOST_TAGS: Final = 100

_LOOKED_AT = 8_192
_AS_1252 = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}
"""What bytes that are no UTF-8 stand for, as `surrogateescape` shows them."""


class Unreadable(HardwonError):
    """A file cannot be read as a document; the sentence says why, for whoever added it."""


def suffix(uri: str) -> str:
    """Return the ending of a file's name in lower case; of `app.log.1` and `app.log-20251019` that is `.log`."""
    name = PurePosixPath(uri).name.lower()
    while (stem := name.rstrip("0123456789")) != name and stem.endswith((".", "-", "_")):
        name = stem[:-1]
    return PurePosixPath(name).suffix


def readable(path: str) -> bool:
    """Return whether a file of this name is read where nobody named it: of a folder or a repository."""
    name, ending = PurePosixPath(path).name.lower(), suffix(path)
    text = ending == ".txt" or ending in SEPARATED
    return text or ending in _MARKDOWN | _CODE | _CONFIG | _LOG | CONVERTED or name in _CONFIG_NAMES | _TEXT_NAMES


def converts(uri: str, content: bytes) -> bool:
    """Return whether a file has to be converted to be read."""
    return suffix(uri) in CONVERTED or content[:5] == b"%PDF-"


def is_pointer(content: bytes) -> bool:
    """Return whether a file only says where Git LFS keeps what it stands for."""
    return content.startswith(b"version https://git-lfs.github.com/spec/") and len(content) < _LOOKED_AT


def decode(content: bytes) -> str:
    """Return the text of bytes with line feeds as line breaks. Raises Unreadable for what is no text.

    A carriage return alone breaks a line only where no line feed does: what a program draws over while it goes on is
    one line, to every tool that counts them.
    """
    if content[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        text = content.decode("utf-16", "replace")
    elif b"\0" in content[:_LOOKED_AT]:
        raise Unreadable("this is no text, and no format that hardwon reads")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:  # of those bytes alone: a broken one in a log changes no other line
            text = content.decode("utf-8-sig", "surrogateescape").translate(_AS_1252)
    if _strange(text):
        raise Unreadable("this is no text, and no format that hardwon reads")
    text = text.replace("\r\n", "\n").replace("\0", "\ufffd")
    return text.replace("\r", " " if "\n" in text else "\n")


def _strange(text: str) -> bool:
    """Return whether the beginning of a text is none: signs that no text has, more than one in fifty."""
    head = text[:_LOOKED_AT]
    strange = sum((sign < " " and sign not in "\t\n\r\f\b\x1b") or "\x7f" <= sign < "\xa0" for sign in head)
    return strange * 50 > len(head)


def read(uri: str, content: bytes, *, redacting: bool) -> Parsed:
    """Return a text file as a document. Raises Unreadable."""
    text = decode(content)
    if not text.strip():
        raise Unreadable("there is no text in it")
    ending, kind = suffix(uri), _type(uri, text)
    if ending in SEPARATED and kind is DocumentType.TEXT:
        rows = as_rows(ending, text)
        return described(rows or text, DocumentType.MARKDOWN if rows else kind, redacting=redacting)
    return described(as_markdown(ending, text) or text, kind, redacting=redacting)


def described(
    text: str,
    document_type: DocumentType,
    *,
    redacting: bool,
    title: str | None = None,
    pages: tuple[int, ...] = (),
    notes: tuple[str, ...] = (),
) -> Parsed:
    """Return a text as a document: redacted, each line where it was, with what its head says.

    `pages`: where they begin in the text, each with a line.
    """
    if redacting:
        told = redact(text, keep_lines=True).text
        pages = _moved(pages, text, told) if told is not text else pages
        text, title = told, title and redact(title).text
    markdown = document_type is DocumentType.MARKDOWN
    front = _front_matter(text) if markdown else {}
    outermost = (each.title for each in headings(text, front_matter_end(text)) if each.depth == 1) if markdown else ()
    tags = [tag[:LONGEST_NAME] for part in front.get("tags", "").split(",") if (tag := part.strip())]
    found = front.get("title") or title or next(iter(outermost), None) or None
    return Parsed(
        text=text,
        text_hash=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        document_type=document_type,
        title=found[:LONGEST_NAME] if found else None,
        category=front.get("category", "")[:LONGEST_NAME] or None,
        tags=tuple(tags[:MOST_TAGS]),
        pages=pages,
        notes=notes,
    )


def _moved(pages: Sequence[int], before: str, after: str) -> tuple[int, ...]:
    """Return where pages begin in a text whose lines are longer or shorter than they were before."""
    begins = [0, *(end.end() for end in re.finditer("\n", after))]
    moved, line, at = [], 0, 0
    for page in pages:
        line, at = line + before.count("\n", at, page), page
        moved.append(begins[min(line, len(begins) - 1)])
    return tuple(moved)


def _type(uri: str, text: str) -> DocumentType:
    ending, name = suffix(uri), PurePosixPath(uri).name.lower()
    if ending in _MARKDOWN:
        return DocumentType.MARKDOWN
    if ending in _LOG:
        return DocumentType.LOG
    if ending in _CODE:
        return DocumentType.CODE
    if ending in _CONFIG or name in _CONFIG_NAMES:
        return DocumentType.CONFIG
    return DocumentType.LOG if looks_like_log(text) else DocumentType.TEXT


def front_matter_end(text: str) -> int:
    """Return where the text after the front matter begins."""
    found = _FRONT.match(text)
    return found.end() if found else 0


def _front_matter(text: str) -> dict[str, str]:
    """Return what the front matter says: `key: value`, `key: [a, b]`, or a list below the key. No YAML otherwise."""
    found = _FRONT.match(text)
    told: dict[str, list[str]] = {}
    last = ""
    for line in found[1].split("\n") if found else ():
        item = line.strip()
        key, colon, value = line.partition(":")
        if item.startswith("-") and item[1:2].isspace():
            told.setdefault(last, []).append(item[1:])
        elif colon and _KEY.fullmatch(key.rstrip()):
            last, value = key.rstrip().lower(), value.strip()
            told[last] = value.strip("[]").split(",") if value.startswith("[") else [value]
    return {name: ", ".join(filter(None, map(_plain, values))) for name, values in told.items()}


def _plain(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
