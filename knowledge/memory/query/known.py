"""Answers without the index: what Postgres knows of the same text, task description or error, and when it is enough.

Its points are scored by what the index would score them by: their stored vectors and the words of their texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from hardwon.context.deadline import Patience
from hardwon.errors import IndexUnavailable
from knowledge.memory.index.points import point_text
from knowledge.memory.rules.arms import situation_key
from knowledge.memory.rules.embedding_text import normalise
from knowledge.models import BoundSpace, Hit, PointFilter, SparseVector, StoredPoint, Vector, View, point_id_of
from knowledge.ports import Stores
from knowledge.runtime.instrumentation import step
from knowledge.runtime.scheduling import run_in_thread_if_long
from knowledge.text.bm25 import document_vector, term_counts

NO_ANSWER = "the index did not answer in time"
_NOT_ASKED = "the index was not asked: earlier calls failed, or no time was left"
_MIN_SECONDS = 0.05
"""Seconds that the index has at least, also where the embedding took long; ours: it answers in a tenth of them."""
_Found = TypeVar("_Found")


class IndexLate(IndexUnavailable):
    """The index did not answer within a question's time."""


class IndexNotAsked(IndexLate):
    """There was no time to ask the index, or it was not to be asked."""


@dataclass(slots=True)
class Recall:
    """Lookup of what is known word for word; done at most once."""

    look_up: Callable[[], Awaitable[list[Hit]]]
    _hits: list[Hit] | None = field(default=None, init=False)

    async def hits(self) -> list[Hit]:
        """Return the points that are known."""
        if self._hits is None:
            self._hits = await self.look_up()
        return self._hits


async def find_in_time(find: Callable[[], Awaitable[_Found]], recall: Recall, patience: Patience | None) -> _Found:
    """Return what `find` finds in the index; raise IndexLate once there is no more time to wait for it."""
    if patience is None:
        return await find()
    clock = asyncio.get_running_loop().time
    if patience.index_by <= (now := clock()):
        raise IndexNotAsked(_NOT_ASKED)
    finding = asyncio.ensure_future(find())
    finding.add_done_callback(_ignore_error)  # nobody waits for the end of a search that is cancelled
    try:
        known_by = max(patience.known_by, now + _MIN_SECONDS)
        await asyncio.wait({finding}, timeout=min(known_by, patience.index_by) - now)
        if not finding.done() and not await recall.hits():
            await asyncio.wait({finding}, timeout=max(0.0, patience.index_by - clock()))
        if finding.done():
            return finding.result()
    finally:
        finding.cancel()
    raise IndexLate(NO_ANSWER)


def _ignore_error(finding: asyncio.Future[_Found]) -> None:
    if not finding.cancelled():
        finding.exception()


def is_outage(failure: IndexUnavailable | None, *, remote: bool) -> bool:
    """Return whether the index is down. A late one of this process has too little of the machine instead."""
    match failure:
        case None | IndexNotAsked():
            return False
        case IndexLate():
            return remote
        case _:
            return True


@step("known")
async def find_known(
    stores: Stores,
    bound: BoundSpace,
    *,
    text: str,
    error_key: Callable[[], str],
    dense: Vector | None,
    lexical: SparseVector,
    where: PointFilter,
) -> list[Hit]:
    """Return the live points that are known word for word, scored as by the index; fields of `where` are not compared.

    `text`: of the question, normalised; `error_key` computes that of its error. Without `dense` their cosine is 0.
    """
    error = await run_in_thread_if_long(len(text), error_key)
    found = await stores.records.find_known(situation_key(text), error)
    ids = {
        *found.points,
        *(point_id_of(stores.workspace, each, View.TASK, normalise(text)) for each in found.task_patterns),
    } - where.without
    if not ids:
        return []
    stored = await stores.points.find_live(bound.space, sorted(ids), now=where.live_at)
    wanted = [each for each in stored if where.view is None or each.view is where.view]
    chars = sum(len(point_text(each)) for each in wanted)
    return await run_in_thread_if_long(chars, partial(_score, wanted, dense, lexical, bound.mean_terms))


def _score(stored: Sequence[StoredPoint], dense: Vector | None, lexical: SparseVector, mean_terms: float) -> list[Hit]:
    asked = dict(zip(lexical.indices, lexical.values, strict=True))
    return [
        Hit(
            point_id=each.point_id,
            cosine=0.0 if dense is None or each.vector is None else _cosine(dense, each.vector),
            lexical=_lexical_score(asked, point_text(each), mean_terms),
        )
        for each in stored
    ]


def _cosine(one: Vector, other: Vector) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.dot(one, other)) / length if length else 0.0


def _lexical_score(asked: dict[int, float], text: str, mean_terms: float) -> float:
    vector = document_vector(term_counts(text), mean_terms)
    return sum(asked.get(term, 0.0) * weight for term, weight in zip(vector.indices, vector.values, strict=True))
