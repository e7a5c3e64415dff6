"""Does an entry join a pattern, or found one? The one place that decides; pure.

For now: the same situation and the same resolution, after normalising white space and case, are the same pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.memory import texts
from knowledge.models import (
    Decision,
    Entry,
    EntryId,
    PatternId,
    TextPoint,
    Vector,
    View,
    pattern_id_of,
    point_id_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A leased entry with the vectors of its texts."""

    entry: Entry
    vectors: Mapping[View, Vector]


def decide(
    embeddings: Sequence[Embedding],
    *,
    held: Mapping[EntryId, PatternId | None],
    known: Mapping[str, PatternId],
    workspace: str,
) -> list[Decision]:
    """Return a decision for each entry still held, in order; one made by an earlier attempt stands.

    `known` are the patterns that exist, by match key; entries of the batch may found and join each other's.
    """
    by_key = dict(known)
    decisions = []
    for embedding in embeddings:
        entry = embedding.entry
        if entry.entry_id not in held:
            continue
        key = texts.match_key(entry)
        own = pattern_id_of(workspace, entry.entry_id)
        pattern_id = held[entry.entry_id] or by_key.setdefault(key, own)
        decisions.append(
            Decision(
                entry=entry,
                pattern_id=pattern_id,
                match_key=key,
                founds=pattern_id == own,  # a repeated founding too: what follows from it was not done yet
                points=_points(workspace, pattern_id, embedding),
            )
        )
    return decisions


def _points(workspace: str, pattern_id: PatternId, embedding: Embedding) -> tuple[TextPoint, ...]:
    words = texts.views(embedding.entry)
    return tuple(
        TextPoint(
            point_id=point_id_of(workspace, pattern_id, view, texts.normalised(words[view])), view=view, vector=vector
        )
        for view, vector in embedding.vectors.items()
    )
