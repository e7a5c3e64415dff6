"""Refusals of the stand-in server: keys, the size of a body, and the limits of strict mode, in the server's words.

The texts that no case file has are those of Qdrant's sources (`lib/storage/src/rbac`, `operations/verification`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.qdrant.conversion import Body, Refused

_OPEN = ("/", "/healthz", "/livez", "/readyz")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The keys that the server takes; without any, everybody may do everything.

    `collection_key` may read and write the points of `collections`, and whole collections not at all (S17).
    """

    api_key: str | None = None
    read_only_key: str | None = None
    collection_key: str | None = None
    collections: tuple[str, ...] = ()

    def check(self, path: str, headers: Mapping[str, str], *, manages: bool, writes: bool, name: str) -> None:
        """Raise Refused unless the request's key may do this."""
        if self == Access() or path in _OPEN:
            return
        key = headers.get("api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not key:
            raise Refused(401, "Must provide an API key or an Authorization bearer token", text=True)
        if key == self.api_key:
            return
        if key == self.read_only_key:
            if manages or writes:
                raise Refused(403, "Forbidden: Global manage access is required")
        elif key == self.collection_key:
            self._check_collection(name, manages=manages)
        else:
            raise Refused(401, "Invalid API key or JWT", text=True)

    def _check_collection(self, name: str, *, manages: bool) -> None:
        if manages and not name:
            raise Refused(403, "Forbidden: Global access is required")
        if name and name not in self.collections:
            raise Refused(403, f"Forbidden: Access to collection {name} is required")
        if manages:
            raise Refused(403, "Forbidden: Manage access for this operation is required")


def check_size(size: int, limit: int) -> None:
    """Raise Refused for a body above the limit."""
    if size > limit:
        raise Refused(400, f"JSON payload ({size} bytes) is larger than allowed (limit: {limit} bytes).")


def check_strict_mode(strict: Body | None, schema: Body, path: str, body: Body) -> None:
    """Raise Refused where a request to points is beyond a collection's strict mode."""
    if not strict or not strict.get("enabled"):
        return
    searches = body.get("searches", [body])
    if "searches" in body:
        _check_limit(len(searches), strict.get("search_max_batchsize"), "search batch size")
    if path.endswith("/points"):
        _check_limit(len(body.get("points") or []), strict.get("upsert_max_batchsize"), "upsert limit")
    deletes = path.endswith("/delete")
    for search in searches:
        _check_search(strict, schema, search, deletes=deletes, counts=path.endswith("/count"))


def _check_search(strict: Body, schema: Body, body: Body, *, deletes: bool, counts: bool) -> None:
    for prefetch in body.get("prefetch") or []:
        _check_search(strict, schema, prefetch, deletes=deletes, counts=counts)
    _check_limit(body.get("limit"), strict.get("max_query_limit"), "limit")
    _check_filter(strict, schema, body.get("filter"), deletes=deletes)
    params = body.get("params") or {}
    if strict.get("search_allow_exact") is False and (params.get("exact") or (counts and body.get("exact", True))):
        _refuse("Exact search disabled!", "Set exact=false.")
    _check_limit(params.get("hnsw_ef"), strict.get("search_max_hnsw_ef"), "hnsw_ef")


def _check_filter(strict: Body, schema: Body, wanted: Body | None, *, deletes: bool) -> None:
    conditions = list(_conditions(wanted))
    most = strict.get("filter_max_conditions")
    if most is not None and len(conditions) > most:
        _refuse(
            f"Filter condition limit reached ({len(conditions)} > {most})",
            "Reduce the amount of conditions of your filter.",
        )
    largest = max(map(_size, conditions), default=0)
    size = strict.get("condition_max_size")
    if size is not None and largest > size:
        _refuse(f"Condition size limit reached ({largest} > {size})", "Reduce the size of your condition.")
    allowed = strict.get("unindexed_filtering_update" if deletes else "unindexed_filtering_retrieve")
    for condition in conditions:
        key = condition.get("key") or (condition.get("is_empty") or {}).get("key")
        if allowed is False and key and key not in schema:
            kind = "datetime" if condition.get("range") else "keyword"
            _refuse(
                f'Index required but not found for "{key}" of one of the following types: [{kind}]',
                "Create an index for this key or use a different filter.",
            )


def _conditions(wanted: Body | None) -> Iterator[Body]:
    for key in ("must", "should", "must_not"):
        for condition in (wanted or {}).get(key) or []:
            if condition.keys() & {"must", "should", "must_not"}:
                yield from _conditions(condition)
            else:
                yield condition


def _size(condition: Body) -> int:
    values: Any = condition.get("has_id") or (condition.get("match") or {}).get("any") or [condition]
    return len(values)


def _check_limit(value: int | None, limit: int | None, name: str) -> None:
    if value is not None and limit is not None and value > limit:
        _refuse(f'Limit exceeded {value} > {limit} for "{name}"', f'Reduce the "{name}" parameter to or below {limit}.')


def _refuse(problem: str, advice: str) -> None:
    raise Refused(400, f"Bad request: {problem}. Help: {advice}")
