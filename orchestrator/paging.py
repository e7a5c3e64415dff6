"""Lists that come in pages: `after` is what names the last item of the page before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

PAGE = 1000
"""What one request may ask for."""
Item = TypeVar("Item")
Cursor = TypeVar("Cursor")


async def paged(
    ask: Callable[[Cursor | None, int], Awaitable[Sequence[Item]]],
    cursor: Callable[[Item], Cursor],
    *,
    most: int | None = None,
    page: int = PAGE,
) -> list[Item]:
    """Return the items of a list, a page at a time: at most so many, or all of them."""
    found: list[Item] = []
    while most is None or len(found) < most:
        limit = page if most is None else min(page, most - len(found))
        more = await ask(cursor(found[-1]) if found else None, limit)
        found += more
        if len(more) < limit:
            break
    return found
