"""Calibrate the scale of relevance on the indexed passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardwon.errors import Conflict
from hardwon.models.documents import CalibrationReport
from knowledge.documents.ingestion.queue import ActiveSpaceProvider
from knowledge.documents.ports import PassageStore
from knowledge.documents.relevance import (
    MAX_PASSAGES,
    MIN_PASSAGES,
    Scale,
    default_scale,
    measure_scale,
    usable_passages,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleCalibration:
    """Measures the scale of the embedding model in use on the passages of one workspace. Needs no questions."""

    passages: PassageStore
    active_space: ActiveSpaceProvider

    async def calibrate(self) -> CalibrationReport:
        """Measure the scale and use it from the next search on. Raises Conflict if too little is indexed."""
        active = await self.active_space()
        sample = await self.passages.sample(active.space, 2 * MAX_PASSAGES)
        usable = usable_passages([text for text, _ in sample])[:MAX_PASSAGES]
        scale = None
        if len(usable) >= MIN_PASSAGES:
            embedded = await active.embedder.embed([question for _, question in usable], "query")
            scale = measure_scale(embedded.vectors, np.array([sample[position][1] for position, _ in usable]))
        if scale is None:
            raise Conflict(
                f"{len(usable)} passages of three sentences or more are too few to measure on: it takes {MIN_PASSAGES},"
                " that differ"
            )
        await self.passages.keep_scale(active.space, scale.low, scale.high, len(usable))
        return _report(active.space.model, len(usable), scale, default_scale(active.space.model))


def _report(model: str, passages: int, scale: Scale, before: Scale) -> CalibrationReport:
    return CalibrationReport(
        model=model,
        passages=passages,
        low=scale.low,
        high=scale.high,
        shipped_low=before.low,
        shipped_high=before.high,
    )
