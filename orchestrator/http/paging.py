"""Lists in pages over HTTP: `limit` and `after` in the query, and a Link header to the next page (RFC 8288)."""

from __future__ import annotations

from fastapi import Request, Response


def link_next(request: Request, response: Response, **query: object) -> None:
    """Set the Link header to the next page of a list."""
    url = request.url.include_query_params(**query)
    response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
