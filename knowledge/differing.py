"""Two stores of the same ids, compared a page of each at a time; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

_Id = TypeVar("_Id", bound=UUID)


@dataclass(frozen=True, slots=True)
class Stretch(Generic[_Id]):
    """What differs in a stretch of ids, and the one behind which the next begins; None: there is no next."""

    lacking: frozenset[_Id]
    strange: tuple[_Id, ...]
    """In the order of ids."""
    end: _Id | None


def compared(there: Sequence[_Id], standing: Mapping[_Id, bool], *, page: int) -> Stretch[_Id]:
    """Compare what is there with what stands for it, as far as both were read: a full page may go on where it ends.

    Both are at most a `page` long, ascending, and from behind the same id. What stands is told with whether it must be
    there; else it may.
    """
    end = min((ids[-1] for ids in (there, [*standing]) if len(ids) == page), default=None)

    def read(each: _Id) -> bool:
        return end is None or each <= end

    lacking = frozenset(each for each, must in standing.items() if must and read(each)).difference(there)
    return Stretch(lacking, tuple(each for each in there if each not in standing and read(each)), end)
