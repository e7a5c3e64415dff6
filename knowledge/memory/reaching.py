"""Reaching: entries that came when their pattern was full get points of their own once some of the others went.

A pattern has at most `MAX_POINTS` texts in the index, those that came first. Further entries are evidence beside them,
and live on when the year of the first ones is over, or somebody deletes these: nothing would find them.
"""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.errors import HardwonError, SpaceSwitched, TextRejected, reason_of
from knowledge.logs import get_logger
from knowledge.memory import texts
from knowledge.memory.points import text_points
from knowledge.memory.settling import settle
from knowledge.memory.spaces import SpaceInUse, space_in_use
from knowledge.models import Entry, EntryId, TextPoint
from knowledge.ports import Stores

_SLICE = 64

MAX_TRIES = 50
"""Attempts after which only a repair tries an entry again, ours: two days of hours. Who refused its text may have been
told otherwise by then, and each try is a call."""

log = get_logger(__name__)


async def reach_if_possible(stores: Stores, *, tries: int | None = MAX_TRIES) -> None:
    """Put such entries into the index, or leave it to whoever comes next: nothing else waits for it.

    Their texts are embedded again: the vector of what stands in no index is not kept. One whose text is refused stays
    where it is, makes room for those behind it, and is tried anew each time until it has had so many `tries`.
    """
    try:
        reached = await _reach(stores, tries)
    except HardwonError as error:
        log.warning("reaching_put_off", reason=reason_of(error))
    else:
        if reached:
            log.info("entries_reached", workspace=stores.workspace, entries=reached)


async def _reach(stores: Stores, tries: int | None) -> int:
    """Put such entries into the index; return how many. Raises Unavailable, or LocalOnly where no text may go there."""
    reached = 0
    now = stores.clock.now()
    refused: set[EntryId] = set()
    while entries := await stores.points.out_of_reach(now, _SLICE, without=refused, tries=tries):
        in_use = await space_in_use(stores)
        if in_use is None:
            break
        taken = await _points(stores, in_use, entries)
        left = {each.entry_id for each in entries}.difference(each.entry_id for each, _ in taken)
        if left:
            refused |= left
            await stores.points.tried(left)
        try:
            new = await stores.points.reach(taken, in_use.bound.space)
        except SpaceSwitched:
            continue
        if not (new or left):  # others were quicker
            break
        reached += new
    if reached:
        await settle(stores, whole=False)
    return reached


async def _points(
    stores: Stores, in_use: SpaceInUse, entries: Sequence[Entry]
) -> list[tuple[Entry, tuple[TextPoint, ...]]]:
    """Embed the texts of embedded entries; return those that are not refused with their points.

    Where any is refused, the slice is halved to find which.
    """
    read = await texts.all_as_embedded(entries)
    wanted = list(dict.fromkeys(text for of_entry in read.values() for text in of_entry.values()))
    try:
        made = await in_use.embedder.embed(wanted, "document")
    except TextRejected as error:
        if len(entries) == 1:
            log.warning("entry_not_reached", entry_id=str(entries[0].entry_id), reason=reason_of(error))
            return []
        middle = len(entries) // 2
        one = await _points(stores, in_use, entries[:middle])
        return one + await _points(stores, in_use, entries[middle:])
    vectors = dict(zip(wanted, made.vectors, strict=True))

    found = []
    for entry in entries:
        if entry.pattern_id is not None:  # as all have that are embedded
            of_views = {view: vectors[text] for view, text in read[entry.entry_id].items()}
            found.append((entry, text_points(stores.workspace, entry.pattern_id, texts.views(entry), of_views)))
    return found
