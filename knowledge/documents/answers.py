"""All that one workspace's answers rest on, in one place: what the doors of the four systems call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from knowledge.documents.access import AccessPolicy, Scope
from knowledge.documents.answer_cache import AnswerCache
from knowledge.documents.answering import GroundedAnswerer
from knowledge.documents.extracting import Statistics
from knowledge.documents.finding import DirectFinder, KeywordFinder, MultiQueryFinder
from knowledge.documents.indexing import Rooms
from knowledge.documents.journal import Journal
from knowledge.documents.language_model import LanguageModel
from knowledge.documents.ports import PassageStore
from knowledge.documents.scale import Scale
from knowledge.documents.searching import DocumentSearch
from knowledge.documents.sentence_vectors import SentenceVectors
from knowledge.models import TermStatistics
from knowledge.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models by role, None where the settings name none: `main` picks tools, `synthesis` writes answers.

    `sentences`: what was embedded of passages where none writes.
    """

    main: LanguageModel | None = None
    synthesis: LanguageModel | None = None
    sentences: SentenceVectors = field(default_factory=SentenceVectors)

    async def aclose(self) -> None:
        """Close both."""
        for model in (self.main, self.synthesis):
            if model is not None:
                await model.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The services of answers of one workspace. `main`: the model that picks tools, where texts may go to it."""

    workspace: str
    access: AccessPolicy
    answerer: GroundedAnswerer
    direct: DirectFinder
    by_queries: MultiQueryFinder
    by_keywords: KeywordFinder
    cache: AnswerCache
    journal: Journal
    clock: Clock
    main: Callable[[], Awaitable[LanguageModel | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatistics(Statistics):
    """Statistics of the passages of a scope, and the scale of the space they are embedded in."""

    passages: PassageStore
    search: DocumentSearch
    room: Rooms

    async def statistics(self, scope: Scope, terms: Sequence[int]) -> TermStatistics:
        """Return how common terms are among the visible passages."""
        return await self.passages.statistics(scope, terms)

    async def scale(self) -> Scale:
        """Return the scale as measured, else as shipped."""
        return await self.search.scale(await self.room())
