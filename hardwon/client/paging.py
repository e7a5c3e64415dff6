"""Keyset pagination: `after` is the key of the last item of the page before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

PAGE_SIZE = 1000
"""Items per request, at most."""
Item = TypeVar("Item")
Cursor = TypeVar("Cursor")


async def fetch_pages(
    ask: Callable[[Cursor | None, int], Awaitable[Sequence[Item]]],
    cursor: Callable[[Item], Cursor],
    *,
    most: int | None = None,
    page: int = PAGE_SIZE,
) -> list[Item]:
    """Return the items of a list, fetched page by page: at most `most`, or all of them."""
    items: list[Item] = []
    while most is None or len(items) < most:
        limit = page if most is None else min(page, most - len(items))
        more = await ask(cursor(items[-1]) if items else None, limit)
        items += more
        if len(more) < limit:
            break
    return items
