"""Orders split over several entries of one agent's key: the pieces are joined, and judged as one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from knowledge.models import Entry, EntryStatus

SPLIT: Final = "split-order"
MAX_EARLIER: Final = 8
"""Entries of a key that a new one is joined with, the latest."""
_FIELDS: Final = (
    "solution_steps",
    "failure_description",
    "when_to_try",
    "revision_approach",
    "human_feedback",
    "approved_approach",
    "proposal",
    "task_description",
    "error_message",
)
_MAX_PIECE: Final = 240
"""Characters of a piece; of a longer text its beginning and its end are pieces."""
_PIECE_NAME: Final = (
    r"(?:part|step|half|piece|chunk|fragment|line|entry|note|message|memory|lesson|section)s?"
    r"(?: ?(?:no\.? ?|#)?(?:\d{1,2}|[a-d]|one|two|three|four|five|i{1,3}|iv)\b(?: ?(?:of|/) ?\w+)?)"
)
_ORDINAL: Final = (
    r"\b(?:first|second|third|fourth|next|last|final|other|previous|earlier|prior|later|remaining|rest of the) "
    r"(?:half|part|piece|step|note|entry|message|fragment|memory|lesson|line|section)s?\b"
)
_LINK: Final = re.compile(
    rf"(?:^|[.;!?,:\n] ?)\W{{0,3}}(?:\w+ ){{0,3}}?\b{_PIECE_NAME}[^:\n]{{0,30}}:|{_ORDINAL}|\b(?:to be )?continued\b|"
    r"^\W{0,3}(?:\d|[a-d]) ?(?:/|of) ?\d\b|[(\[]\d ?(?:/|of) ?\d[)\]]"
    r"|^\W{0,3}(?:and|then|or|to|of|on|previous|prior|above|instructions?|rules|it|with|whatever|into|afterwards|after that|"
    r"next,|now,|finally,|the (?:users?|rules|instructions)|users?|(?:then |now |next |finally |afterwards,? )?\w+ (?:it|them|those)|"
    r"\w+ (?:the|that|this|its|those) (?:\w+ )?(?:results?|values?|contents?|output|file|list|text|script|lines?))\b"
    r"|\b(?:what|whatever|everything|those|the \w+) (?:that )?(?:you|they|was|were) (?:just |have |had )*(?:read|found|got|saw|"
    r"collected|fetched|downloaded|copied|noted|stored|saved|gathered|learn(?:ed|t)|printed|seen|taken|extracted|written)\b"
    r"|\b(?:all|any|every|each|the|your|previous|prior|above|and|then|to|from|of|with|not|never|always|now|tell|into|at|"
    r"ignore|disregard|forget|send|post|read|run|you|must|an?|for|or|please)[\s,…_-]*(?:\.\.\.)?$",
    re.IGNORECASE,
)
"""Signs of a piece: it is numbered, begins or ends in the midst of a sentence, or refers to what is not in it."""
_LABEL: Final = re.compile(
    rf"(?:^|(?<=[.;!?]) ?|(?<=\n))[^.;!?\n]{{0,40}}?(?:\b{_PIECE_NAME}|{_ORDINAL}|[(\[]\d ?(?:/|of) ?\d[)\]])[^:\n]{{0,40}}?[:\])-] ?",
    re.IGNORECASE,
)
_TRAILER: Final = re.compile(r"[\s(\[]*(?:\bto be )?continue[ds]?\b.{0,40}$|\s*(?:\.\.\.|…)\s*$", re.IGNORECASE)
_OPENER: Final = re.compile(
    r"^\W*(?:\d ?(?:/|of) ?\d\W+)?(?:(?:then|now|next|finally|afterwards|after that)\b,? )?", re.IGNORECASE
)
_ENDS: Final = ".!?;"


def may_be_piece(entry: Entry) -> bool:
    """Return whether a text of an entry may be a piece of an order, so that it is worth comparing with earlier ones."""
    return any(map(_is_linked, (text for name in _FIELDS if (text := getattr(entry, name)))))


def hold_split_order(entry: Entry, earlier: Sequence[Entry], judge: Callable[[str], tuple[str, ...]]) -> Entry:
    """Return an entry, quarantined if it makes an order together with earlier entries of its key, oldest first."""
    for joined in _joined_texts(entry, earlier[-MAX_EARLIER:]):
        if kinds := judge(joined):
            kinds = tuple(sorted({SPLIT, *kinds}))
            return replace(entry, suspicions=kinds, status=EntryStatus.QUARANTINED)
    return entry


def _is_linked(text: str) -> bool:
    return any(map(_LINK.search, _pieces(text)))


def _pieces(text: str) -> list[str]:
    """Return a text as one piece; the beginning and the end of a long one."""
    text = text.strip()
    if len(text) <= _MAX_PIECE:
        return [text]
    return [text[: _MAX_PIECE // 2], text[-_MAX_PIECE // 2 :]]


def _joined_texts(entry: Entry, earlier: Sequence[Entry]) -> Iterator[str]:
    """Yield the texts that an entry makes with earlier ones: with each, before and after it, and with all in order."""
    for name in _FIELDS:
        text = getattr(entry, name)
        others = [other for each in earlier if (other := getattr(each, name)) and other != text]
        if not text or not others or not _is_linked(text):
            continue
        new = _pieces(text)
        for other in others:
            old = _pieces(other)
            yield _join([old[-1], new[0]])
            yield _join([new[-1], old[0]])
        if len(linked := list(filter(_is_linked, others))) > 1:
            yield _join([*(_pieces(other)[-1] for other in linked), new[0]])


def _join(pieces: Sequence[str]) -> str:
    """Return pieces as one text, without the labels and marks that tell a reader how to put them together."""
    bare = [_OPENER.sub("", _TRAILER.sub("", _LABEL.sub(" ", piece)).strip()) for piece in pieces]
    joined = ""
    for piece in filter(None, bare):
        ended = joined and joined[-1] in _ENDS
        joined = f"{joined[:-1]}, then {piece}" if ended else f"{joined} {piece}".strip()
    return joined
