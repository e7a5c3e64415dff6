"""Work that is done in one workspace after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from knowledge.errors import HardwonError, Unavailable
from knowledge.logs import get_logger
from knowledge.wiring import Knowledge

log = get_logger(__name__)


async def in_each_workspace(knowledge: Knowledge, work: Callable[[Knowledge], Awaitable[int]]) -> int:
    """Do some work in every workspace; return how many things it dealt with.

    One in which it fails holds up no other: its error is raised once the others are done. Where a store or the embedder
    does not answer, that is raised at once.
    """
    done = 0
    failed: list[HardwonError] = []
    for workspace in await knowledge.workspaces():
        try:
            done += await work(knowledge.in_workspace(workspace))
        except Unavailable:
            raise
        except HardwonError as error:
            log.warning("job_failed_in_a_workspace", reason=str(error))
            failed.append(error)
    if failed:
        raise failed[0]
    return done
