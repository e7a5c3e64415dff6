"""Requests of the REST API as the embedded engine's values, and its records as the server's JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import qdrant_edge as edge

Body = dict[str, Any]

INDEXES: dict[str, Callable[..., Any]] = {
    "keyword": edge.KeywordIndexParams,
    "datetime": edge.DatetimeIndexParams,
    "integer": edge.IntegerIndexParams,
}


class Refused(Exception):
    """An answer that is not 200: JSON as the server's errors are, or a text where it sends one."""

    def __init__(self, status: int, message: str, *, text: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.text = text


def refuse_unknown(body: Body, *known: str) -> None:
    """Raise Refused for a field that the stand-in would ignore."""
    strange = {key for key, value in body.items() if value is not None and key not in known}
    if strange:
        raise Refused(400, f"not supported: {sorted(strange)}")


def to_vector(value: Any) -> Any:
    """Convert a dense or sparse vector."""
    return edge.SparseVector(value["indices"], value["values"]) if isinstance(value, dict) else value


def to_point(point: Body) -> edge.Point:
    """Convert a point of an upsert."""
    vectors = {key: to_vector(value) for key, value in point["vector"].items()}
    return edge.Point(point["id"], vectors, point.get("payload") or {})


def to_query(body: Body) -> edge.QueryRequest:
    """Convert a query with its prefetches."""
    refuse_unknown(
        body,
        *("prefetch", "query", "using", "filter", "limit", "params"),
        *("score_threshold", "with_payload", "with_vector"),
    )
    prefetches = []
    for prefetch in body.get("prefetch") or []:
        refuse_unknown(prefetch, "query", "using", "filter", "limit", "params", "score_threshold")
        prefetches.append(
            edge.Prefetch(
                limit=prefetch["limit"],
                query=_nearest(prefetch),
                filter=to_filter(prefetch.get("filter")),
                params=_params(prefetch.get("params")),
                score_threshold=prefetch.get("score_threshold"),
            )
        )
    return edge.QueryRequest(
        limit=body["limit"],
        query=_nearest(body),
        prefetches=prefetches,
        filter=to_filter(body.get("filter")),
        params=_params(body.get("params")),
        score_threshold=body.get("score_threshold"),
        with_payload=body.get("with_payload", False),
        with_vector=body.get("with_vector", False),
    )


def _nearest(body: Body) -> edge.Query:
    query = body["query"]
    vector = query.get("nearest", query) if isinstance(query, dict) else query
    return edge.Query.Nearest(to_vector(vector), using=body.get("using"))


def _params(body: Body | None) -> edge.SearchParams | None:
    if body is None:
        return None
    refuse_unknown(body, "hnsw_ef", "exact", "quantization", "indexed_only", "acorn")
    quantization, acorn = body.get("quantization"), body.get("acorn")
    return edge.SearchParams(
        hnsw_ef=body.get("hnsw_ef"),
        exact=bool(body.get("exact")),
        indexed_only=bool(body.get("indexed_only")),
        quantization=quantization and edge.QuantizationSearchParams(**_given(quantization)),
        acorn=acorn and edge.AcornSearchParams(**_given(acorn)),
    )


def _given(body: Body) -> Body:
    return {key: value for key, value in body.items() if value is not None}


def to_filter(body: Body | None, *, without: frozenset[Any] = frozenset()) -> edge.Filter | None:
    """Convert a filter, and let it exclude the ids `without`."""
    if body is None and not without:
        return None
    body = body or {}
    refuse_unknown(body, "must", "should", "must_not")

    def all_of(key: str) -> list[edge.ConditionType] | None:
        return None if body.get(key) is None else [_condition(one) for one in body[key]]

    excluded = [edge.HasIdCondition(set(without))] if without else []
    must_not = [*(all_of("must_not") or []), *excluded]
    return edge.Filter(must=all_of("must"), should=all_of("should"), must_not=must_not or None)


def _condition(body: Body) -> edge.ConditionType:
    match _given(body):
        case {"key": key, "match": {"value": str() as value}, **rest} if not rest:
            return edge.FieldCondition(key, match=edge.MatchValue(value))
        case {"key": key, "match": {"any": list() as values}, **rest} if not rest:
            return edge.FieldCondition(key, match=edge.MatchAny(values))
        case {"key": key, "range": dict() as bounds, **rest} if not rest:
            given = _given(bounds)
            numbers = all(isinstance(value, int | float) for value in given.values())
            return edge.FieldCondition(key, range=(edge.RangeFloat if numbers else edge.RangeDateTime)(**given))
        case {"is_empty": {"key": key}}:
            return edge.IsEmptyCondition(key)
        case {"has_id": list() as ids}:
            return edge.HasIdCondition(set(ids))
        case nested if nested.keys() <= {"must", "should", "must_not"}:
            return to_filter(nested) or edge.Filter()
    raise Refused(400, f"not supported: {body}")


def to_json(record: edge.Record | edge.ScoredPoint) -> Body:
    """Return a record as the server sends it: what was not asked for is absent."""
    found: Body = {"id": json_id(record.id)}
    if isinstance(record, edge.ScoredPoint):
        found |= {"version": record.version, "score": record.score}
    if record.payload is not None:
        found["payload"] = record.payload
    if isinstance(record.vector, dict):
        found["vector"] = {
            key: {"indices": value.indices, "values": value.values} if isinstance(value, edge.SparseVector) else value
            for key, value in record.vector.items()
        }
    return found


def to_score(hit: edge.ScoredPoint) -> Body:
    """Return a hit without what was not asked for; quick, as a query has hundreds."""
    return {"id": json_id(hit.id), "version": hit.version, "score": hit.score}


def json_id(point_id: Any) -> int | str:
    """Return an id as it stands in JSON: a number, or a UUID with hyphens."""
    if isinstance(point_id, UUID):
        return str(point_id)
    return point_id if isinstance(point_id, int) else str(UUID(point_id))


def id_order(point_id: int | str) -> tuple[int, int]:
    """Return the key that scrolls are sorted by: numbers come before UUIDs."""
    return (0, point_id) if isinstance(point_id, int) else (1, UUID(point_id).int)
