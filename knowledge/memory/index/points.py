"""Conversion of an entry's texts to the points that represent them in the index."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from knowledge.memory.rules import embedding_text
from knowledge.models import Entry, PatternId, Point, PointId, StoredPoint, TextPoint, Vector, View, point_id_of
from knowledge.text.bm25 import document_vector, term_counts


def text_points(
    workspace: str, pattern_id: PatternId, views: Mapping[View, str], vectors: Mapping[View, Vector]
) -> tuple[TextPoint, ...]:
    """Return the texts of an entry as points of its pattern."""
    return tuple(
        TextPoint(
            point_id=point_id_of(workspace, pattern_id, view, embedding_text.normalise(views[view])),
            view=view,
            vector=vector,
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
    """Return the point of an entry's text; `gist`: the terms of the part that the model reads, if it is not all."""
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


def point_text(stored: StoredPoint) -> str:
    """Return the text that a stored point represents."""
    views = embedding_text.views(stored.entry)
    return views.get(stored.view) or views[View.SITUATION]


def model_text(stored: StoredPoint) -> str:
    """Return the part of a stored point's text that the model reads."""
    if stored.view is not View.SITUATION and (text := embedding_text.views(stored.entry).get(stored.view)):
        return embedding_text.description_gist(text)
    return embedding_text.situation_gist(stored.entry)


def from_stored(
    stored: StoredPoint, vector: Vector, *, workspace: str, mean_terms: float, with_gist: bool = True
) -> Point:
    """Return the index's point for a stored one; without its gist, as earlier releases wrote it."""
    text, read = point_text(stored), model_text(stored)
    return to_point(
        stored.entry,
        stored.view,
        workspace=workspace,
        point_id=stored.point_id,
        vector=vector,
        counts=term_counts(text),
        gist=term_counts(read) if with_gist and read != text else None,
        mean_terms=mean_terms,
        embedded_at=stored.embedded_at,
        expires_at=stored.expires_at,
    )
