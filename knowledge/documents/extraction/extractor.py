"""An answer without a model: the sentences of the passages that answer a question best, or none where none does.

Whether any does is a logistic model of three signs: how near the best passage is (or, nearer, a row that is about
what is asked: the other rows of its passage are about something else), how near and how full of the question's words
the best sentence is, and which share of the words that say more than the document's title one sentence of the best
passage has. A later passage answers, too, where its own signs say so. Fitted and
cross-validated by `python -m benchmarks.fit_answers` (docs/evaluation.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hardwon.models.documents import PassageKind
from knowledge.documents.access import Scope
from knowledge.documents.answering.llm_draft import Draft, Drafter, DraftRequest
from knowledge.documents.extraction.embedding_cache import SentenceVectors
from knowledge.documents.extraction.inflection import terms_asked
from knowledge.documents.extraction.question_terms import NEAR_BEST, Question
from knowledge.documents.extraction.sentence_scoring import (
    MAX_SENTENCES,
    Sentence,
    first_told,
    likeliest,
    read_sentences,
    worth,
)
from knowledge.documents.models import Profile
from knowledge.documents.relevance import Scale, default_scale
from knowledge.documents.verification.verify import MAX_CLAIM_CHARS, DraftClaim, Evidence, claims_per_line
from knowledge.models import TermStatistics
from knowledge.ports import Embedder
from knowledge.text.bm25 import term_counts

READING = 26
"""Changes whenever the same passages are read in another way, so that no answer from before is reused."""
EMBEDDED_FIRST = 8
"""Sentences that are embedded before it is looked which of the others can still come near the best."""
NEAREST = 1.0
"""What the cosine of a sentence to a question can be at most."""
MAX_QUOTED = 3
MAX_COMPUTED = 1_000
"""Lines of computed passages after which no further list is told: each one is told whole or not at all."""


class Signs(NamedTuple):
    """Signals that passages answer a question; the first two are about 0..1, the last is a share."""

    passage: float
    sentence: float
    beyond_title: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignWeights:
    """Weights of the signals; `level` is the probability from which on the question is answered."""

    intercept: float
    passage: float
    sentence: float
    beyond_title: float
    level: float

    def chance(self, signs: Signs) -> float:
        """Return how likely it is that the passages answer, 0..1, where half of all questions are answered."""
        logit = (
            self.intercept
            + self.passage * signs.passage
            + self.sentence * signs.sentence
            + self.beyond_title * signs.beyond_title
        )
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


BUNDLED = SignWeights(intercept=-5.95, passage=5.73, sentence=4.38, beyond_title=2.56, level=0.6)
"""all-MiniLM-L6-v2 on two sets of questions, half of them without an answer; other models by their scale."""


class Statistics(Protocol):
    """Document frequencies of terms among the passages of a scope."""

    async def statistics(self, scope: Scope, terms: Sequence[int]) -> TermStatistics:
        """Return how common terms are."""

    async def scale(self) -> Scale:
        """Return the scale of the embedding model."""


def signs_of(found: Sequence[Sentence], worths: Sequence[float], passage_cosine: float, *, first: int) -> Signs:
    """Return the signs of a question whose sentences were weighed, at least one; `first` is the best passage."""
    beyond = max((each.beyond for each in found if each.source == first), default=0.0)
    return Signs(passage=passage_cosine, sentence=max(worths), beyond_title=beyond)


def signs_by_passage(
    weighed: Sequence[Sentence], worths: Sequence[float], cosines: Sequence[float], passages: Mapping[int, float]
) -> Iterator[Signs]:
    """Yield the signs of each passage by itself, of which `passages` has the cosine: a later one may answer alone."""
    for source, cosine in passages.items():
        own = [at for at, each in enumerate(weighed) if each.source == source]
        if own:
            yield Signs(
                passage=max([cosine, *(cosines[at] for at in own if weighed[at].keyed)]),
                sentence=max(worths[at] for at in own),
                beyond_title=max(weighed[at].beyond for at in own),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractiveDrafter(Drafter):
    """Quotes sentences. `scope` is that of the question: words are as rare as they are there."""

    embedder: Embedder
    statistics: Statistics
    scope: Scope
    sentences: SentenceVectors
    weights: SignWeights = BUNDLED

    @property
    def model(self) -> str:
        """Say that it is none."""
        return "extractive"

    @property
    def extractive(self) -> bool:
        """Return True."""
        return True

    def prompt_hash(self, profile: Profile) -> str:  # noqa: ARG002 - nothing is asked of a model
        """Return a hash of the weights and of how passages are read."""
        return hashlib.sha256(f"{READING} {self.weights!r}".encode()).hexdigest()

    async def draft(self, asked: DraftRequest) -> Draft:
        """Quote the best sentences, if the passages are likely to answer."""
        computed = list(_lines_of_computed(asked.evidence))
        if computed:
            return Draft(claims=tuple(computed), sure=1.0)
        readable = [each for each in asked.evidence if each.passage.quotable and each.text.strip()]
        numbers = [at for at, each in enumerate(asked.evidence, 1) if each.passage.quotable and each.text.strip()]
        known = await self.statistics.statistics(self.scope, terms_asked(asked.searched))
        # what is spoken of already, a text need not name
        question = Question(asked.searched, known, named="" if asked.conversation else asked.question)
        found, told = await asyncio.to_thread(_read, question, readable)  # pages without a sentence take long
        if not found:
            return Draft(sure=0.0)
        scale = await self._same_scale()
        if all(each.source != told for each in found):  # it is a heading alone, or of another version than is asked for
            told = min(each.source for each in found)
        best = next((each.passage.cosine for each in readable[told - 1 :] if each.passage.cosine is not None), None)
        first = EMBEDDED_FIRST if best is not None else MAX_SENTENCES
        likely, cosines = await self._score_sentences(asked.searched, readable, likeliest(found), scale, first)
        worths = [worth(each.overlap, cosine) for each, cosine in zip(likely, cosines, strict=True)]
        rows = [cosine for each, cosine in zip(likely, cosines, strict=True) if each.keyed]
        near = max([scale(best) if best is not None else max(cosines), *rows])
        near_by = {
            at: scale(each.passage.cosine) for at, each in enumerate(readable, 1) if each.passage.cosine is not None
        }
        signs = max(
            (signs_of(found, worths, near, first=told), *signs_by_passage(likely, worths, cosines, near_by)),
            key=self.weights.chance,
        )
        sure = self.weights.chance(signs)
        if sure < self.weights.level:
            return Draft(sure=sure, signs=signs._asdict())
        new = not_told_before(likely, Question(asked.question, known), asked)
        fresh = _choose([likely[at] for at in new], [worths[at] for at in new])
        chosen = fresh or _choose(likely, worths)
        return Draft(
            claims=tuple(
                DraftClaim(
                    text=each.told[:MAX_CLAIM_CHARS],
                    quotes=(
                        (numbers[each.source - 1], readable[each.source - 1].text[slice(*each.span)][:MAX_CLAIM_CHARS]),
                    ),
                )
                for each in chosen
            ),
            sure=sure,
            signs=signs._asdict(),
        )

    async def _score_sentences(
        self, searched: str, readable: Sequence[Evidence], likely: Sequence[Sentence], scale: _Mapped, first: int
    ) -> tuple[list[Sentence], list[float]]:
        """Return sentences with their cosines to the question, except those that cannot come near the best one.

        `first`: the number of sentences to embed before the first such check.
        """
        query = (await self.embedder.embed([searched], "query")).vectors[0]
        weighed: list[Sentence] = []
        cosines: list[float] = []
        rest = list(likely)
        while rest:
            some, rest = rest[:first], rest[first:]
            texts = [f"{readable[each.source - 1].passage.title}: {each.text}" for each in some]
            vectors = await self.sentences.of(texts, self.embedder, self.scope.workspace)
            weighed += some
            cosines += [scale(float(cosine)) for cosine in vectors @ query]
            worths = [worth(each.overlap, cosine) for each, cosine in zip(weighed, cosines, strict=True)]
            best = max(worths)
            chosen = max(each - of.handicap for each, of in zip(worths, weighed, strict=True)) - NEAR_BEST
            bounds = [(each, worth(each.overlap, NEAREST)) for each in rest]
            rest = [each for each, bound in bounds if bound >= best or bound - each.handicap >= chosen]
        return weighed, cosines

    async def improve(self, asked: DraftRequest, draft: Draft, faults: Sequence[str]) -> Draft | None:  # noqa: ARG002
        """Return None: sentences stay what they are."""
        return None

    async def _same_scale(self) -> _Mapped:
        """Return a map from the model's cosines to those that the weights were fitted on."""
        space = await self.embedder.space()
        ours = default_scale("all-MiniLM-L6-v2")
        return _Mapped(ours, ours if space.model == "all-MiniLM-L6-v2" else await self.statistics.scale())


def _read(question: Question, readable: Sequence[Evidence]) -> tuple[list[Sentence], int]:
    """Return the sentences of passages, and the first passage of what is asked about."""
    return read_sentences(question, readable), first_told(question, readable)


@dataclass(frozen=True, slots=True)
class _Mapped:
    ours: Scale
    theirs: Scale

    def __call__(self, cosine: float) -> float:
        share = (cosine - self.theirs.low) / (self.theirs.high - self.theirs.low)
        return self.ours.cosine(share)


def not_told_before(found: Sequence[Sentence], question: Question, asked: DraftRequest) -> list[int]:
    """Return which sentences may answer, by their places: not those of the answer before where another has more to say.

    A follow-up is searched with the question before it, whose answer is nearest to both. `question`: the one asked now.
    """
    said = [turn for turn in asked.conversation if turn.role == "assistant"][-1:]
    before = [turn.content for turn in asked.conversation if turn.role == "user"][-1:]
    if not said or before == [asked.question]:
        return list(range(len(found)))
    told = " ".join(said[0].content.split())
    known = [" ".join(each.told.split()) in told for each in found]
    shares = [question.share(term_counts(each.text)) for each in found]
    most = max((share for share, old in zip(shares, known, strict=True) if not old), default=0.0)
    return [at for at, old in enumerate(known) if not (old and shares[at] < most)]


def _choose(likely: Sequence[Sentence], worths: Sequence[float]) -> list[Sentence]:
    """Return the best sentences: those of the passage with the best one first, of each in the order of the passage."""
    ranked = sorted(
        (
            (worth - each.handicap, worth, -at, each)
            for at, (each, worth) in enumerate(zip(likely, worths, strict=True))
        ),
        reverse=True,
    )
    first, best, _, _ = ranked[0]
    near: list[Sentence] = []
    for comes, well, _, each in ranked:
        beside = 0.0 <= comes >= first - NEAR_BEST and well >= best - NEAR_BEST
        if beside and len(near) < MAX_QUOTED and not any(_repeats(each, other) for other in near):
            near = [*(other for other in near if not _repeats(other, each)), each]
    sources = list(dict.fromkeys(each.source for each in near))
    return sorted(near, key=lambda each: (sources.index(each.source), each.place))


def _repeats(one: Sentence, other: Sentence) -> bool:
    """Return whether a unit is shown as part of another one, or is said again by it below another heading."""
    within = other.span.start <= one.span.start and one.span.end <= other.span.end
    return one.told == other.told or (within and one.source == other.source)


def _lines_of_computed(evidence: Sequence[Evidence]) -> Iterator[DraftClaim]:
    """Yield the lines of computed passages: they are the answer, whatever else was found."""
    lines = 0
    for number, each in enumerate(evidence, 1):
        if each.passage.kind is not PassageKind.COMPUTED or (each.passage.listing and lines >= MAX_COMPUTED):
            continue
        told = claims_per_line(number, each)
        lines += len(told)
        yield from told
