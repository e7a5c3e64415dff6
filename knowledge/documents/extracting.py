"""An answer without a model: the sentences of the passages that answer a question best, or none where none does.

Whether any does is a logistic model of three signs: how near the best passage is, how near and how full of the
question's words the best sentence is, and which share of the words that say more than the document's title one
sentence of the best passage has. Fitted and cross-validated by `python -m benchmarks.fit_answers`
(docs/evaluation.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from knowledge.documents.access import Scope
from knowledge.documents.drafting import Asked, Draft, Drafter
from knowledge.documents.models import DocumentType, PassageKind, Profile
from knowledge.documents.scale import Scale, shipped
from knowledge.documents.sentence_vectors import SentenceVectors
from knowledge.documents.sentences import sentences
from knowledge.documents.verifying import MOST_CHARS, Evidence, Written
from knowledge.models import TermStatistics
from knowledge.ports import Embedder
from knowledge.search.lexical import inverse_document_frequency, term_counts

READ_PASSAGES = 3
"""Passages whose sentences are read, the best first."""
MOST_SENTENCES = 24
"""Sentences that are embedded, those with most of the question's words; each costs an embedding."""
EMBEDDED_FIRST = 8
"""Sentences that are embedded before it is looked which of the others can still come near the best."""
NEAREST = 1.0
"""What the cosine of a sentence to a question can be at most."""
MOST_QUOTED = 3
NEAR_BEST = 0.08
"""A sentence this near the best one is quoted beside it."""
COSINE_SHARE = 0.6
MOST_COMPUTED = 400
_BY_LINE = frozenset({DocumentType.LOG, DocumentType.CONFIG, DocumentType.CODE})


class Signs(NamedTuple):
    """What says that passages answer a question; the first two about 0..1, the last a share."""

    passage: float
    sentence: float
    beyond_title: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignWeights:
    """What each sign counts; `level` is the chance from which on there is an answer."""

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
    """How common terms are among the passages of a scope."""

    async def statistics(self, scope: Scope, terms: Sequence[int]) -> TermStatistics:
        """Return how common terms are."""
        ...

    async def scale(self) -> Scale:
        """Return the scale of the embedding model."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a passage. `source` counts from 1; `overlap` is the share of the question's words, by rarity."""

    source: int
    place: int
    text: str
    overlap: float
    beyond: float


class Question:
    """The words of a question, each with its rarity."""

    def __init__(self, text: str, statistics: TermStatistics) -> None:
        self.rarity = {
            term: inverse_document_frequency(statistics.documents, statistics.frequencies.get(term, 0))
            for term in term_counts(text)
        }

    def share(self, terms: Mapping[int, int], *, without: Mapping[int, int] | None = None) -> float:
        """Return the share of the question's words among some terms; `without` those that are known anyway."""
        asked = {term: weight for term, weight in self.rarity.items() if not without or term not in without}
        total = sum(asked.values())
        return sum(weight for term, weight in asked.items() if term in terms) / total if total else 0.0


def read_sentences(question: Question, evidence: Sequence[Evidence]) -> list[Sentence]:
    """Return the sentences of the best passages, in order, each once."""
    found: dict[str, Sentence] = {}
    for source, each in enumerate(evidence[:READ_PASSAGES], 1):
        title = term_counts(each.passage.title)
        for place, text in enumerate(_texts(each)):
            terms = term_counts(text)
            beyond = question.share(terms, without=title)
            found.setdefault(
                text,
                Sentence(source=source, place=place, text=text, overlap=question.share(terms), beyond=beyond),
            )
    return list(found.values())


def _texts(evidence: Evidence) -> Iterator[str]:
    by_line = evidence.passage.document_type in _BY_LINE
    for span in sentences(evidence.text, by_line=by_line):
        text = evidence.text[span.start : span.end]
        if len(text.split()) > 1 and not text.startswith("#"):
            yield text[:MOST_CHARS]


def likeliest(found: Sequence[Sentence]) -> list[Sentence]:
    """Return those that are worth an embedding: with most of the question's words, the best passage's first."""
    return sorted(found, key=lambda each: (-each.overlap, each.source, each.place))[:MOST_SENTENCES]


def worth(overlap: float, cosine: float) -> float:
    """Return how well a sentence answers."""
    return COSINE_SHARE * cosine + (1 - COSINE_SHARE) * overlap


def signs_of(found: Sequence[Sentence], worths: Sequence[float], passage_cosine: float) -> Signs:
    """Return the signs of a question whose sentences were weighed, at least one."""
    beyond = max((each.beyond for each in found if each.source == 1), default=0.0)
    return Signs(passage=passage_cosine, sentence=max(worths), beyond_title=beyond)


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
        """Return a hash of the weights."""
        return hashlib.sha256(repr(self.weights).encode()).hexdigest()

    async def draft(self, asked: Asked) -> Draft:
        """Quote the best sentences, if the passages are likely to answer."""
        computed = list(_computed(asked.evidence))
        if computed:
            return Draft(written=tuple(computed), sure=1.0)
        readable = [each for each in asked.evidence if each.passage.quotable and each.text.strip()]
        numbers = [at for at, each in enumerate(asked.evidence, 1) if each.passage.quotable and each.text.strip()]
        known = await self.statistics.statistics(self.scope, list(term_counts(asked.searched)))
        found = read_sentences(Question(asked.searched, known), readable)
        if not found:
            return Draft(sure=0.0)
        scale = await self._same_scale()
        best = next((each.passage.cosine for each in readable if each.passage.cosine is not None), None)
        first = EMBEDDED_FIRST if best is not None else MOST_SENTENCES
        likely, cosines = await self._weighed(asked.searched, readable, likeliest(found), scale, first)
        worths = [worth(each.overlap, cosine) for each, cosine in zip(likely, cosines, strict=True)]
        signs = signs_of(found, worths, scale(best) if best is not None else max(cosines))
        sure = self.weights.chance(signs)
        if sure < self.weights.level:
            return Draft(sure=sure, signs=signs._asdict())
        chosen = _chosen(likely, worths)
        return Draft(
            written=tuple(Written(text=each.text, quotes=((numbers[each.source - 1], each.text),)) for each in chosen),
            sure=sure,
            signs=signs._asdict(),
        )

    async def _weighed(
        self, searched: str, readable: Sequence[Evidence], likely: Sequence[Sentence], scale: _Mapped, first: int
    ) -> tuple[list[Sentence], list[float]]:
        """Return sentences with their cosines to the question: all but those that cannot come near the best one.

        `first`: so many are embedded before that is looked at.
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
            best = max(worth(each.overlap, cosine) for each, cosine in zip(weighed, cosines, strict=True))
            rest = [each for each in rest if worth(each.overlap, NEAREST) >= best - NEAR_BEST]
        return weighed, cosines

    async def improve(self, asked: Asked, draft: Draft, faults: Sequence[str]) -> Draft | None:  # noqa: ARG002
        """Return None: sentences stay what they are."""
        return None

    async def _same_scale(self) -> _Mapped:
        """Return what makes of another model's cosines those that the weights were fitted on."""
        space = await self.embedder.space()
        ours = shipped("all-MiniLM-L6-v2")
        return _Mapped(ours, ours if space.model == "all-MiniLM-L6-v2" else await self.statistics.scale())


@dataclass(frozen=True, slots=True)
class _Mapped:
    ours: Scale
    theirs: Scale

    def __call__(self, cosine: float) -> float:
        share = (cosine - self.theirs.low) / (self.theirs.high - self.theirs.low)
        return self.ours.cosine(share)


def _chosen(likely: Sequence[Sentence], worths: Sequence[float]) -> list[Sentence]:
    """Return the best sentences, in the order in which they stand in the documents."""
    best = max(worths)
    near = sorted(
        (each for each in zip(worths, range(len(likely)), strict=True) if each[0] >= best - NEAR_BEST),
        key=lambda each: -each[0],
    )[:MOST_QUOTED]
    return sorted((likely[at] for _, at in near), key=lambda each: (each.source, each.place))


def _computed(evidence: Sequence[Evidence]) -> Iterator[Written]:
    """Yield the lines of computed passages: they are the answer, whatever else was found."""
    lines = 0
    for number, each in enumerate(evidence, 1):
        if each.passage.kind is not PassageKind.COMPUTED:
            continue
        for line in each.text.splitlines():
            text = line.strip()[:MOST_CHARS]
            if text and lines < MOST_COMPUTED:
                lines += 1
                yield Written(text=text, quotes=((number, text),))
