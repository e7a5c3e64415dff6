"""Order texts by a reranker and judge claims by it, for one question; a failure is named, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hardwon.errors import RerankerUnavailable
from hardwon.event_log import get_logger
from knowledge.documents.ports import Reranker
from knowledge.documents.verification.verify import Verified

log = get_logger(__name__)
FOLLOWS: Final = 0.5
"""The score from which on a claim follows from its quotes: of the model's labels entailment is the likeliest."""


@dataclass(slots=True)
class Reranking:
    """A reranker for one question. After a failure it is not asked again, and `degraded` says why."""

    model: Reranker
    timeout_seconds: float
    degraded: str | None = field(default=None, init=False)

    async def order(self, question: str, texts: Sequence[str]) -> list[int]:
        """Return the places of texts, those that answer best first; as they are where the model does not say."""
        scores = await self._score(question, texts) if self.model.ranks and len(texts) > 1 else None
        places = range(len(texts))
        return list(places) if scores is None else sorted(places, key=lambda at: -scores[at])

    async def drop_unsupported(self, question: str, verified: Verified) -> Verified:  # noqa: ARG002 - claims say enough
        """Return the verified claims without those that do not follow from their quotes."""
        supported, faults = [], []
        for claim in verified.claims:
            scores = await self._score(claim.text, [" ".join(quote.text for quote in claim.quotes)])
            if scores is None or scores[0] >= FOLLOWS:
                supported.append(claim)
            else:
                faults.append(f"it does not follow from what it quotes: {claim.text[:80]!r}")
        return Verified(claims=tuple(supported), spans=verified.spans, faults=(*verified.faults, *faults))

    async def _score(self, query: str, texts: Sequence[str]) -> list[float] | None:
        if self.degraded is not None:
            return None
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await self.model.score(query, texts)
        except TimeoutError:
            self.degraded = f"the reranker did not answer within {self.timeout_seconds:g} s"
        except RerankerUnavailable as error:
            self.degraded = str(error)
        log.warning("reranking_failed", reason=self.degraded)
        return None
