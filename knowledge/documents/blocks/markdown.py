"""The blocks of Markdown, as markdown-it-py parses it; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from knowledge.documents.blocks.model import BUDGET, Block, BlockKind, Lines, as_label, is_lead, split_long
from knowledge.documents.parsing.decode import front_matter_end
from knowledge.documents.parsing.sentences import sentences
from knowledge.formats.csv_tables import DELIMITER
from knowledge.text.alignment import Span

_CODE: Final = frozenset({"fence", "code_block"})
_LISTS: Final = frozenset({"bullet_list", "ordered_list"})
_LED: Final = _CODE | _LISTS | {"table", "blockquote", "html_block"}
_JOINED: Final = _CODE | {"paragraph"}
_LABEL = re.compile(r"(?:\*\*|__)[^*_\n]{1,100}(?:\*\*|__):?")
"""A paragraph that is nothing but bold words: a heading by its looks."""
_CELLS = re.compile(r"(?<!\\)\|")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"<[^<>\n]{1,300}>")
_MIN_ITEMS: Final = 2


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks alone; what is within a line is shown as it stands."""
    made = MarkdownIt("commonmark").enable("table")
    made.core.ruler.enableOnly(["normalize", "block"])
    return made


@dataclass(slots=True)
class _Above:
    """Headings above a block, with their depths, and the sentence that introduces what stands below one of them."""

    path: list[tuple[int, str]] = field(default_factory=list)
    lead: Span | None = None
    lead_depth: int = 0

    def enter(self, depth: int, title: str) -> None:
        self.path = [*(each for each in self.path if each[0] < depth), (depth, title)]
        if depth <= self.lead_depth:
            self.lead = None

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(title for _, title in self.path)


_LABEL_DEPTH: Final = 7


def markdown_blocks(text: str) -> list[Block]:
    """Return the blocks of a Markdown text in order."""
    begin = front_matter_end(text)
    blank = "".join("\n" if each == "\n" else " " for each in text[:begin])
    source = blank + text[begin:] if begin else text
    lines = Lines(text)
    tokens = _parser().parse(source)
    root = SyntaxTreeNode(tokens)
    found = list(_Cutter(lines).cut(root.children, _Above()))
    return [*found, *_sections(lines, tokens, begin)]


def _led(words: str, following: Sequence[SyntaxTreeNode]) -> list[SyntaxTreeNode]:
    """Return the nodes that belong to a paragraph: all code right below it, or what it leads to by a colon."""
    code = list(takewhile(lambda node: node.type in _CODE, following))
    if code or not following or not is_lead(words):
        return code
    return [following[0]] if following[0].type in _LED | {"paragraph"} else []


class _Cutter:
    """Yields the blocks of sibling nodes."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def cut(self, nodes: Sequence[SyntaxTreeNode], above: _Above) -> Iterator[Block]:
        """Yield the blocks of nodes in order, below `above`."""
        placed = [node for node in nodes if node.map is not None]
        at = 0
        while at < len(placed):
            node = placed[at]
            at += 1
            words = self.lines.text[slice(*self.span(node))]
            if node.type == "heading":
                above.enter(int(node.tag[1]), as_label(node.children[0].content if node.children else words))
            elif node.type != "paragraph":
                yield from self._other(node, above, None)
            elif _LABEL.fullmatch(words):
                above.enter(_LABEL_DEPTH, as_label(words))
            elif words.startswith("|") and "\n" in words and words.count("|") > 2:
                yield from self._rows(*self._map(node), above, None)
            else:
                led = _led(words, placed[at:])
                at += len(led)
                yield from self._paragraph(
                    self.span(node), led, above, last=at == len(placed) or placed[at].type == "heading"
                )

    def span(self, node: SyntaxTreeNode) -> Span:
        """Return the span of a node."""
        return self.lines.span(*self._map(node))

    @staticmethod
    def _map(node: SyntaxTreeNode) -> tuple[int, int]:
        return node.map or (0, 0)

    def _paragraph(self, span: Span, led: Sequence[SyntaxTreeNode], above: _Above, *, last: bool) -> Iterator[Block]:
        text = self.lines.text
        if not led:
            if is_lead(text[slice(*span)]) and last:
                above.lead, above.lead_depth = span, above.path[-1][0] if above.path else 0
                return
            block = Block(kind=BlockKind.PARAGRAPH, span=span, path=above.titles, lead=above.lead)
            pieces = [Span(span.start + s, span.start + e) for s, e in sentences(text[slice(*span)])]
            yield from split_long(text, block, pieces)
            return
        end = self.span(led[-1]).end
        if led[0].type in _JOINED:
            whole = Span(span.start, end)
            if whole.end - whole.start <= BUDGET:
                kind = BlockKind.CODE if led[0].type in _CODE else BlockKind.PARAGRAPH
                yield Block(kind=kind, span=whole, path=above.titles, lead=above.lead)
            else:
                yield Block(kind=BlockKind.PARAGRAPH, span=span, path=above.titles, lead=above.lead)
                yield from self.cut([node for node in led if node.type == "paragraph"], above)
                for node in led:
                    yield from self._other(node, above, span)
            return
        for node in led:
            yield from self._other(node, above, span)

    def _other(self, node: SyntaxTreeNode, above: _Above, lead: Span | None) -> Iterator[Block]:
        span = self.span(node)
        if node.type in _CODE:
            yield from self._code(span, above, lead)
        elif node.type in _LISTS:
            yield from self._list(node, span, above, lead)
        elif node.type == "table":
            yield from self._rows(*self._map(node), above, lead)
        elif node.type == "blockquote":
            yield from self.cut(node.children, above)
        elif node.type == "html_block":
            told = " ".join(_TAG.sub(" ", _COMMENT.sub(" ", self.lines.text[slice(*span)])).split())
            if told:
                yield Block(kind=BlockKind.PARAGRAPH, span=span, path=above.titles, lead=lead or above.lead, told=told)

    def _code(self, span: Span, above: _Above, lead: Span | None) -> Iterator[Block]:
        text = self.lines.text
        block = Block(kind=BlockKind.CODE, span=span, path=above.titles, lead=lead or above.lead)
        ends = [span.start + each.end() for each in re.finditer(r"\n\s*\n|\n", text[slice(*span)])]
        pieces = [Span(s, e) for s, e in zip([span.start, *ends], [*ends, span.end], strict=True) if s < e]
        yield from split_long(text, block, pieces)

    def _list(self, node: SyntaxTreeNode, span: Span, above: _Above, lead: Span | None) -> Iterator[Block]:
        whole = Span(lead.start if lead else span.start, span.end)
        steps = node.type == "ordered_list"
        fits = whole.end - whole.start <= BUDGET
        if fits and len(node.children) >= _MIN_ITEMS:
            kind = BlockKind.STEPS if steps else BlockKind.LIST
            yield Block(kind=kind, span=whole, path=above.titles, lead=above.lead)
            if steps:
                return
        for item in node.children:
            if item.map is not None:
                yield from self._item(item, above, lead)

    def _item(self, item: SyntaxTreeNode, above: _Above, lead: Span | None) -> Iterator[Block]:
        span, text = self.span(item), self.lines.text
        fits = span.end - span.start <= BUDGET
        if fits:
            yield Block(kind=BlockKind.ITEM, span=span, path=above.titles, lead=lead or above.lead)
        inner = [each for each in item.children if each.type in _LISTS | {"table"}]
        first = item.children[0] if item.children else None
        label = as_label(text[slice(*self.span(first))]) if first is not None and first.map else ""
        below = _Above(path=[*above.path, *([(_LABEL_DEPTH + 1, label)] if label else [])], lead=above.lead)
        yield from self.cut(inner if fits else item.children, below)

    def _rows(self, first: int, end: int, above: _Above, lead: Span | None) -> Iterator[Block]:
        names = cells_of(self.lines.all[first])
        whole = self.lines.span(first, end)
        whole = Span(lead.start, whole.end) if lead else whole
        if whole.end - whole.start <= BUDGET:
            yield Block(kind=BlockKind.TABLE, span=whole, path=above.titles, lead=above.lead)
        for number in range(first + 1, end):
            line = self.lines.all[number].strip()
            if DELIMITER.fullmatch(line) or not any(map(str.isalnum, line)):
                continue
            cells = cells_of(line)
            told = "; ".join(
                f"{name}: {cell}" if name and name != cell else cell
                for name, cell in zip([*names, *[""] * len(cells)], cells, strict=False)
                if cell
            )
            span = self.lines.span(number, number + 1)
            yield Block(kind=BlockKind.ROW, span=span, path=above.titles, lead=lead or above.lead, told=told)


def cells_of(row: str) -> list[str]:
    """Return the cells of a row of a table."""
    return [" ".join(each.replace("\\|", "|").split()) for each in _CELLS.split(row.strip().strip("|"))]


def _sections(lines: Lines, tokens: Sequence[Token], begin: int) -> Iterator[Block]:
    """Yield each section that fits the budget, its heading with all below it."""
    heads = [
        (token.map[0], int(token.tag[1]), token.map[1])
        for token in tokens
        if token.type == "heading_open" and token.map and token.level == 0 and lines.starts[token.map[0]] >= begin
    ]
    path: list[tuple[int, str]] = []
    for at, (first, depth, after) in enumerate(heads):
        title = as_label(lines.text[slice(*lines.span(first, after))])
        path = [*(each for each in path if each[0] < depth), (depth, title)]
        end = next((other for other, level, _ in heads[at + 1 :] if level <= depth), len(lines.all))
        span = lines.span(first, end)
        body = lines.span(after, end)
        if body.end > body.start and span.end - span.start <= BUDGET:
            yield Block(kind=BlockKind.SECTION, span=span, path=tuple(title for _, title in path))
