"""Queries to a shard of the embedded engine, each within one workspace, and conversion of points."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias
from uuid import UUID

import qdrant_edge as edge

from knowledge.adapters.qdrant import payloads as shape
from knowledge.models import Hit, Point, PointId, SparseVector

_Condition: TypeAlias = edge.FieldCondition | edge.Filter


def to_engine_point(point: Point) -> edge.Point:
    """Convert a point to the engine's."""
    vectors = {shape.DENSE: point.dense.tolist(), shape.LEXICAL: sparse(point.lexical)}
    return edge.Point(point.point_id, vectors, shape.payload(point))


def sparse(vector: SparseVector) -> edge.SparseVector:
    """Convert a lexical vector to the engine's."""
    return edge.SparseVector(list(vector.indices), list(vector.values))


def point_id_of(raw: object) -> PointId:
    """Return the id of a point of the engine."""
    return PointId(raw if isinstance(raw, UUID) else UUID(str(raw)))


def _is(field: str, value: str) -> edge.FieldCondition:
    return edge.FieldCondition(field, match=edge.MatchValue(value))


def workspace_filter(workspace: str, *conditions: _Condition, without: Collection[PointId] = ()) -> edge.Filter:
    """Return the filter of a request: its conditions and the workspace, which is added here alone."""
    return edge.Filter(
        must=[_is(shape.TENANT, workspace), *conditions],
        must_not=[edge.HasIdCondition(set(without))] if without else None,
    )


def search_filter(shard: edge.EdgeShard, wanted: shape.Conditions) -> edge.Filter:
    """Return the filter of a search. It includes expiry only if there is an expired point.

    Testing each point costs as much as comparing its vector (1.2 ms among 10,000), looking for an expired one 0.05 ms.
    """
    now = shape.format_time(wanted.live_at, "live_at")
    expired = edge.ScrollRequest(limit=1, filter=expiry_filter(wanted.workspace, now), with_payload=False)
    is_live = edge.FieldCondition(shape.EXPIRES_AT, range=edge.RangeDateTime(gt=now))
    return workspace_filter(
        wanted.workspace,
        *(edge.FieldCondition(field, match=edge.MatchAny(list(values))) for field, values in wanted.one_of),
        *([is_live] if shard.scroll(expired)[0] else []),
        *(
            edge.Filter(
                should=[edge.FieldCondition(field, match=edge.MatchAny(list(values))), edge.IsEmptyCondition(field)]
            )
            for field, values in wanted.same_or_absent
        ),
        without=wanted.without,
    )


def expiry_filter(workspace: str, now: str) -> edge.Filter:
    """Return the filter of the points that have expired by `now`."""
    return workspace_filter(workspace, edge.FieldCondition(shape.EXPIRES_AT, range=edge.RangeDateTime(lte=now)))


def search_both(
    shard: edge.EdgeShard, dense: list[float], lexical: SparseVector, allowed: edge.Filter, limit: int
) -> list[Hit]:
    """Return both scores of the union of both top lists: the tops first, then each list's scores by the other vector.

    Two calls beat one with prefetches (7.2 against 12.1 ms at 10,000 x 384, 80 terms, limit 50), which repeats both
    searches in either half. Nothing comes between the two: they run without yielding to the event loop.
    """
    by_dense = edge.Query.Nearest(dense, using=shape.DENSE)
    by_lexical = edge.Query.Nearest(sparse(lexical), using=shape.LEXICAL)
    queries = [by_dense, by_lexical] if lexical.indices else [by_dense]
    tops = shard.query_batch(
        edge.QueryBatchRequest([edge.QueryRequest(limit=limit, query=query, filter=allowed) for query in queries])
    )
    ids: dict[int, PointId] = {}
    cosines, lexical_scores = _scores(tops[0], ids), _scores(tops[1], ids) if len(tops) > 1 else {}
    missing = [(by_dense, lexical_scores.keys() - cosines.keys(), cosines)]
    if lexical.indices:
        missing.append((by_lexical, cosines.keys() - lexical_scores.keys(), lexical_scores))
    missing = [(query, unscored, scores) for query, unscored, scores in missing if unscored]
    rest = shard.query_batch(
        edge.QueryBatchRequest(
            [
                edge.QueryRequest(
                    limit=len(unscored),
                    query=query,
                    filter=edge.Filter(must=[edge.HasIdCondition({ids[each] for each in unscored})]),
                )
                for query, unscored, _ in missing
            ]
        )
    )
    for (_, _, scores), page in zip(missing, rest, strict=True):
        scores.update(_scores(page, ids))
    return [
        Hit(point_id=ids[each], cosine=cosine, lexical=lexical_scores.get(each, 0.0))
        for each, cosine in sorted(cosines.items())
    ]


def _scores(page: Sequence[edge.ScoredPoint], ids: dict[int, PointId]) -> dict[int, float]:
    """Return the scores by id as an integer, and add these to `ids`: hashing UUIDs takes ten times as long."""
    scores = {}
    for found in page:
        point_id = point_id_of(found.id)  # the engine makes a new one at each access
        ids[point_id.int] = point_id
        scores[point_id.int] = found.score
    return scores


def search_words(shard: edge.EdgeShard, lexical: SparseVector, allowed: edge.Filter, limit: int) -> list[Hit]:
    """Return the points nearest by their words, with a cosine of 0."""
    if not lexical.indices:
        return []
    query = edge.Query.Nearest(sparse(lexical), using=shape.LEXICAL)
    found = shard.query(edge.QueryRequest(limit=limit, query=query, filter=allowed))
    hits = [Hit(point_id=point_id_of(each.id), cosine=0.0, lexical=each.score) for each in found]
    return sorted(hits, key=lambda hit: hit.point_id)
