"""Questions to a shard of the embedded engine, each within one workspace, and points as the engine has them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias
from uuid import UUID

import qdrant_edge as edge

from knowledge.adapters import qdrant_points as shape
from knowledge.models import Hit, Point, PointId, SparseVector

_Condition: TypeAlias = edge.FieldCondition | edge.Filter


def engine_point(point: Point) -> edge.Point:
    """Return a point as the engine has it."""
    vectors = {shape.DENSE: point.dense.tolist(), shape.LEXICAL: sparse(point.lexical)}
    return edge.Point(point.point_id, vectors, shape.payload(point))


def sparse(vector: SparseVector) -> edge.SparseVector:
    """Return a lexical vector as the engine has it."""
    return edge.SparseVector(list(vector.indices), list(vector.values))


def point_id_of(found: object) -> PointId:
    """Return the id of a point that the engine has."""
    return PointId(found if isinstance(found, UUID) else UUID(str(found)))


def _is(field: str, value: str) -> edge.FieldCondition:
    return edge.FieldCondition(field, match=edge.MatchValue(value))


def within_workspace(workspace: str, *conditions: _Condition, without: Collection[PointId] = ()) -> edge.Filter:
    """Return the filter of any question to the index: what it asks, and the workspace, which is added here alone."""
    return edge.Filter(
        must=[_is(shape.TENANT, workspace), *conditions],
        must_not=[edge.HasIdCondition(set(without))] if without else None,
    )


def filter_of(shard: edge.EdgeShard, wanted: shape.Conditions) -> edge.Filter:
    """Return the filter of a search. That a point is live is only asked for where one is not.

    Asking each point costs as much as comparing its vector (1.2 ms among 10,000), to look for one that is not 0.05 ms.
    """
    now = shape.write_moment(wanted.live_at, "live_at")
    expired = edge.ScrollRequest(limit=1, filter=expired_in(wanted.workspace, now), with_payload=False)
    is_live = edge.FieldCondition(shape.EXPIRES_AT, range=edge.RangeDateTime(gt=now))
    return within_workspace(
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


def expired_in(workspace: str, now: str) -> edge.Filter:
    """Return the filter of the points that have expired by now."""
    return within_workspace(workspace, edge.FieldCondition(shape.EXPIRES_AT, range=edge.RangeDateTime(lte=now)))


def search_both(
    shard: edge.EdgeShard, dense: list[float], lexical: SparseVector, allowed: edge.Filter, limit: int
) -> list[Hit]:
    """Return both scores of the union of both top lists: the tops first, then each list's scores by the other vector.

    Two calls beat one with prefetches (7.2 against 12.1 ms at 10,000 x 384, 80 terms, limit 50): that one repeats
    both searches in either half. Nothing comes between the two, they run without giving up the event loop.
    """
    by_sense = edge.Query.Nearest(dense, using=shape.DENSE)
    by_words = edge.Query.Nearest(sparse(lexical), using=shape.LEXICAL)
    asked = [by_sense, by_words] if lexical.indices else [by_sense]
    tops = shard.query_batch(
        edge.QueryBatchRequest([edge.QueryRequest(limit=limit, query=query, filter=allowed) for query in asked])
    )
    cosines = {found.id: found.score for found in tops[0]}
    words = {found.id: found.score for found in tops[1]} if len(tops) > 1 else {}
    missing = [(by_sense, words.keys() - cosines.keys(), cosines)]
    if lexical.indices:
        missing.append((by_words, cosines.keys() - words.keys(), words))
    missing = [(query, ids, scores) for query, ids, scores in missing if ids]
    rest = shard.query_batch(
        edge.QueryBatchRequest(
            [
                edge.QueryRequest(limit=len(ids), query=query, filter=edge.Filter(must=[edge.HasIdCondition(ids)]))
                for query, ids, _ in missing
            ]
        )
    )
    for (_, _, scores), page in zip(missing, rest, strict=True):
        scores.update((found.id, found.score) for found in page)
    hits = [Hit(point_id=point_id_of(i), cosine=cosine, lexical=words.get(i, 0.0)) for i, cosine in cosines.items()]
    return sorted(hits, key=lambda hit: hit.point_id)
