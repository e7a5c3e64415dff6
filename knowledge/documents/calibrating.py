"""The scale of relevance, measured on what is indexed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knowledge.documents.indexing import Rooms
from knowledge.documents.ports import PassageStore
from knowledge.documents.scale import FEWEST, MOST, Scale, measured, shipped, usable
from knowledge.errors import Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What was measured, beside what ships: where relevance 0 and 1 lie on the scale of the model."""

    model: str
    passages: int
    low: float
    high: float
    shipped_low: float
    shipped_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleCalibration:
    """Measures the scale of the embedding model in use on the passages of one workspace. Needs no questions."""

    passages: PassageStore
    room: Rooms

    async def calibrate(self) -> Calibrated:
        """Measure the scale and use it from the next search on. Raises Conflict where too little is indexed."""
        room = await self.room()
        sample = await self.passages.sample(room.space, 2 * MOST)
        asked = usable([text for text, _ in sample])[:MOST]
        scale = None
        if len(asked) >= FEWEST:
            embedded = await room.embedder.embed([question for _, question in asked], "query")
            scale = measured(embedded.vectors, np.array([sample[position][1] for position, _ in asked]))
        if scale is None:
            raise Conflict(
                f"{len(asked)} passages of three sentences or more are too few to measure on: it takes {FEWEST},"
                " that differ"
            )
        await self.passages.keep_scale(room.space, scale.low, scale.high, len(asked))
        return _told(room.space.model, len(asked), scale, shipped(room.space.model))


def _told(model: str, passages: int, scale: Scale, before: Scale) -> Calibrated:
    return Calibrated(
        model=model,
        passages=passages,
        low=scale.low,
        high=scale.high,
        shipped_low=before.low,
        shipped_high=before.high,
    )
