"""A text of an entry as the point that stands for it in the index: one place, whoever writes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from knowledge.memory import texts
from knowledge.models import Entry, PatternId, Point, PointId, StoredPoint, TextPoint, Vector, View, point_id_of
from knowledge.search.lexical import document_vector, term_counts


def text_points(
    workspace: str, pattern_id: PatternId, told: Mapping[View, str], vectors: Mapping[View, Vector]
) -> tuple[TextPoint, ...]:
    """Return the texts of an entry as points of its pattern."""
    return tuple(
        TextPoint(
            point_id=point_id_of(workspace, pattern_id, view, texts.normalise(told[view])), view=view, vector=vector
        )
        for view, vector in vectors.items()
    )


def to_point(
    entry: Entry,
    view: View,
    *,
    workspace: str,
    point_id: PointId,
    vector: Vector,
    counts: Mapping[int, int],
    gist: Mapping[int, int] | None,
    mean_terms: float,
    embedded_at: datetime,
    expires_at: datetime,
) -> Point:
    """Return the point of a text of an entry; `gist`: the terms of what the model reads, where that is less."""
    return Point(
        point_id=point_id,
        dense=vector,
        lexical=document_vector(counts, mean_terms, gist=gist),
        workspace=workspace,
        entry_type=entry.entry_type,
        view=view,
        agent_type=entry.agent_type,
        task_type=entry.task_type,
        technology=entry.technology,
        gate_type=entry.gate_type,
        embedded_at=embedded_at,
        expires_at=expires_at,
    )


def stored_text(stored: StoredPoint) -> str:
    """Return the text that a stored point stands for."""
    told = texts.views(stored.entry)
    return told.get(stored.view) or told[View.SITUATION]


def embedded_text(stored: StoredPoint) -> str:
    """Return what the model reads of the text that a stored point stands for."""
    read = texts.as_embedded(stored.entry)
    return read.get(stored.view) or read[View.SITUATION]


def from_stored(
    stored: StoredPoint, vector: Vector, *, workspace: str, mean_terms: float, with_gist: bool = True
) -> Point:
    """Return the point that the index is to hold for a stored one; without its gist, as it was written once."""
    told, read = stored_text(stored), embedded_text(stored)
    return to_point(
        stored.entry,
        stored.view,
        workspace=workspace,
        point_id=stored.point_id,
        vector=vector,
        counts=term_counts(told),
        gist=term_counts(read) if with_gist and read != told else None,
        mean_terms=mean_terms,
        embedded_at=stored.embedded_at,
        expires_at=stored.expires_at,
    )
