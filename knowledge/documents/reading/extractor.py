"""An answer without a model: the smallest block of the passages that answers, whole, or none where none does.

Two rules decide. Each word of the question that is rare or names something has to stand in the block, in the headings
above it or in the title of its document. And the block has to be near enough, by a logistic model of three signs.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from hardwon.models.documents import Passage, PassageId, PassageKind
from knowledge.documents.access import Scope
from knowledge.documents.answering.llm_draft import Draft, Drafter, DraftRequest
from knowledge.documents.answering.reranking import Reranking
from knowledge.documents.blocks.model import BUDGET, Block, BlockKind
from knowledge.documents.models import Profile
from knowledge.documents.ports import PassageStore
from knowledge.documents.reading.candidates import Candidate, blocks_in, candidates, widen
from knowledge.documents.reading.embedding_cache import SentenceVectors
from knowledge.documents.reading.question import Held, Question, Word, without_preface
from knowledge.documents.relevance import Scale, default_scale
from knowledge.documents.retrieval.spelling import IsWord
from knowledge.documents.verification.verify import DraftClaim, Evidence, claims_per_line
from knowledge.ports import Embedder
from knowledge.text.bm25 import term_counts, words_and_wholes
from knowledge.text.tokens import MEASURES, OPPOSITES

READING: Final = 32
"""Changes whenever the same passages are read in another way, so that no answer from before is reused."""
MAX_EMBEDDED: Final = 16
"""Blocks that are compared by sense, those with most of the question's words."""
MAX_EXCUSED: Final = 6
"""Blocks of which the words are compared by sense with those that they lack."""
SAME_SENSE: Final = 0.58
"""The cosine of two usual words from which on one stands for the other: a plane for an aircraft."""
MAX_QUOTED: Final = 3
MAX_COMPUTED: Final = 1_000
"""Lines of computed passages after which no further list is told: each one is told whole or not at all."""
NEAR_BEST: Final = 0.06
"""How near the best block another one comes that is quoted beside it."""
NAMED: Final = 0.15
"""What a block gains that is about what the question names."""
PASSAGE_SHARE: Final = 0.15
"""What the cosine of the passage counts that a block was found in."""
SIZE_COST: Final = 0.03
"""What a block loses for each doubling of its size: of two that answer, the smaller one is quoted."""
_SIZED: Final = 200
COSINE_SHARE: Final = 0.6
_COMPARES: Final = re.compile(r"\b(?:differ\w*|compare\w*|versus|vs|between)\b", re.IGNORECASE)
_ASKS_SEVERAL: Final = re.compile(rf"{_COMPARES.pattern}|\b(?:and|or|both|each)\b|\?[^?]+\?", re.IGNORECASE)
"""A model may answer from several blocks what one question asks of several things."""
_ENGLISH: Final = re.compile(
    r"\b(?:the|a|of|is|are|and|to|for|with|from|can|does|how|what|which|where|when|why|who)\b", re.IGNORECASE
)
_MIN_FOREIGN_WORDS: Final = 4


class Signs(NamedTuple):
    """Signals that a block answers: cosines of the best passage and of the block, and shares of the question's words.

    `words` are those that it and its best sentence hold, `beyond_title` those that the document's title does not;
    `named` is how surely the question names what the block is about.
    """

    passage: float
    block: float
    words: float
    beyond_title: float
    named: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignWeights:
    """Weights of the signals; `level` is the probability from which on a question is answered."""

    intercept: float
    weights: Signs
    level: float

    def chance(self, signs: Signs) -> float:
        """Return how likely it is that a block answers, 0..1, where half of all questions are answered."""
        logit = self.intercept + sum(weight * sign for weight, sign in zip(self.weights, signs, strict=True))
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


BUNDLED: Final = SignWeights(
    intercept=-6.47,
    weights=Signs(passage=4.77, block=4.14, words=1.01, beyond_title=3.15, named=1.5),
    level=0.6,
)
"""all-MiniLM-L6-v2; other models by their scale. Fitted on one half of two sets of questions (docs/evaluation.md)."""
FITTED: Final = default_scale("all-MiniLM-L6-v2")


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with the cosine of its sense to the question's, and what it is worth."""

    of: Candidate
    cosine: float
    worth: float

    @property
    def rank(self) -> float:
        """The order of candidates: by their worth, less for long ones."""
        return self.worth - SIZE_COST * math.log2(max(self.of.size, _SIZED) / _SIZED)


class _Read(NamedTuple):
    """A question, the evidence that can be quoted with its numbers, and the blocks in it."""

    question: Question
    readable: Sequence[Evidence]
    numbers: Sequence[int]
    found: Sequence[Candidate]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractiveDrafter(Drafter):
    """Quotes blocks for one question. `scope` is that of the question: words are as rare as they are there.

    `scale` is that of the embedding model, `FITTED` for the one that the weights were fitted on.
    """

    embedder: Embedder
    scale: Scale
    passages: PassageStore
    scope: Scope
    sentences: SentenceVectors
    is_word: IsWord | None = None
    weights: SignWeights = BUNDLED
    reranking: Reranking | None = None
    _blocks: dict[PassageId, list[Block]] = field(default_factory=dict)

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

    async def widen(self, passages: Sequence[Passage], question: str) -> Sequence[Passage]:  # noqa: ARG002
        """Return passages with the blocks that they touch, whole."""
        ids = [each.document_id for each in passages if each.kind is PassageKind.CHUNK]
        if not ids:
            return passages
        wholes = await self.passages.whole(self.scope, list(dict.fromkeys(ids)))
        wider = await asyncio.to_thread(widen, [each for each in passages if each.kind is PassageKind.CHUNK], wholes)
        self._blocks.update({passage_id: blocks for passage_id, (_, blocks) in wider.items()})
        return [wider[each.passage_id][0] if each.passage_id in wider else each for each in passages]

    async def draft(self, request: DraftRequest) -> Draft:
        """Quote the best blocks, if they are likely to answer."""
        computed = list(_lines_of_computed(request.evidence))
        if computed:
            return Draft(claims=tuple(computed), sure=1.0)
        request = _without_preface(request)
        read = await self._read(request)
        if not read.found:
            return Draft(sure=0.0)
        near = {
            at: self._as_fitted(each.passage.cosine)
            for at, each in enumerate(read.readable, 1)
            if each.passage.cosine is not None
        }
        judged = await self._judge(request.searched, read, near)
        choice = choose(read.question, request.searched, judged, near, self.weights, _told_before(request))
        signs = choice.signs._asdict() if choice.signs else {}
        if not choice.chosen:
            nearest = None if choice.nearest is None else self._claim(choice.nearest.of, read)
            return Draft(sure=choice.sure, signs=signs, lacking=choice.lacking, nearest=nearest)
        claims = tuple(self._claim(each.of, read) for each in choice.chosen)
        return Draft(claims=claims, sure=choice.sure, signs=signs)

    async def refuse(self, request: DraftRequest) -> Draft | None:
        """Return a draft that names the words that no block of the passages holds, None where one holds them all.

        The blocks are as whole as without a model, whose own passages stay as they were found.
        """
        if next(_lines_of_computed(request.evidence), None) is not None or _is_foreign(request.question):
            return None
        request = _without_preface(request)
        wider = await self.widen([each.passage for each in request.evidence], request.question)
        evidence = [
            each if passage is each.passage else Evidence(passage, passage.text)
            for each, passage in zip(request.evidence, wider, strict=True)
        ]
        read = await self._read(replace(request, evidence=evidence))
        if not read.found or any(not each.missing for each in read.found):
            return None
        if _ASKS_SEVERAL.search(request.searched) and not _in_all(read.found):
            return None
        nearest, lacking = _nearest_with_missing(read.found)
        return Draft(sure=0.0, lacking=lacking, nearest=self._claim(nearest, read))

    async def _read(self, request: DraftRequest) -> _Read:
        """Return the question and the blocks of the passages, those that lack least first."""
        readable = [
            (at, each)
            for at, each in enumerate(request.evidence, 1)
            if each.passage.quotable and each.passage.kind is not PassageKind.COMPUTED and each.text.strip()
        ]
        evidence = [each for _, each in readable]
        terms = list(term_counts(f"{request.question}\n{request.searched}"))
        question = Question(
            request.searched,
            await self.passages.statistics(self.scope, terms),
            own=request.question if request.conversation else request.searched,
            is_word=self.is_word,
        )
        found = await asyncio.to_thread(self._candidates, question, evidence)
        found = await self._excuse(question, found, evidence) if found else []
        return _Read(question, evidence, [at for at, _ in readable], found)

    def _candidates(self, question: Question, readable: Sequence[Evidence]) -> list[Candidate]:
        blocks = [
            self._blocks[each.passage.passage_id]
            if each.passage.passage_id in self._blocks
            else blocks_in(each.passage, each.text)
            for each in readable
        ]
        return candidates(question, readable, blocks)

    async def _excuse(
        self, question: Question, found: Sequence[Candidate], readable: Sequence[Evidence]
    ) -> list[Candidate]:
        """Return candidates without the usual words that they lack if they hold one of the same sense."""
        ranked = sorted(found, key=lambda each: (len(each.missing), -each.share, each.size))
        open_words = {word for each in ranked[:MAX_EXCUSED] for word in each.missing if question.is_usual(word)}
        if not open_words or not ranked[0].missing:
            return ranked
        held = [
            sorted({*words_and_wholes(f"{readable[each.source - 1].passage.title}\n{each.above}\n{each.text}")[0]})
            for each in ranked[:MAX_EXCUSED]
        ]
        words = sorted({word for each in held for word in each} | {each.written.lower() for each in open_words})
        vectors = await self.sentences.of(words, self.embedder, self.scope.workspace)
        places = {word: at for at, word in enumerate(words)}

        def same(word: Word, told: Sequence[str]) -> bool:
            asked = word.written.lower()
            others = [
                places[each]
                for each in told
                if each not in OPPOSITES.get(asked, frozenset()) and not ({each, asked} & MEASURES)
            ]
            return bool(others) and float((vectors[others] @ vectors[places[asked]]).max()) >= SAME_SENSE

        return [
            replace(
                each, missing=tuple(word for word in each.missing if word not in open_words or not same(word, told))
            )
            for each, told in zip(ranked[:MAX_EXCUSED], held, strict=True)
        ] + ranked[MAX_EXCUSED:]

    async def _judge(self, searched: str, read: _Read, near: Mapping[int, float]) -> list[Judged]:
        """Return the candidates with most of the question's words, compared by sense."""
        ranked = sorted(read.found, key=lambda each: (len(each.missing), -each.share, each.size))[:MAX_EMBEDDED]
        texts = [part for each in ranked for part in _texts_to_embed(read.readable[each.source - 1], each)]
        query = (await self.embedder.embed([searched], "query")).vectors[0]
        nearness = (await self.sentences.of(texts, self.embedder, self.scope.workspace)) @ query
        cosines = [self._as_fitted(float(cosine)) for cosine in np.maximum(nearness[0::2], nearness[1::2])]
        judged = [
            Judged(each, cosine, _worth(each, cosine, near.get(each.source, 0.0)))
            for each, cosine in zip(ranked, cosines, strict=True)
        ]
        return judged if self.reranking is None else await _rerank(searched, judged, texts[0::2], self.reranking)

    def _claim(self, of: Candidate, read: _Read) -> DraftClaim:
        text, number = read.readable[of.source - 1].text, read.numbers[of.source - 1]
        block, span = of.block, of.block.span
        quote = text[slice(*span)]
        told = block.told or quote
        quotes = [(number, quote)]
        if block.lead and block.lead.end <= span.start and block.kind not in {BlockKind.ITEM, BlockKind.ROW}:
            lead = text[slice(*block.lead)]
            if len(lead) + len(told) <= BUDGET:
                told = f"{lead}\n{told}"
                quotes.insert(0, (number, lead))
        marked = of.marked.start - span.start, of.marked.end - span.start
        return DraftClaim(text=told, quotes=tuple(quotes), names=block.told, marked=marked)

    def _as_fitted(self, cosine: float) -> float:
        """Return a cosine of the model as one of that which the weights were fitted on."""
        return FITTED.cosine((cosine - self.scale.low) / (self.scale.high - self.scale.low))


async def _rerank(searched: str, judged: Sequence[Judged], texts: Sequence[str], reranking: Reranking) -> list[Judged]:
    """Return blocks with their worth exchanged, so that the best of the reranker ranks first.

    What any block has to be worth stays as it was measured.
    """
    order = await reranking.order(searched, texts)
    ranks = sorted((each.rank for each in judged), reverse=True)
    by_model = [judged[at] for at in order]
    return (
        [replace(each, worth=each.worth + rank - each.rank) for each, rank in zip(by_model, ranks, strict=True)]
        if reranking.degraded is None and reranking.model.ranks
        else list(judged)
    )


def _is_foreign(question: str) -> bool:
    """Return whether a question is in another language, in which its documents need not be."""
    return len(question.split()) >= _MIN_FOREIGN_WORDS and _ENGLISH.search(question) is None


def _worth(of: Candidate, cosine: float, near: float) -> float:
    """Return what a block is worth by its sense, its words, its name, and the passage that it was found in."""
    own = COSINE_SHARE * cosine + (1 - COSINE_SHARE) * of.share
    return own + PASSAGE_SHARE * near + NAMED * of.named


def _texts_to_embed(evidence: Evidence, of: Candidate) -> tuple[str, str]:
    """Return a block and its best sentence, each below what it stands under."""
    head = [evidence.passage.title, *of.block.path[-1:]]
    above = ": ".join(dict.fromkeys(part for part in head if part))
    return f"{above}: {of.text}", f"{above}: {of.block.told or of.sentence}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The blocks that answer; where none does, the nearest one, and the words that it or all of them lack."""

    chosen: tuple[Judged, ...]
    sure: float
    signs: Signs | None = None
    lacking: tuple[str, ...] = ()
    nearest: Judged | None = None


def choose(  # noqa: PLR0917
    question: Question,
    searched: str,
    judged: Sequence[Judged],
    near: Mapping[int, float],
    weights: SignWeights,
    told: str = "",
) -> Choice:
    """Return the blocks that answer a question: those that hold its rare words, and are likely enough.

    `near`: the cosine of each passage; `told`: the answer before, which is not repeated where another block answers.
    """
    level = weights.level
    if told:
        fresh = [each for each in judged if " ".join(each.of.sentence.split()) not in told]
        best_old = max((each.worth for each in judged if each not in fresh), default=0.0)
        judged = fresh if any(each.worth >= best_old - 0.2 for each in fresh) else judged
    ranked = sorted(judged, key=lambda each: -each.rank)
    holding = [each for each in ranked if not each.of.missing]
    pair = _both(question, ranked) if _COMPARES.search(searched) else ()
    if not holding and not pair:
        nearest = min(ranked, key=lambda each: (len(each.of.missing), -each.rank))
        _, lacking = _nearest_with_missing([nearest.of, *(each.of for each in ranked)])
        return Choice((), 0.0, signs=_signs(nearest, near), lacking=lacking, nearest=nearest)
    best = pair[0] if pair else holding[0]
    signs = _signs_of_all(question, pair, near) if pair else _signs(best, near)
    sure = weights.chance(signs)
    for each in holding[1:]:
        other = _signs(each, {at: cosine for at, cosine in near.items() if at == each.of.source})
        if sure < level <= weights.chance(other):
            best, signs, sure = each, other, weights.chance(other)
    if sure < level:
        return Choice((), sure, signs=signs, nearest=best)
    if pair:
        return Choice(pair, sure, signs=signs)
    chosen = [best]
    for each in holding:
        size = sum(other.of.size for other in chosen) + each.of.size
        if len(chosen) < MAX_QUOTED and size <= BUDGET and each.rank >= best.rank - NEAR_BEST:
            chosen += [each] if not any(_overlap(each.of, other.of) for other in chosen) else []
    return Choice(tuple(chosen), sure, signs=signs)


def _in_all(found: Sequence[Candidate]) -> list[Word]:
    """Return the words that every block lacks."""
    return [word for word in found[0].missing if all(word in each.missing for each in found)]


def _nearest_with_missing(found: Sequence[Candidate]) -> tuple[Candidate, tuple[str, ...]]:
    """Return the first block, and the words that all of them lack; if there are none, those that it lacks."""
    return found[0], tuple(each.written for each in _in_all(found) or found[0].missing)


def _signs(each: Judged, near: Mapping[int, float]) -> Signs:
    """Return the signs of a candidate; a passage is as near as it is, however much of it is about something else."""
    return Signs(
        passage=max([each.cosine, *near.values()]),
        block=each.cosine,
        words=each.of.share,
        beyond_title=each.of.beyond,
        named=each.of.named,
    )


def _both(question: Question, ranked: Sequence[Judged]) -> tuple[Judged, ...]:
    """Return the best small blocks of one document that together hold what is compared; none where one is smaller."""
    words = [each for each in question.required if not question.is_usual(each) or each.stems in question.compared]
    chosen: list[Judged] = []
    for word in words:
        having = [each for each in ranked if word not in each.of.missing]
        same = [each for each in having if not chosen or each.of.source == chosen[0].of.source]
        own = max(same, key=lambda each: (each.of.named, -each.of.size), default=None)
        chosen += [own] if own is not None else []
    unique = tuple(dict.fromkeys(chosen))
    lacking = set.intersection(*(set(each.of.missing) for each in unique)) if unique else set()
    whole = min((each.of.size for each in ranked if not each.of.missing), default=BUDGET + 1)
    fits = len(unique) > 1 and len(chosen) == len(words) and sum(each.of.size for each in unique) < whole
    return unique if fits and not lacking else ()


def _signs_of_all(question: Question, judged: Sequence[Judged], near: Mapping[int, float]) -> Signs:
    """Return the signs of blocks that answer together: their words are one text."""
    signs = [_signs(each, near) for each in judged]
    held = question.share(Held(*(f"{each.of.above}\n{each.of.text}" for each in judged)))
    best = Signs(*(max(each) for each in zip(*signs, strict=True)))
    return best._replace(words=max(best.words, held), beyond_title=max(best.beyond_title, held))


def _overlap(one: Candidate, other: Candidate) -> bool:
    own, others = one.block.span, other.block.span
    meets = one.source == other.source and own.start < others.end and others.start < own.end
    return meets or one.text == other.text


def _without_preface(request: DraftRequest) -> DraftRequest:
    """Return a request for the sentences that ask: what somebody tells first is no condition of the answer."""
    return request if request.conversation else replace(request, searched=without_preface(request.searched))


def _told_before(request: DraftRequest) -> str:
    """Return the answer before, unless the same question is asked again."""
    said = [turn.content for turn in request.conversation if turn.role == "assistant"][-1:]
    before = [turn.content for turn in request.conversation if turn.role == "user"][-1:]
    return " ".join(said[0].split()) if said and before != [request.question] else ""


def _lines_of_computed(evidence: Sequence[Evidence]) -> Iterator[DraftClaim]:
    """Yield the lines of computed passages: they are the answer, whatever else was found."""
    lines = 0
    for number, each in enumerate(evidence, 1):
        if each.passage.kind is not PassageKind.COMPUTED or (each.passage.listing and lines >= MAX_COMPUTED):
            continue
        told = claims_per_line(number, each)
        lines += len(told)
        yield from told
