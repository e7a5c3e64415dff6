"""Parse files into text with metadata.

Text, Markdown, code, configuration and logs are parsed here, and keep the line numbers of the file; other formats are
converted in a separate process (`Converter`).
"""

from __future__ import annotations

import hashlib
import re
import tomllib
import zlib
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from hardwon.errors import HardwonError
from hardwon.models.documents import DocumentType
from knowledge.documents.parsing.log_lines import looks_like_log
from knowledge.documents.ports import ParsedDocument
from knowledge.formats.csv_tables import SEPARATED, as_rows
from knowledge.formats.encodings import UnknownEncoding, as_utf16, decode_text
from knowledge.formats.headings import headings
from knowledge.formats.html_tables import with_pipe_tables
from knowledge.formats.man_pages import MAN_NAME, convert_man, is_man_page
from knowledge.formats.markup import MARKUPS, as_markdown, looks_like_asciidoc
from knowledge.formats.notebooks import read_notebook
from knowledge.text.redaction import redact

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
"""Formats without line numbers, which are converted."""

_FRONT = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?\n)\1[ \t]*(?:\n|\Z)", re.DOTALL)
_KEY = re.compile(r"[A-Za-z_][\w-]*")
MAX_NAME_CHARS: Final = 300
"""Maximum characters of a title, heading, category or tag: each is stored with every passage."""

MAX_TAGS: Final = 100

_SNIFFED_BYTES = 8_192
_GZIP = b"\x1f\x8b"
MAX_UNPACKED: Final = 15_000_000
"""Bytes that a gzip file may unpack to."""
_C1 = "\x80"
"""Where control characters end in bytes, which may be letters above it."""


class Unreadable(HardwonError):
    """A file cannot be read as a document; the sentence says why, for whoever added it."""


def suffix(uri: str) -> str:
    """Return the extension of a file's name in lower case; for `app.log.1` and `app.log-20251019` it is `.log`."""
    name = PurePosixPath(uri).name.lower()
    while (stem := name.rstrip("0123456789")) != name and stem.endswith((".", "-", "_")):
        name = stem[:-1]
    return PurePosixPath(name).suffix


def is_readable(path: str) -> bool:
    """Return whether a file of a folder or repository is read, judging by its name."""
    name, ending = PurePosixPath(path).name.lower(), suffix(path)
    text = ending in {".txt", ".ipynb"} or ending in SEPARATED or MAN_NAME.fullmatch(name) is not None
    return text or ending in _MARKDOWN | _CODE | _CONFIG | _LOG | CONVERTED or name in _CONFIG_NAMES | _TEXT_NAMES


def needs_conversion(uri: str, content: bytes) -> bool:
    """Return whether a file has to be converted to be read."""
    return suffix(uri) in CONVERTED or content[:5] == b"%PDF-"


def is_pointer(content: bytes) -> bool:
    """Return whether a file is a Git LFS pointer."""
    return content.startswith(b"version https://git-lfs.github.com/spec/") and len(content) < _SNIFFED_BYTES


def decode(content: bytes) -> str:
    """Return the text of bytes with line feeds as line breaks. Raises Unreadable for binary content.

    A lone carriage return is a line break only in a text without line feeds: otherwise it is the progress output of a
    program, which all tools count as one line.
    """
    if content[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        text = content.decode("utf-16", "replace")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = _decode_legacy(content)
        if "\0" in text[:_SNIFFED_BYTES]:
            text = as_utf16(content) or text
            if "\0" in text[:_SNIFFED_BYTES]:
                raise Unreadable("not a text file, and not a supported format")
    if _is_binary(text):
        raise Unreadable("not a text file, and not a supported format")
    text = text.replace("\r\n", "\n").replace("\0", "\ufffd")
    return text.replace("\r", " " if "\n" in text else "\n")


def _decode_legacy(content: bytes) -> str:
    """Return the text of bytes that are not UTF-8. Raises Unreadable, first of all for what is no text."""
    if wide := as_utf16(content):
        return wide
    if b"\0" in content[:_SNIFFED_BYTES] or _is_binary(content[:_SNIFFED_BYTES].decode("latin-1"), _C1):
        raise Unreadable("not a text file, and not a supported format")
    try:
        return decode_text(content)
    except UnknownEncoding as error:
        raise Unreadable(str(error)) from None


def _is_binary(text: str, end: str = "\xa0") -> bool:
    """Return whether more than one in fifty characters at the beginning are control characters."""
    head = text[:_SNIFFED_BYTES]
    control = sum((char < " " and char not in "\t\n\r\f\b\x1b") or "\x7f" <= char < end for char in head)
    return control * 50 > len(head)


def _unpack(content: bytes) -> bytes:
    """Return what a gzip file holds. Raises Unreadable if it is broken or holds too much."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        unpacked = unpacker.decompress(content, MAX_UNPACKED)
    except zlib.error:
        raise Unreadable("it is a broken gzip file") from None
    if unpacker.unconsumed_tail:
        raise Unreadable(f"it would unpack to more than {MAX_UNPACKED // 1_000_000} MB")
    if not unpacker.eof:
        raise Unreadable("it is a broken gzip file: its end is missing")
    return unpacked


def read(uri: str, content: bytes, *, redacting: bool) -> ParsedDocument:
    """Return a text file as a document. Raises Unreadable."""
    if content[:2] == _GZIP:
        uri, content = uri.removesuffix(".gz"), _unpack(content)
    text = decode(content)
    if not text.strip():
        raise Unreadable("there is no text in it")
    if suffix(uri) == ".ipynb":
        cells = read_notebook(text)
        if not cells:
            raise Unreadable("it is no notebook, or one without any text")
        return parse_text(cells, DocumentType.MARKDOWN, redacting=redacting)
    if MAN_NAME.fullmatch(PurePosixPath(uri).name) and is_man_page(text):
        return parse_text("\n".join(convert_man(text.split("\n"))), DocumentType.MARKDOWN, redacting=redacting)
    ending, kind = suffix(uri), _detect_type(uri, text)
    if ending in SEPARATED and kind is DocumentType.TEXT:
        rows = as_rows(ending, text)
        return parse_text(rows or text, DocumentType.MARKDOWN if rows else kind, redacting=redacting)
    if kind is DocumentType.TEXT and looks_like_asciidoc(text):
        return parse_text(as_markdown(".adoc", text) or text, DocumentType.MARKDOWN, redacting=redacting)
    if kind is DocumentType.MARKDOWN and ending not in MARKUPS:
        text = with_pipe_tables(text)
    return parse_text(as_markdown(ending, text) or text, kind, redacting=redacting)


def parse_text(
    text: str,
    document_type: DocumentType,
    *,
    redacting: bool,
    title: str | None = None,
    pages: tuple[int, ...] = (),
    notes: tuple[str, ...] = (),
) -> ParsedDocument:
    """Return a text as a parsed document: redacted, with all line numbers unchanged, and the metadata of its head.

    `pages`: the offsets at which they begin, each at the start of a line.
    """
    if redacting:
        redacted = redact(text, keep_lines=True).text
        pages = _move_pages(pages, text, redacted) if redacted is not text else pages
        text, title = redacted, title and redact(title).text
    markdown = document_type is DocumentType.MARKDOWN
    front = _front_matter(text) if markdown else {}
    outermost = (each.title for each in headings(text, front_matter_end(text)) if each.depth == 1) if markdown else ()
    tags = [tag[:MAX_NAME_CHARS] for part in front.get("tags", "").split(",") if (tag := part.strip())]
    found = front.get("title") or title or next(iter(outermost), None) or None
    return ParsedDocument(
        text=text,
        text_hash=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        document_type=document_type,
        title=found[:MAX_NAME_CHARS] if found else None,
        category=front.get("category", "")[:MAX_NAME_CHARS] or None,
        tags=tuple(tags[:MAX_TAGS]),
        pages=pages,
        notes=notes,
    )


def _move_pages(pages: Sequence[int], before: str, after: str) -> tuple[int, ...]:
    """Return the offsets of pages in a redacted text, which has the same lines with other lengths."""
    begins = [0, *(end.end() for end in re.finditer("\n", after))]
    offsets, line, at = [], 0, 0
    for page in pages:
        line, at = line + before.count("\n", at, page), page
        offsets.append(begins[min(line, len(begins) - 1)])
    return tuple(offsets)


def _detect_type(uri: str, text: str) -> DocumentType:
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
    """Return the offset after the front matter."""
    found = _FRONT.match(text)
    return found.end() if found else 0


def _front_matter(text: str) -> dict[str, str]:
    """Return the front matter: `key: value`, `key: [a, b]`, or a list below the key; other YAML is ignored. Or TOML."""
    found = _FRONT.match(text)
    if found and found[1] == "+++":
        return _toml(found[2])
    values_by_key: dict[str, list[str]] = {}
    last = ""
    for line in found[2].split("\n") if found else ():
        item = line.strip()
        key, colon, value = line.partition(":")
        if item.startswith("-") and item[1:2].isspace():
            values_by_key.setdefault(last, []).append(item[1:])
        elif colon and _KEY.fullmatch(key.rstrip()):
            last, value = key.rstrip().lower(), value.strip()
            values_by_key[last] = value.strip("[]").split(",") if value.startswith("[") else [value]
    return {name: ", ".join(filter(None, map(_plain, values))) for name, values in values_by_key.items()}


def _toml(front: str) -> dict[str, str]:
    try:
        values = tomllib.loads(front)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    lists = {key.lower(): value if isinstance(value, list) else [value] for key, value in values.items()}
    return {key: ", ".join(each for each in value if isinstance(each, str)) for key, value in lists.items()}


def _plain(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
