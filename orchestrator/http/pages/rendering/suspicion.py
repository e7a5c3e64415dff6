"""Suspicious places of an entry that waits for review, marked and numbered, with the reasons in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from markupsafe import Markup

from knowledge.memory.capture.injection import CONTEXT_FIELDS, suspicions
from knowledge.memory.curation.review_queue import id_of_texts
from knowledge.models import Entry
from orchestrator.http.pages.rendering.plain_text import cut_text, show_text
from orchestrator.http.pages.rendering.words import TEXTS

EXPLANATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "override": ("Orders the agent", "Reads like an order to whoever reads it, not like what worked"),
    "role": ("Plays a role", "Speaks as a system, a user or a tool, to look like part of the conversation"),
    "markup": ("Imitates markup", "Looks like the marks that separate a conversation's parts"),
    "address": ("Speaks to the model", "Addresses a model or an agent, not a colleague"),
    "secrecy": ("Asks for silence", "Asks to hide something from the people who watch"),
    "exfiltration": ("Sends data away", "Sends files, keys or output to another place"),
    "command": ("Runs a command", "Has a command run that fetches or deletes something"),
    "persistence": ("Wants to stay", "Asks to be kept, repeated or obeyed from now on"),
    "authority": ("Claims authority", "Claims that somebody important has allowed it already"),
    "access": ("Widens access", "Asks for permissions, keys or an open door"),
    "oversight": ("Switches checks off", "Asks to skip reviews, tests or warnings"),
    "package-source": ("Foreign packages", "Installs from an address that is not the usual one"),
    "remote-instructions": ("Instructions elsewhere", "Points to instructions at another address"),
    "hidden-characters": ("Hidden characters", "Has characters that no reader sees, or text in disguise"),
    "other-language": ("Built like an order", "Has the structure of an order to whoever reads it, in any language"),
    "split-order": ("Split order", "Makes an order together with earlier entries of the same key"),
    "unreviewed": ("Not reviewed yet", "All that agents capture waits for a review here"),
}
"""The badge and the sentence of each kind of suspicion."""
_SENTENCE: Final = re.compile(r".+?(?:[.!?;]+(?=\s)|\n|\Z)|\n", re.DOTALL)
_MAX_SENTENCES: Final = 400
_LABELS: Final[Mapping[str, str]] = {**TEXTS, "verified_by": "Verified by", "dead_ends": "Did not help"}
_SHORT_FIELDS: Final = frozenset({"agent_type", "task_type", "technology", "gate_type"})


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A field of an entry, its suspicious places marked. `more`: characters that were left out."""

    label: str
    html: Markup
    more: int


@dataclass(frozen=True, slots=True)
class MarkedEntry:
    """An entry with marked texts and the reasons, in the order of their numbers; `is_marked`: a place was found.

    `texts_id`: id of all its texts, which an approval is of.
    """

    entry: Entry
    texts: Sequence[MarkedText]
    reasons: Sequence[tuple[str, str]]
    is_marked: bool
    texts_id: UUID


def mark_entry(entry: Entry) -> MarkedEntry:
    """Return an entry with its suspicious sentences marked. Reads each sentence alone, so an order over several shows
    as a reason without a place.
    """  # noqa: D205 - one sentence more
    numbers = {kind: number for number, kind in enumerate(entry.suspicions, 1)}
    texts, is_marked = [], False
    told = [(name, getattr(entry, name)) for name in CONTEXT_FIELDS]
    for name, value in [*told, *(("dead_ends", text) for text in entry.dead_ends)]:
        if not value or (name in _SHORT_FIELDS and not suspicions(value)):
            continue
        shown, more = cut_text(value)
        html = Markup("").join(_mark_sentences(shown, numbers))
        is_marked = is_marked or "<mark" in html
        texts.append(MarkedText(_LABELS.get(name, name.replace("_", " ").capitalize()), html, more))
    reasons = [EXPLANATIONS.get(kind, (kind.capitalize(), "Looks suspicious")) for kind in numbers]
    return MarkedEntry(entry, texts, reasons, is_marked, id_of_texts(entry))


def _mark_sentences(text: str, numbers: dict[str, int]) -> Iterator[Markup]:
    """Yield the sentences of a text as HTML; a suspicious one is marked with the numbers of its kinds."""
    for place, match in enumerate(_SENTENCE.finditer(text)):
        sentence = match[0]
        if not sentence:
            continue
        kinds = suspicions(sentence) if place < _MAX_SENTENCES and sentence.strip() else ()
        found = sorted({numbers[kind] for kind in kinds if kind in numbers})
        if not found:
            yield show_text(sentence)
            continue
        body = sentence.strip()
        before, _, behind = sentence.partition(body)
        marks = ", ".join(map(str, found))
        marked = Markup("<mark>{}<sup>{}</sup></mark>").format(show_text(body), marks)
        yield show_text(before) + marked + show_text(behind)
