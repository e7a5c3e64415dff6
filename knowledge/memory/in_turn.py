"""Work that is done on one thing after the other, where none may hold up the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from knowledge.errors import HardwonError, Unavailable, reason_of
from knowledge.logs import get_logger

log = get_logger(__name__)

_Thing = TypeVar("_Thing")
_Done = TypeVar("_Done")


async def in_turn(things: Iterable[_Thing], work: Callable[[_Thing], Awaitable[_Done]]) -> list[_Done]:
    """Do some work on each; return what came of it.

    One on which it fails holds up no other: its error is raised once the others are done. Where a store or the embedder
    does not answer, that is raised at once.
    """
    done: list[_Done] = []
    failed: list[HardwonError] = []
    for thing in things:
        try:
            done.append(await work(thing))
        except Unavailable:
            raise
        except HardwonError as error:
            log.warning("put_off", reason=reason_of(error))
            failed.append(error)
    if failed:
        raise failed[0]
    return done
