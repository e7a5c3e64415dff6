"""A list told whole where several of its items answer, or one step of what the question asks how to do; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from knowledge.documents.extraction.sentence_scoring import Sentence
from knowledge.documents.segmentation.procedures import MAX_STEPS_CHARS
from knowledge.documents.verification.verify import Evidence
from knowledge.text.alignment import Span

_HOW = re.compile(
    r"\bhow\s+(?!many\b|much\b|long\b|often\b|far\b|old\b|late\b|big\b|large\b|high\b)\w+"
    r"|\bwhat\s+(?:should|do|must|can|shall|may|have|needs?|would)\s+(?:i|we|you|one|they|to)\b|\bwhat\s+to\s+do\b"
    r"|\b(?:steps|procedure|instructions|walk\s+(?:me|us)\s+through)\b",
    re.IGNORECASE,
)
_ONE_THING = re.compile(
    r"\b(?:who|whom|whose|when|where|which|why|how\s+(?:many|much|long|often|far|old|late|big|large|high))\b",
    re.IGNORECASE,
)
_MORE = "\n\u2026"
MAX_PIECES: Final = 3
"""Claims that one list takes at most."""


def with_whole_lists(
    chosen: Sequence[Sentence], found: Sequence[Sentence], question: str, evidence: Sequence[Evidence]
) -> list[Sentence]:
    """Return what was chosen with lists in place of their items, each where the first of its items was.

    A step comes alone only where one thing is asked for, or where no less of the question is in the step than above it.
    A list that is too long for one claim takes several, and what is not told even so has a sign in its place.
    """
    told = list(chosen)
    for whole in found:
        at = _first_item(told, whole, question)
        if at is None:
            continue
        parts = list(_pieces(whole, evidence[whole.source - 1].text))
        told = [
            *(each for each in told[:at] if not _is_inside(each, parts)),
            *parts,
            *(each for each in told[at:] if not _is_inside(each, parts)),
        ]
    return told


def _first_item(told: Sequence[Sentence], whole: Sentence, question: str) -> int | None:
    """Return the place of the first item of a list, where the list is to be told in place of it; else None."""
    listed = whole.listed
    if listed is None or len(listed.items) == 1 or any(whole is each for each in told):
        return None
    items = [
        (at, item)
        for at, each in enumerate(told)
        if each.source == whole.source and (item := listed.item(each.span.start)) is not None
    ]
    several = len({item for _, item in items}) > 1 or any(told[at].listed is listed for at, _ in items)
    if not (several or (items and listed.is_numbered and _asks_how(told[items[0][0]], question))):
        return None
    return items[0][0]


def _asks_how(step: Sentence, question: str) -> bool:
    """Return whether a question is about all that is to be done, of which a step is a part."""
    return step.of_heading and (_HOW.search(question) is not None or _ONE_THING.search(question) is None)


def _pieces(whole: Sentence, text: str) -> Iterator[Sentence]:
    """Yield a list in as many pieces as may be told, and those of its steps that come behind."""
    last = whole
    for _ in range(MAX_PIECES - 1):
        rest = [] if last.listed is None else [each for each in last.listed.items if each.start >= last.span.end]
        told = last.listed.end_within(rest[0].start, MAX_STEPS_CHARS) if rest and last.listed else 0
        if not (rest and told > rest[0].start):
            break
        yield replace(last, told=last.told.removesuffix(_MORE))
        span = Span(rest[0].start, told)
        more = _MORE if told < rest[-1].end else ""
        last = replace(last, span=span, told=text[slice(*span)] + more)
    yield last


def _is_inside(each: Sentence, parts: Sequence[Sentence]) -> bool:
    return any(
        each.source == part.source and part.span.start <= each.span.start and each.span.end <= part.span.end
        for part in parts
    )
