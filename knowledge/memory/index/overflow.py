"""Reaching: entries without a point get one once their pattern has room in the index.

A pattern has at most `MAX_POINTS` texts in the index, the earliest. Further entries are evidence without a point; when
the earlier ones expire or are deleted, no query would find the pattern by the later ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hardwon.errors import HardwonError, SpaceSwitched, TextRejected, reason_of
from hardwon.event_log import get_logger
from knowledge.memory.index.embedding_space import SpaceInUse, space_in_use
from knowledge.memory.index.points import text_points
from knowledge.memory.index.reconcile import SWITCH_POLL_SECONDS, settle
from knowledge.memory.rules import embedding_text
from knowledge.models import Entry, EntryId, TextPoint
from knowledge.ports import Stores

_SLICE = 64

MAX_TRIES = 50
"""Attempts after which only a repair retries an entry; ours: two days of hourly attempts, each of which is a call."""

log = get_logger(__name__)


async def reach_if_possible(stores: Stores, *, tries: int | None = MAX_TRIES) -> None:
    """Index such entries, or leave it to the next process on an error; nothing else waits for it.

    Their texts are embedded again, as vectors of unindexed texts are not stored. An entry whose text is refused is
    skipped, and retried each time up to `tries` attempts.
    """
    try:
        reached = await _reach(stores, tries)
    except HardwonError as error:
        log.warning("reaching_put_off", reason=reason_of(error))
    else:
        if reached:
            log.info("entries_reached", workspace=stores.workspace, entries=reached)


async def _reach(stores: Stores, tries: int | None) -> int:
    """Index such entries; return their number. Raises Unavailable, or LocalOnly where no text may leave the machine."""
    reached = 0
    now = stores.clock.now()
    refused: set[EntryId] = set()
    while entries := await stores.points.entries_without_points(now, _SLICE, without=refused, tries=tries):
        in_use = await space_in_use(stores)
        if in_use is None:
            break
        with_points = await _points(stores, in_use, entries)
        refused_now = {each.entry_id for each in entries}.difference(each.entry_id for each, _ in with_points)
        if refused_now:
            refused |= refused_now
            await stores.points.count_attempt(refused_now)
        try:
            new = await stores.points.attach(with_points, in_use.bound.space)
        except SpaceSwitched:
            await asyncio.sleep(SWITCH_POLL_SECONDS)
            continue
        if not (new or refused_now):  # other processes were faster
            break
        reached += new
    if reached:
        await settle(stores, whole=False)
    return reached


async def _points(
    stores: Stores, in_use: SpaceInUse, entries: Sequence[Entry]
) -> list[tuple[Entry, tuple[TextPoint, ...]]]:
    """Embed the texts of entries; return the accepted entries with their points.

    A refused slice is halved to find the refused entries.
    """
    read = await embedding_text.all_as_embedded(entries)
    distinct = list(dict.fromkeys(text for of_entry in read.values() for text in of_entry.values()))
    try:
        embedded = await in_use.embedder.embed(distinct, "document")
    except TextRejected as error:
        if len(entries) == 1:
            log.warning("entry_not_reached", entry_id=str(entries[0].entry_id), reason=reason_of(error))
            return []
        middle = len(entries) // 2
        one = await _points(stores, in_use, entries[:middle])
        return one + await _points(stores, in_use, entries[middle:])
    vectors = dict(zip(distinct, embedded.vectors, strict=True))

    with_points = []
    for entry in entries:
        if entry.pattern_id is not None:  # true of all embedded entries
            vectors_by_view = {view: vectors[text] for view, text in read[entry.entry_id].items()}
            with_points.append(
                (entry, text_points(stores.workspace, entry.pattern_id, embedding_text.views(entry), vectors_by_view))
            )
    return with_points
