"""An answer without a model: the sentences of the passages that answer a question best, or none where none does.

Whether any does is a logistic model of three signs: how near the best passage is, how near and how full of the
question's words the best sentence is, and which share of the words that say more than the document's title one
sentence of the best passage has. Fitted and cross-validated by `python -m benchmarks.fit_answers`
(docs/evaluation.md).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from knowledge.documents.access import Scope
from knowledge.documents.aligning import Span
from knowledge.documents.drafting import Asked, Draft, Drafter
from knowledge.documents.models import DocumentType, PassageKind, Profile
from knowledge.documents.scale import Scale, shipped
from knowledge.documents.sentence_vectors import SentenceVectors
from knowledge.documents.sentences import sentences
from knowledge.documents.units import Unit, UnitKind, units
from knowledge.documents.verifying import MOST_CHARS, Evidence, Written
from knowledge.models import TermStatistics
from knowledge.ports import Embedder
from knowledge.search.lexical import inverse_document_frequency, term_counts, words_and_wholes

READING = 4
"""Another number whenever the same passages are read otherwise, so that no answer of before is kept."""
READ_PASSAGES = 5
"""Passages whose sentences are read, the best first: as many as a question finds unless it says otherwise."""
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
_LEAST_WORDS = 2
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
    """A unit of a passage: `text` is compared, `told` is shown, at `span` it stands. `source` counts from 1.

    `overlap` is the share of the question's words, by rarity; `handicap` what it takes to be chosen before a sentence.
    """

    source: int
    place: int
    text: str
    told: str
    span: Span
    overlap: float
    beyond: float
    handicap: float = 0.0


HANDICAPS: Final = {
    UnitKind.SENTENCE: 0.0,
    UnitKind.FRAGMENT: NEAR_BEST,
    UnitKind.ROW: 0.15,
    UnitKind.CODE: 0.15,
    UnitKind.QUESTION: math.inf,
}
"""By how much something else has to answer better than a sentence does, to be quoted before it; a question never is.

Ours. Rows and commands are little but names, and so nearer to a question than a sentence that says something new; a row
whose first cell has what is asked about has no handicap.
"""
ASKED_FOR: Final = -0.15
"""The handicap of a row whose first cell is what is asked about, of two words or more, and little else: it tells what
that is. Ours."""


class Question:
    """The words of a question, each with its rarity."""

    def __init__(self, text: str, statistics: TermStatistics) -> None:
        self.rarity = {
            term: inverse_document_frequency(statistics.documents, statistics.frequencies.get(term, 0))
            for term in term_counts(text)
        }
        self._words = _plain(text)
        self._identifiers = frozenset(words_and_wholes(text)[1])

    def handicap(self, unit: Unit) -> float:
        """Return what it takes a unit to be chosen before a sentence; none where a row is about what is asked."""
        told = term_counts(unit.key)
        if told and self.rarity and all(term in told for term in self.rarity):
            return ASKED_FOR if len(self.rarity) > 1 and len(told) < 2 * len(self.rarity) else 0.0
        if self._identifiers.intersection(words_and_wholes(unit.key)[1]):
            return 0.0
        return HANDICAPS[unit.kind]

    def echoed(self, unit: Unit) -> bool:
        """Return whether a unit shows the question itself, as an example of what may be asked."""
        return unit.kind is UnitKind.CODE and len(self._words) > 1 and f" {self._words} " in f" {_plain(unit.told)} "

    def share(self, terms: Mapping[int, int], *, without: Mapping[int, int] | None = None) -> float:
        """Return the share of the question's words among some terms; `without` those that are known anyway."""
        asked = {term: weight for term, weight in self.rarity.items() if not without or term not in without}
        total = sum(asked.values())
        return sum(weight for term, weight in asked.items() if term in terms) / total if total else 0.0


def read_sentences(question: Question, evidence: Sequence[Evidence]) -> list[Sentence]:
    """Return the sentences of the best passages, in order, each once, and what else of them can answer."""
    found: dict[str, Sentence] = {}
    for source, each in enumerate(evidence[:READ_PASSAGES], 1):
        title = term_counts(each.passage.title)
        for place, unit in enumerate(_units(each)):
            if len(unit.read.split()) < _LEAST_WORDS or question.echoed(unit):
                continue
            terms = term_counts(unit.read)
            found.setdefault(
                unit.read,
                Sentence(
                    source=source,
                    place=place,
                    text=unit.read[:MOST_CHARS],
                    told=unit.told,
                    span=unit.span,
                    overlap=question.share(terms),
                    beyond=question.share(terms, without=title),
                    handicap=question.handicap(unit),
                ),
            )
    return list(found.values())


def _units(evidence: Evidence) -> Iterator[Unit]:
    text = evidence.text
    if evidence.passage.document_type in _BY_LINE:
        yield from (
            Unit(span=span, told=line, read=line, kind=UnitKind.SENTENCE)
            for span in sentences(text, by_line=True)
            if not (line := text[span.start : span.end]).startswith("#")
        )
    else:
        yield from units(text)


def likeliest(found: Sequence[Sentence]) -> list[Sentence]:
    """Return those that are worth an embedding: with most of the question's words, the best passage's first."""
    return sorted(found, key=lambda each: (-each.overlap, each.source, each.place))[:MOST_SENTENCES]


def worth(overlap: float, cosine: float) -> float:
    """Return how well a sentence answers."""
    return COSINE_SHARE * cosine + (1 - COSINE_SHARE) * overlap


def first_told(question: Question, evidence: Sequence[Evidence]) -> int:
    """Return the number of the best passage, from 1: of those that do not show the question itself, where any is left.

    Such a passage is about asking, and near any question that it shows.
    """
    for source, each in enumerate(evidence[:READ_PASSAGES], 1):
        if not any(question.echoed(unit) for unit in _units(each)):
            return source
    return 1


def signs_of(found: Sequence[Sentence], worths: Sequence[float], passage_cosine: float, *, first: int) -> Signs:
    """Return the signs of a question whose sentences were weighed, at least one; `first` is the best passage."""
    beyond = max((each.beyond for each in found if each.source == first), default=0.0)
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
        """Return a hash of the weights and of how passages are read."""
        return hashlib.sha256(f"{READING} {self.weights!r}".encode()).hexdigest()

    async def draft(self, asked: Asked) -> Draft:
        """Quote the best sentences, if the passages are likely to answer."""
        computed = list(_computed(asked.evidence))
        if computed:
            return Draft(written=tuple(computed), sure=1.0)
        readable = [each for each in asked.evidence if each.passage.quotable and each.text.strip()]
        numbers = [at for at, each in enumerate(asked.evidence, 1) if each.passage.quotable and each.text.strip()]
        known = await self.statistics.statistics(self.scope, list(term_counts(asked.searched)))
        question = Question(asked.searched, known)
        found = read_sentences(question, readable)
        if not found:
            return Draft(sure=0.0)
        scale = await self._same_scale()
        told = first_told(question, readable)
        best = next((each.passage.cosine for each in readable[told - 1 :] if each.passage.cosine is not None), None)
        first = EMBEDDED_FIRST if best is not None else MOST_SENTENCES
        likely, cosines = await self._weighed(asked.searched, readable, likeliest(found), scale, first)
        worths = [worth(each.overlap, cosine) for each, cosine in zip(likely, cosines, strict=True)]
        signs = signs_of(found, worths, scale(best) if best is not None else max(cosines), first=told)
        sure = self.weights.chance(signs)
        if sure < self.weights.level:
            return Draft(sure=sure, signs=signs._asdict())
        chosen = _chosen(likely, worths)
        return Draft(
            written=tuple(
                Written(
                    text=each.told[:MOST_CHARS],
                    quotes=(
                        (numbers[each.source - 1], readable[each.source - 1].text[slice(*each.span)][:MOST_CHARS]),
                    ),
                )
                for each in chosen
            ),
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
            worths = [worth(each.overlap, cosine) for each, cosine in zip(weighed, cosines, strict=True)]
            best = max(worths)
            chosen = max(each - of.handicap for each, of in zip(worths, weighed, strict=True)) - NEAR_BEST
            bounds = [(each, worth(each.overlap, NEAREST)) for each in rest]
            rest = [each for each, bound in bounds if bound >= best or bound - each.handicap >= chosen]
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
        if beside and len(near) < MOST_QUOTED and not any(_within(each, other) for other in near):
            near = [*(other for other in near if not _within(other, each)), each]
    sources = list(dict.fromkeys(each.source for each in near))
    return sorted(near, key=lambda each: (sources.index(each.source), each.place))


def _within(one: Sentence, other: Sentence) -> bool:
    """Return whether a unit is shown as part of another one."""
    return one.source == other.source and other.span.start <= one.span.start and one.span.end <= other.span.end


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


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
