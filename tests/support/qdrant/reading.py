"""Reads over a collection's shards: each shard answers alone, then the answers are merged, as a server merges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import qdrant_edge as edge

from tests.support.qdrant.conversion import (
    Body,
    id_order,
    json_id,
    refuse_unknown,
    to_filter,
    to_json,
    to_query,
    to_score,
)


@dataclass(frozen=True)
class Part:
    """An engine folder that is read, without the points that the reader must not see in it."""

    shard: edge.EdgeShard
    hidden: frozenset[Any] = field(default=frozenset())

    def hide(self, body: Body) -> Body:
        """Return a query whose searches exclude the hidden points."""
        if not self.hidden:
            return body
        prefetch = [self.hide(one) for one in body.get("prefetch") or []]
        asked = body.get("filter") or {}
        excluded = [*(asked.get("must_not") or []), {"has_id": list(self.hidden)}]
        changed = {**body, "filter": {**asked, "must_not": excluded}}
        return {**changed, "prefetch": prefetch} if prefetch else changed


class Reading:
    """The reads of one collection, merged over its parts."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def query(self, bodies: Sequence[Body]) -> list[list[Body]]:
        """Return the hits of each query: prefetches and all run in each shard to the end, then the scores are merged.

        So a list that a prefetch found is cut by the root query's score as soon as there are two shards (S12).
        """
        pages: list[list[Body]] = [[] for _ in bodies]
        for part in self._parts:
            requests = [to_query(part.hide(body)) for body in bodies]
            found = part.shard.query_batch(edge.QueryBatchRequest(requests))
            for page, hits, body in zip(pages, found, bodies, strict=True):
                whole = bool(body.get("with_payload") or body.get("with_vector"))
                page.extend(map(to_json if whole else to_score, hits))
        return [
            sorted(page, key=lambda hit: -float(hit["score"]))[: body["limit"]]
            for page, body in zip(pages, bodies, strict=True)
        ]

    def count(self, body: Body) -> Body:
        """Return how many points meet a filter."""
        refuse_unknown(body, "filter", "exact")
        counts = [
            part.shard.count(edge.CountRequest(exact=True, filter=to_filter(body.get("filter"), without=part.hidden)))
            for part in self._parts
        ]
        return {"count": sum(counts)}

    def scroll(self, body: Body) -> Body:
        """Return a page of points by id, and the id at which the next begins."""
        refuse_unknown(body, "filter", "limit", "offset", "with_payload", "with_vector")
        limit = body.get("limit") or 10
        found: list[Body] = []
        after: list[int | str] = []
        for part in self._parts:
            page, beyond = part.shard.scroll(
                edge.ScrollRequest(
                    limit=limit,
                    offset=body.get("offset"),
                    filter=to_filter(body.get("filter"), without=part.hidden),
                    with_payload=body.get("with_payload", True),
                    with_vector=body.get("with_vector", False),
                )
            )
            found += map(to_json, page)
            after += [] if beyond is None else [json_id(beyond)]
        found.sort(key=lambda record: id_order(record["id"]))
        after += [record["id"] for record in found[limit:]]
        return {"points": found[:limit], "next_page_offset": min(after, key=id_order, default=None)}

    def retrieve(self, body: Body) -> list[Body]:
        """Return the points with the given ids that exist."""
        refuse_unknown(body, "ids", "with_payload", "with_vector")
        found = []
        for part in self._parts:
            wanted = [one for one in body["ids"] if json_id(one) not in part.hidden]
            found += part.shard.retrieve(wanted, body.get("with_payload", True), body.get("with_vector", False))
        return [to_json(record) for record in found]
