"""Cut a document into blocks by its type, cached by its text: derived from what is stored, so nothing else is; pure.

Here stand also the blocks of configurations, code and logs: a setting with its comment, a run of lines, a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cachetools import LRUCache, cached

from hardwon.models.documents import DocumentType
from knowledge.documents.blocks.layout import layout_blocks
from knowledge.documents.blocks.markdown import markdown_blocks
from knowledge.documents.blocks.model import BUDGET, Block, BlockKind, Lines, split_long
from knowledge.documents.parsing.passage_text import text_hash
from knowledge.documents.parsing.settings_path import config_lines
from knowledge.formats.headings import BELOW
from knowledge.text.alignment import Span

_COMMENT: Final = ("#", ";", "//")
_MAX_RUN: Final = 700
_LINKED: Final = re.compile(r"(?<=\])\([^()\s]*\)")
_CONTENTS_SHARE: Final = 0.6
"""The share of a list's lines that are headings of its document from which on it is a table of contents."""


def config_blocks(text: str) -> list[Block]:
    """Return each setting with the comment above it, told with the names of the sections that it stands in."""
    lines = Lines(text)
    told = {lines.line_at(each.span.start): each for each in config_lines(text)}
    return list(_settings(lines, {at: each.told for at, each in told.items()}))


def _settings(lines: Lines, told: dict[int, str]) -> Iterator[Block]:
    start: int | None = None
    after_setting = parted = False
    for at, line in enumerate(lines.all):
        stripped = line.strip()
        if not stripped:
            parted = True
            if after_setting:
                start, after_setting = None, False
            continue
        if stripped.startswith(_COMMENT):
            if after_setting or parted or start is None:
                start, after_setting = at, False
            parted = False
            continue
        parted = False
        first = start if start is not None else at
        span = lines.span(first, at + 1)
        if span.end - span.start > BUDGET:
            first, span = at, lines.span(at, at + 1)
        span = Span(span.start, min(span.end, span.start + BUDGET))
        name = told.get(at)
        after_setting = True
        if name is None:
            start = None
            continue
        path = tuple(name.split(BELOW)[:-1])
        comment = first < at
        yield Block(kind=BlockKind.SETTING, span=span, path=path, told="" if comment or not path else name)
    yield from _remarks(lines)


def _remarks(lines: Lines) -> Iterator[Block]:
    """Yield paragraphs of comments, in which settings that are off and their meaning stand."""
    first: int | None = None
    for at, line in enumerate([*lines.all, ""]):
        inside = line.strip().startswith(_COMMENT) and bool(line.strip(" \t#;/"))
        if inside and first is None:
            first = at
        elif not inside and first is not None:
            following = next((each.strip() for each in lines.all[at : at + 3] if each.strip()), "")
            joined = following and not following.startswith(_COMMENT)
            if at - first > 1 and not joined:
                span = lines.span(first, at)
                pieces = [lines.span(each, each + 1) for each in range(first, at)]
                yield from split_long(lines.text, Block(kind=BlockKind.PARAGRAPH, span=span), pieces)
            first = None


def code_blocks(text: str) -> list[Block]:
    """Return the runs of lines of code without an empty one between them, small ones joined."""
    lines = Lines(text)
    found: list[Block] = []
    start: int | None = None
    for at, line in enumerate([*lines.all, ""]):
        if line.strip():
            start = at if start is None else start
            continue
        if start is None:
            continue
        size = lines.starts[min(at, len(lines.starts) - 1)] - lines.starts[start]
        following = lines.all[at + 1] if at + 1 < len(lines.all) else ""
        if at < len(lines.all) and size < _MAX_RUN and following[:1] in {" ", "\t"}:
            continue
        span = lines.span(start, at)
        pieces = [lines.span(each, each + 1) for each in range(start, at) if lines.all[each].strip()]
        found += split_long(text, Block(kind=BlockKind.CODE, span=span), pieces)
        start = None
    return found


def line_blocks(text: str) -> list[Block]:
    """Return each line of a log."""
    lines = Lines(text)
    spans = (lines.span(at, at + 1) for at, line in enumerate(lines.all) if line.strip())
    return [Block(kind=BlockKind.LINE, span=Span(each.start, min(each.end, each.start + BUDGET))) for each in spans]


_MAX_CACHED_BLOCKS: Final = 200_000
_CUTTERS: Final[Mapping[DocumentType, Callable[[str], Sequence[Block]]]] = {
    DocumentType.MARKDOWN: markdown_blocks,
    DocumentType.TEXT: layout_blocks,
    DocumentType.CONFIG: config_blocks,
    DocumentType.CODE: code_blocks,
    DocumentType.LOG: line_blocks,
}


def cut_document(text: str, document_type: DocumentType) -> Sequence[Block]:
    """Return the blocks of a text."""
    return _cut_hashed(text_hash(text), text, document_type)


@cached(
    LRUCache(_MAX_CACHED_BLOCKS, getsizeof=lambda blocks: max(1, len(blocks))),
    key=lambda digest, _, document_type: (digest, document_type),
)
def _cut_hashed(digest: bytes, text: str, document_type: DocumentType) -> Sequence[Block]:  # noqa: ARG001
    return tuple(_without_contents(text, _CUTTERS[document_type](text)))


def _without_contents(text: str, blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks without those of a table of contents, which name headings and say nothing."""
    heads = {_bare(each) for block in blocks for each in block.path}
    for block in blocks:
        if block.kind in {BlockKind.ITEM, BlockKind.LIST, BlockKind.PARAGRAPH}:
            lines = [line for each in text[slice(*block.span)].split("\n") if (line := _bare(each))]
            if lines and sum(each in heads for each in lines) >= _CONTENTS_SHARE * len(lines):
                continue
        yield block


def _bare(label: str) -> str:
    """Return the letters and digits of a heading or an item, without the address that it links to."""
    return "".join(filter(str.isalnum, _LINKED.sub("", label).lower()))
