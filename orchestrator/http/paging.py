"""Lists in pages over HTTP: `limit` and `after` in the query, and a Link header to the next page (RFC 8288)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from orchestrator.paging import PAGE_SIZE

Limit = Annotated[int, Query(ge=1, le=PAGE_SIZE, description="At most so many; a Link header leads to the next page.")]
LAST = "What names the last one of the page before; left out, the list begins."


def link_next(request: Request, response: Response, **where: object) -> None:
    """Say in a Link header where the next page of a list is."""
    url = request.url.include_query_params(**where)
    response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
