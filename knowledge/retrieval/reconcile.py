"""Compare the ids of two stores page by page; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

_Id = TypeVar("_Id", bound=UUID)


@dataclass(frozen=True, slots=True)
class Difference(Generic[_Id]):
    """Differences in a range of ids. `end`: the id after which the next range begins; None at the end."""

    missing: frozenset[_Id]
    unexpected: tuple[_Id, ...]
    """Ascending."""
    end: _Id | None


def compare_pages(actual: Sequence[_Id], expected: Mapping[_Id, bool], *, page: int) -> Difference[_Id]:
    """Compare stored ids with the expected ones, as far as both were read: a full page may continue after its end.

    Both are ascending, at most `page` long and begin after the same id. `expected` maps an id to whether it must be
    there; otherwise it may be.
    """
    end = min((ids[-1] for ids in (actual, [*expected]) if len(ids) == page), default=None)

    def is_read(each: _Id) -> bool:
        return end is None or each <= end

    missing = frozenset(each for each, must in expected.items() if must and is_read(each)).difference(actual)
    return Difference(missing, tuple(each for each in actual if each not in expected and is_read(each)), end)
