"""The blocks of found passages, as candidates for an answer; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hardwon.models.documents import DocumentType, Passage, PassageId, PassageKind
from knowledge.documents.blocks.cut import cut_document
from knowledge.documents.blocks.model import BUDGET, Block, BlockKind
from knowledge.documents.models import WholeDocument
from knowledge.documents.parsing.sentences import sentences
from knowledge.documents.reading.question import Held, Question, Word
from knowledge.documents.verification.verify import Evidence
from knowledge.formats.headings import BELOW
from knowledge.text.alignment import Span

MAX_CUT_CHARS: Final = 4_000_000
"""A longer document is cut passage by passage: its blocks cost more than they gain."""
_SHOWING: Final = frozenset({BlockKind.CODE, BlockKind.LINE})
_READABLE: Final = frozenset({PassageKind.CHUNK, PassageKind.DOCUMENT})
_HEAD_WORDS: Final = 4
_KEY: Final = re.compile(r"[\s:=]")
_GAP: Final = re.compile(r"\s{2,}|:\s|\s+[-\u2013\u2014]\s|&mdash;")
"""What parts a term from the body beside it."""
_HELD_ABOVE: Final = 0.75
"""What a word counts that stands in the headings above a block or in the sentence that introduces it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A block of a passage. `source`: the passage's number from 1; the spans of the block are offsets in its text."""

    source: int
    block: Block
    text: str
    above: str
    share: float
    """The share of the question's words that it holds with what stands above it, and that its best sentence does."""
    beyond: float
    named: float
    """How surely its head, such as the term that it defines, is named by the question."""
    missing: tuple[Word, ...]
    marked: Span
    """The sentence that matches best: offsets in the passage's text."""
    sentence: str

    @property
    def size(self) -> int:
        """The number of its characters."""
        return self.block.span.end - self.block.span.start


def widen(passages: Sequence[Passage], wholes: Iterable[WholeDocument]) -> dict[PassageId, tuple[Passage, list[Block]]]:
    """Return passages with the blocks that they touch whole, and those blocks with offsets in the passage's text."""
    documents = {(each.document.document_id, each.document.generation): each for each in wholes}
    found: dict[PassageId, tuple[Passage, list[Block]]] = {}
    for passage in passages:
        whole = documents.get((passage.document_id, passage.generation))
        span = passage.char_start, passage.char_end
        if passage.kind not in _READABLE or passage.document_type is DocumentType.LOG or None in span:
            continue
        if whole is None or len(whole.text) > MAX_CUT_CHARS:
            continue
        start, end = span[0] or 0, span[1] or 0
        touched = [
            each for each in cut_document(whole.text, whole.document.document_type) if _meets(each.span, start, end)
        ]
        first = min([start, *(_begin(each) for each in touched)])
        last = max([end, *(each.span.end for each in touched)])
        lines = (passage.line_start or 1) - whole.text.count("\n", first, start)
        wider = replace(
            passage,
            text=whole.text[first:last],
            char_start=first,
            char_end=last,
            line_start=lines,
            line_end=lines + whole.text.count("\n", first, last),
        )
        found[passage.passage_id] = wider, [_moved(each, first) for each in touched]
    return found


def _meets(span: Span, start: int, end: int) -> bool:
    return span.start < end and start < span.end and span.start >= start - BUDGET and span.end <= end + BUDGET


def _begin(block: Block) -> int:
    near = block.lead is not None and block.span.start - block.lead.start <= 2 * BUDGET
    return block.lead.start if near and block.lead else block.span.start


def _moved(block: Block, by: int) -> Block:
    lead = block.lead if block.lead and _begin(block) == block.lead.start else None
    return replace(
        block,
        span=Span(block.span.start - by, block.span.end - by),
        lead=Span(lead.start - by, lead.end - by) if lead else None,
    )


def blocks_in(passage: Passage, text: str) -> list[Block]:
    """Return the blocks of a passage by itself, below the headings that it is stored with."""
    above = tuple(passage.section.split(BELOW)) if passage.section else ()
    cut = cut_document(text, passage.document_type)
    return [each if each.path[: len(above)] == above else replace(each, path=(*above, *each.path)) for each in cut]


def candidates(question: Question, evidence: Sequence[Evidence], blocks: Sequence[Sequence[Block]]) -> list[Candidate]:
    """Return the blocks of each evidence as candidates, each place of a document once."""
    found: list[Candidate] = []
    seen: set[tuple[object, int, int]] = set()
    for source, (each, own) in enumerate(zip(evidence, blocks, strict=True), 1):
        passage, offset = each.passage, each.passage.char_start or 0
        title = "\n".join(part for part in (passage.title, passage.name, passage.function) if part)
        for block in own:
            place = passage.document_id, offset + block.span.start, offset + block.span.end
            text = each.text[slice(*block.span)]
            if place in seen or not any(map(str.isalnum, text)):
                continue
            if _is_question(block, text, question) or question.is_turned_by(text):
                continue
            seen.add(place)
            found.append(_candidate(question, source, block, each.text, title))
    return found


def _is_question(block: Block, text: str, question: Question) -> bool:
    """Return whether a block is a question: one that is asked is never its own answer."""
    asks = block.kind in {BlockKind.PARAGRAPH, BlockKind.ITEM, BlockKind.LINE} and text.rstrip(' *_`"').endswith("?")
    return asks or (block.kind in _SHOWING and question.is_shown_by(text)) or question.repeats(Held(block.told or text))


def _candidate(question: Question, source: int, block: Block, text: str, title: str) -> Candidate:
    own = block.told or text[slice(*block.span)]
    lead = text[slice(*block.lead)] if block.lead else ""
    above = "\n".join([*block.path, *([lead] if lead else [])])
    if block.kind is BlockKind.DEFINITION:
        above = f"{above}\n{own.partition(chr(10))[0]}"
    whole, around = Held(own, above, title), Held(above, title)
    nearest, marked = max(
        ((_share(question, Held(part), around), span) for span, part in _sentences(block, own, text)),
        key=lambda each: (each[0], -each[1].start),
        default=(0.0, block.span),
    )
    return Candidate(
        source=source,
        block=block,
        text=own,
        above=above,
        share=(nearest + _share(question, Held(own), around)) / 2,
        beyond=question.share(Held(text[slice(*marked)] if not block.told else own, above), without=Held(title)),
        named=question.names(_head(block, own)),
        missing=question.missing(whole, f"{above}\n{own}", title),
        marked=marked,
        sentence=text[slice(*marked)],
    )


def _head(block: Block, own: str) -> str:
    """Return what a block is about in a few words: the term, key or first cell that it begins with."""
    if block.kind in {BlockKind.PARAGRAPH, BlockKind.CODE, BlockKind.SECTION}:
        return block.path[-1] if block.path else ""
    if block.kind is BlockKind.SETTING:
        return _KEY.split(own.strip().rpartition("\n")[2].rpartition(BELOW)[2])[0]
    first = own.lstrip(" -*+#").partition("\n")[0].partition(";")[0]
    if block.kind is BlockKind.ROW:
        return first.rpartition(": ")[2]
    return " ".join(_GAP.split(first)[0].split()[:_HEAD_WORDS])


def _share(question: Question, inside: Held, around: Held) -> float:
    """Return the share of a question's words that a text holds, those that only stand above it counting less."""
    return (1 - _HELD_ABOVE) * question.share(inside) + _HELD_ABOVE * question.share(inside | around)


def _sentences(block: Block, own: str, text: str) -> list[tuple[Span, str]]:
    """Return the sentences of a block, or its lines, each with its place."""
    if block.told:
        return [(block.span, own)]
    start = block.span.start
    lined = block.kind in {BlockKind.CODE, BlockKind.SETTING, BlockKind.LINE, BlockKind.TABLE}
    spans = [Span(start + s, start + e) for s, e in sentences(text[slice(*block.span)], by_line=lined)]
    return [(each, text[slice(*each)]) for each in spans]
