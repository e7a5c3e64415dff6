"""The profile of an entry: all that ranking takes from its texts, computed once at the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import arm_key
from knowledge.models import EntryProfile, EntryTexts, Evidence, NewEntry, View
from knowledge.retrieval.term_profile import RULES, TextTerms, extract_terms, unpack
from knowledge.text.bm25 import term_counts

MAX_COMPARED_CHARS = 2_000
"""Characters of a resolution that are compared."""
_TERM_BITS = 32
"""Size of a term id."""


def build_profile(
    entry: NewEntry | EntryTexts, *, counts: Mapping[View, Mapping[int, int]] | None = None
) -> EntryProfile:
    """Return the profile of an entry, by the rules of today; `counts`: the terms of its views, if counted before."""
    texts = embedding_text.views(entry)
    task = texts.get(View.TASK)
    ids = {view: each.keys() for view, each in (counts or {}).items()}
    resolution = embedding_text.resolution(entry)
    return EntryProfile(
        rules=RULES,
        arm_key=arm_key(resolution, texts[View.SITUATION]),
        situation=extract_terms(texts[View.SITUATION], ids.get(View.SITUATION)).pack(),
        task=None if task is None else extract_terms(task, ids.get(View.TASK)).pack(),
        resolution=np.array(sorted(_read_resolution(resolution)), dtype="<u8").tobytes(),
    )


def view_terms(evidence: Evidence, view: View) -> TextTerms:
    """Return the terms of a view of a pattern's words: those stored, else extracted now."""
    if profile := _usable(evidence):
        packed = profile.situation if view is View.SITUATION else profile.task
        if packed is not None:
            return unpack(packed)
    return extract_terms(embedding_text.views(evidence.words)[view])


def resolution_words(evidence: Evidence) -> AbstractSet[int]:
    """Return the words of a pattern's resolution, numbered: those stored, else extracted now."""
    if profile := _usable(evidence):
        return frozenset(np.frombuffer(profile.resolution, dtype="<u8").tolist())
    return _read_resolution(embedding_text.resolution(evidence.words))


def arm_of(evidence: Evidence) -> str:
    """Return the key of a pattern's resolution: the one stored, else computed now."""
    if profile := _usable(evidence):
        return profile.arm_key
    return arm_key(embedding_text.resolution(evidence.words), embedding_text.situation(evidence.words))


def number_words(counts: Mapping[int, int]) -> frozenset[int]:
    """Return each occurrence of each term as a number of its own: two such sets share what both texts have."""
    return frozenset(term + (time << _TERM_BITS) for term, times in counts.items() for time in range(times))


def _read_resolution(resolution: str) -> frozenset[int]:
    return number_words(term_counts(resolution[:MAX_COMPARED_CHARS]))


def _usable(evidence: Evidence) -> EntryProfile | None:
    profile = evidence.profile
    return profile if profile is not None and profile.rules == RULES else None
