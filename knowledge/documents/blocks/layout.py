"""The blocks of plain text by its layout: empty lines, indentation, bullets, underlined or numbered headings; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from knowledge.documents.blocks.model import (
    BUDGET,
    MAX_LABEL_CHARS,
    Block,
    BlockKind,
    Lines,
    as_label,
    is_lead,
    split_long,
)
from knowledge.documents.parsing.sentences import sentences
from knowledge.text.alignment import Span

_BULLET = re.compile(r"(?:[-*+\u2022\u25cf\u00b7o]|\(?\d{1,3}[.)]|\(?[a-z][.)])[ \t]+\S")
_NUMBERED = re.compile(r"(?:\d{1,3}\.)+(?:\d{1,3})?[ \t]+[^\W\d_].{0,78}")
_UNDERLINE = re.compile(r"[ \t]*([=\-~^*#])\1{2,}[ \t]*")
_UNSTEPPED = re.compile(r"[-*+\u2022\u25cf\u00b7o]")
_MAX_HEADING_CHARS: Final = 80


@dataclass(slots=True)
class _Node:
    """Lines without an empty one between them that stand equally far in, and what stands farther in below them."""

    first: int
    end: int
    indent: int
    bullet: bool = False
    heading: bool = False
    children: list[_Node] = field(default_factory=list)

    @property
    def last(self) -> int:
        return self.children[-1].last if self.children else self.end


def layout_blocks(text: str) -> list[Block]:
    """Return the blocks of a plain text in order."""
    lines = Lines(text)
    return list(_Cutter(lines).cut(_tree(_nodes(lines.all)), ()))


def _nodes(lines: Sequence[str]) -> Iterator[_Node]:
    """Yield the paragraphs of a text; hanging lines and bullets are paragraphs of their own."""
    node: _Node | None = None
    hanging: int | None = None
    for at, raw in enumerate(lines):
        line = raw.expandtabs(8)
        stripped = line.strip()
        if not stripped:
            if node:
                yield node
            node, hanging = None, None
            continue
        indent = len(line) - len(line.lstrip())
        bullet = _BULLET.match(stripped) is not None
        if (
            node
            and not node.bullet
            and node.end - node.first == 1
            and _UNDERLINE.fullmatch(raw)
            and at - node.first == 1
        ):
            node.heading, node.end = True, at + 1
            continue
        if node is None:
            node = _Node(at, at + 1, indent, bullet)
        elif bullet or (indent < (hanging if hanging is not None else node.indent)):
            yield node
            node, hanging = _Node(at, at + 1, indent, bullet), None
        elif indent > node.indent and not node.bullet and node.end - node.first == 1 and indent - node.indent >= 2:
            yield node
            node, hanging = _Node(at, at + 1, indent), None
        elif indent > node.indent and node.bullet:
            node.end, hanging = at + 1, min(indent, hanging or indent)
        else:
            node.end = at + 1
    if node:
        yield node


def _tree(nodes: Iterator[_Node]) -> list[_Node]:
    """Return paragraphs with those that stand farther in below them as their children."""
    top: list[_Node] = []
    open_nodes: list[_Node] = []
    for node in nodes:
        while open_nodes and open_nodes[-1].indent >= node.indent:
            open_nodes.pop()
        (open_nodes[-1].children if open_nodes else top).append(node)
        open_nodes.append(node)
    return top


class _Cutter:
    """Yields the blocks of paragraphs."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def cut(self, nodes: Sequence[_Node], path: tuple[str, ...], lead: Span | None = None) -> Iterator[Block]:
        """Yield the blocks of nodes that stand equally far in, below `path`; `lead` introduces them."""
        own, at = path, 0
        while at < len(nodes):
            node = nodes[at]
            at += 1
            if self._is_heading(node):
                own = (*path, as_label(self._words(node)))
                yield from self._body(node, own, lead)
            elif node.children and not node.bullet:
                yield from self._definition(node, own, lead)
            else:
                items = self._items(node, nodes[at:])
                at += len(items)
                yield from self._group(node, items, own, lead)

    def _items(self, node: _Node, following: Sequence[_Node]) -> list[_Node]:
        """Return the nodes behind one that belong to it: the other items of its list, or what it leads to."""
        if not node.bullet and not is_lead(self._words(node)):
            return []
        items = list(takewhile(lambda each: each.bullet, following))
        if items or node.bullet or not following or self._is_heading(following[0]):
            return items
        return [following[0]]

    def _group(self, node: _Node, items: Sequence[_Node], path: tuple[str, ...], lead: Span | None) -> Iterator[Block]:
        if node.bullet:
            yield from self._list(None, [node, *items], path, lead)
        elif items:
            yield from self._list(node, items, path, lead)
        else:
            span = self.lines.span(node.first, node.end)
            block = Block(kind=BlockKind.PARAGRAPH, span=span, path=path, lead=lead)
            yield from split_long(self.lines.text, block, self._sentences(span))

    def _sentences(self, span: Span) -> list[Span]:
        return [Span(span.start + s, span.start + e) for s, e in sentences(self.lines.text[slice(*span)])]

    def _words(self, node: _Node) -> str:
        end = node.end - 1 if node.heading and node.end - node.first > 1 else node.end
        return " ".join(" ".join(self.lines.all[node.first : end]).split())

    def _is_heading(self, node: _Node) -> bool:
        if node.heading:
            return True
        words = self._words(node)
        if node.end - node.first != 1 or len(words) > _MAX_HEADING_CHARS or words.endswith((".", ",", ";", ":")):
            return False
        return (words.isupper() and len(words) > 3 and node.indent == 0) or (
            node.indent == 0 and _NUMBERED.fullmatch(words) is not None and not words.endswith(".")
        )

    def _body(self, node: _Node, path: tuple[str, ...], lead: Span | None) -> Iterator[Block]:
        span = self.lines.span(node.first, node.last)
        if not node.children:
            return
        if span.end - span.start <= BUDGET and len(node.children) > 1:
            yield Block(kind=BlockKind.SECTION, span=span, path=path)
        yield from self.cut(node.children, path, lead)

    def _definition(self, node: _Node, path: tuple[str, ...], lead: Span | None) -> Iterator[Block]:
        """Yield a term or lead with its body whole if that fits, and its parts."""
        span = self.lines.span(node.first, node.last)
        words = self._words(node)
        fits = span.end - span.start <= BUDGET
        if fits:
            yield Block(kind=BlockKind.DEFINITION, span=span, path=path, lead=lead)
        single = len(node.children) == 1 and not node.children[0].children
        if fits and single:
            return
        if len(words) <= MAX_LABEL_CHARS:
            yield from self.cut(node.children, (*path, as_label(words)), lead)
            return
        own = self.lines.span(node.first, node.end)
        if not fits:
            block = Block(kind=BlockKind.PARAGRAPH, span=own, path=path, lead=lead)
            yield from split_long(self.lines.text, block, self._sentences(own))
        yield from self.cut(node.children, path, own if is_lead(words) else lead)

    def _list(
        self, node: _Node | None, items: Sequence[_Node], path: tuple[str, ...], lead: Span | None
    ) -> Iterator[Block]:
        whole = self.lines.span((node or items[0]).first, items[-1].last)
        steps = items[0].bullet and not _UNSTEPPED.match(self._words(items[0])) and len(items) > 1
        own = self.lines.span(node.first, node.end) if node else lead
        fits = whole.end - whole.start <= BUDGET
        if fits:
            kind = BlockKind.STEPS if steps else BlockKind.LIST if items[0].bullet else BlockKind.PARAGRAPH
            yield Block(kind=kind, span=whole, path=path, lead=lead)
            if steps or len(items) == 1:
                return
        for item in items:
            span = self.lines.span(item.first, item.last)
            if span.end - span.start > BUDGET and item.children:
                yield from self._definition(item, path, own)
                continue
            block = Block(kind=BlockKind.ITEM, span=span, path=path, lead=own)
            yield from split_long(self.lines.text, block, self._sentences(span))
