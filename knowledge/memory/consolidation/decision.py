"""Decides whether an entry joins an existing pattern or founds one; pure.

It joins where entry type, situation and resolution are the same: after normalising white space and case, or as
`likeness` judges them. It is always compared with the texts of the pattern's founder, so that a pattern does not drift
from text to text. Where only the resolution differs, the patterns are rivals; where that is not certain, twins for a
person to join.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from knowledge.memory.consolidation.comparison import MIN_COSINE, TextComparer, Verdict
from knowledge.memory.index.points import text_points
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import known_keys, situation_key
from knowledge.memory.rules.entry_profile import build_profile
from knowledge.memory.rules.similarity import BestCase, Judgement
from knowledge.models import (
    Decision,
    Entry,
    EntryId,
    EntryProfile,
    EntryType,
    Founder,
    KnownKeys,
    Link,
    LinkKind,
    PatternId,
    Vector,
    View,
    pattern_id_of,
)
from knowledge.text.bm25 import term_counts
from knowledge.text.profile import ParsedText

_DECIMALS = 6
"""Cosines are rounded, since the last digits depend on a vector's place in its batch."""

MAX_COMPARED = 5
"""An entry is compared with at most this many patterns, those founded by its batch among them: the nearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A leased entry with its texts by view, whole and as `read` by the model, and their vectors.

    Keys and term counts are computed once, since several steps need them. `gists`: term counts of the texts of which
    the model reads only a part.
    """

    entry: Entry
    views: Mapping[View, str]
    read: Mapping[View, str]
    vectors: Mapping[View, Vector]
    match_key: str = field(init=False)
    wording_key: str = field(init=False)
    profile: EntryProfile = field(init=False)
    situation_key: str = field(init=False)
    known_keys: KnownKeys = field(init=False)
    counts: Mapping[View, Mapping[int, int]] = field(init=False)
    gists: Mapping[View, Mapping[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the keys and the term counts."""
        object.__setattr__(self, "match_key", embedding_text.match_key(self.entry))
        object.__setattr__(self, "wording_key", embedding_text.wording_key(self.entry))
        situation = embedding_text.situation(self.entry)
        object.__setattr__(self, "situation_key", situation_key(situation))
        object.__setattr__(self, "known_keys", known_keys(self.entry))
        object.__setattr__(self, "counts", {view: term_counts(text) for view, text in self.views.items()})
        object.__setattr__(self, "profile", build_profile(self.entry, counts=self.counts))
        gists = {view: term_counts(text) for view, text in self.read.items() if text != self.views[view]}
        object.__setattr__(self, "gists", gists)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pattern that an entry may join: the texts of the entry that founded it, or of its oldest remaining one."""

    pattern_id: PatternId
    entry_type: EntryType
    situation: str
    resolution: str
    situation_cosine: float


class Row(NamedTuple):
    """Places in a list of texts, nearest to a vector first, and their cosines."""

    places: Sequence[int]
    cosines: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearby:
    """The nearest existing patterns of each entry, and how to compare them; for joining beyond equal texts.

    `within`: the near entries of the same batch, for each of its entries. `resolutions`: vectors of resolutions by
    text; those that `find_missing` returns are needed.
    """

    comparer: TextComparer
    within: Sequence[Row]
    candidates: Mapping[EntryId, Sequence[Candidate]] = field(default_factory=dict)
    resolutions: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def patterns(self) -> set[PatternId]:
        """The candidate patterns of all entries."""
        return {candidate.pattern_id for around in self.candidates.values() for candidate in around}

    def drop_deleted(self, existing: Collection[PatternId]) -> Nearby:
        """Return the same without patterns that no longer exist."""
        if self.patterns <= set(existing):
            return self
        remaining = {
            entry_id: [candidate for candidate in around if candidate.pattern_id in existing]
            for entry_id, around in self.candidates.items()
        }
        return replace(self, candidates=remaining)


def cosine_matrix(rows: Vector, columns: Vector) -> Vector:
    """Return the cosines of unit vectors (rows) with other unit vectors (columns).

    Not by BLAS: its threads spin for some 25 ms after a product, on the cores that embed (measured: 2 ms per entry).
    """
    cosines: Vector = np.einsum("ij,kj->ik", rows, columns)
    return cosines


def near_columns(cosines: Vector) -> list[Row]:
    """Return, for each row of cosines, the columns of at least `MIN_COSINE`, nearest first."""
    rows: list[Row] = []
    for row in cosines:
        near = np.flatnonzero(row >= MIN_COSINE)
        near = near[np.argsort(-row[near], kind="stable")]
        rows.append(Row(near.tolist(), row[near].tolist()))
    return rows


def near_in_batch(embeddings: Sequence[Embedding]) -> list[Row]:
    """Return, for each entry of a batch, the near ones of the batch, nearest first; itself included."""
    vectors = np.array([each.vectors[View.SITUATION] for each in embeddings])
    return near_columns(np.round(cosine_matrix(vectors, vectors), _DECIMALS))


def nearest_founders(embeddings: Sequence[Embedding], founders: Collection[Founder]) -> list[list[Founder]]:
    """Return, for each entry, the nearest `MAX_COMPARED` of these patterns of its type; ties go to the lower id."""
    by_id = sorted(founders, key=lambda each: each.pattern_id)
    vectors = np.array([embedding.vectors[View.SITUATION] for embedding in embeddings])
    cosines = np.round(cosine_matrix(vectors, np.array([founder.situation for founder in by_id])), _DECIMALS)
    nearest_of_each = []
    for embedding, near in zip(embeddings, near_columns(cosines), strict=True):
        entry_type = embedding.entry.entry_type
        candidates = (by_id[place] for place in near.places if by_id[place].words.entry_type is entry_type)
        nearest_of_each.append(list(islice(candidates, MAX_COMPARED)))
    return nearest_of_each


def nearest(near: Row, is_candidate: Callable[[int], bool]) -> list[tuple[int, float]]:
    """Return the nearest places that `is_candidate` accepts, `MAX_COMPARED` and ties of the last, with cosines."""
    near_places: list[tuple[int, float]] = []
    for place, cosine in zip(near.places, near.cosines, strict=True):
        if len(near_places) >= MAX_COMPARED and cosine < near_places[-1][1]:
            break
        if is_candidate(place):
            near_places.append((place, cosine))
    return near_places


def cosine_between(one: Vector, other: Vector) -> float:
    """Return the rounded cosine of two unit vectors."""
    return round(float(one @ other), _DECIMALS)


def decide(
    embeddings: Sequence[Embedding],
    *,
    held: Mapping[EntryId, PatternId | None],
    existing: Mapping[str, PatternId],
    workspace: str,
    nearby: Nearby | None = None,
    resolutions: Mapping[PatternId, Collection[str]] = MappingProxyType({}),
) -> list[Decision]:
    """Return a decision for each entry still held, in order; a decision of an earlier attempt stands.

    `existing`: the patterns that exist, by key. `resolutions`: those of their entries. Entries of the batch may join
    patterns founded by others of it. The result does not depend on the order of the batch: the earliest captured entry
    founds.
    """
    chooser = _Chooser(embeddings, nearby)
    decisions: dict[EntryId, Decision] = {}
    by_key = _KeyIndex(existing, resolutions)
    for embedding, own, choice in _choose_in_order(chooser, embeddings, held, by_key, workspace):
        pattern_id = choice.pattern_id or own
        decisions[embedding.entry.entry_id] = Decision(
            entry=embedding.entry,
            pattern_id=pattern_id,
            match_key=by_key.key_of(embedding, pattern_id),
            founds=pattern_id == own,  # also for a repeated attempt, whose later steps are not done yet
            points=text_points(workspace, pattern_id, embedding.views, embedding.vectors),
            why=choice.why,
            links=choice.links,
            profile=embedding.profile,
            situation_key=embedding.situation_key,
            known_keys=embedding.known_keys,
        )
    return [decisions[each.entry.entry_id] for each in embeddings if each.entry.entry_id in decisions]


def patterns_to_compare(embeddings: Iterable[Embedding], existing: Mapping[str, PatternId]) -> set[PatternId]:
    """Return the patterns with an entry's match key whose resolutions must be compared as written."""
    return {
        existing[each.match_key]
        for each in embeddings
        if each.wording_key not in existing and each.match_key in existing
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingData:
    """Data that `decide` still needs: texts to be read, resolutions to be embedded as documents.

    Both are few, and mostly none. The resolutions are those of similar situations where words alone do not decide;
    without their vectors such patterns become twins.
    """

    unread: Collection[ParsedText]
    resolutions: Sequence[str]


def find_missing(embeddings: Sequence[Embedding], *, workspace: str, nearby: Nearby) -> MissingData:
    """Return the data missing to decide on entries; call again once the texts were read."""
    chooser = _Chooser(embeddings, nearby)
    held = dict.fromkeys(embedding.entry.entry_id for embedding in embeddings)
    for _ in _choose_in_order(chooser, embeddings, held, _KeyIndex({}, {}), workspace):
        pass
    return MissingData(unread=list(nearby.comparer.unread.values()), resolutions=list(chooser.missing_resolutions))


class _KeyIndex:
    """Existing patterns and those of the batch, by the keys of their entries' words.

    Where a pattern has the match key but its resolution is written differently, an entry uses its wording key.
    """

    def __init__(self, existing: Mapping[str, PatternId], resolutions: Mapping[PatternId, Collection[str]]) -> None:
        self._known = dict(existing)
        self._resolutions = {pattern_id: list(texts_of_pattern) for pattern_id, texts_of_pattern in resolutions.items()}

    def pattern_of(self, embedding: Embedding) -> PatternId | None:
        """Return the pattern with an entry's words, None where there is none."""
        pattern_id = self._known.get(embedding.wording_key)
        if pattern_id is None:
            pattern_id = self._known.get(embedding.match_key)
            if pattern_id and _is_written_differently(
                embedding_text.compared_resolution(embedding.entry), self._resolutions.get(pattern_id, ())
            ):
                return None
        return pattern_id

    def learn(self, embedding: Embedding, pattern_id: PatternId) -> None:
        """Assign later entries with the same words to this pattern."""
        self._known.setdefault(embedding.match_key, pattern_id)
        self._known.setdefault(embedding.wording_key, pattern_id)
        self._resolutions.setdefault(pattern_id, []).append(embedding_text.compared_resolution(embedding.entry))

    def key_of(self, embedding: Embedding, pattern_id: PatternId) -> str:
        """Return the key under which an entry is stored in its pattern."""
        is_taken = self._known[embedding.match_key] != pattern_id
        return embedding.wording_key if is_taken else embedding.match_key


def _is_written_differently(resolution: str, resolutions: Iterable[str]) -> bool:
    """Return whether the resolutions contain the same words, but each time written differently."""
    normal = embedding_text.normalise(resolution)
    same = [each for each in resolutions if embedding_text.normalise(each) == normal]
    return bool(same) and all(ParsedText(each).is_reworded(ParsedText(resolution)) for each in same)


def _choose_in_order(
    chooser: _Chooser,
    embeddings: Sequence[Embedding],
    held: Mapping[EntryId, PatternId | None],
    by_key: _KeyIndex,
    workspace: str,
) -> Iterator[tuple[Embedding, PatternId, _Choice]]:
    """Yield each entry still held, earliest captured first, with the pattern it would found and its choice."""
    for embedding in sorted(embeddings, key=lambda each: (each.entry.captured_at, each.entry.entry_id)):
        entry_id = embedding.entry.entry_id
        if entry_id not in held:
            continue
        own = pattern_id_of(workspace, entry_id)
        choice = _Choice(pattern_id=held[entry_id] or by_key.pattern_of(embedding))
        if choice.pattern_id is None:
            choice = chooser.choose(embedding)
        pattern_id = choice.pattern_id or own
        by_key.learn(embedding, pattern_id)
        if pattern_id == own:
            chooser.add_founder(embedding, own)
        yield embedding, own, choice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The pattern an entry joins, None where none fits; the reasons; and links to rivals and twins."""

    pattern_id: PatternId | None
    why: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


class _Chooser:
    """Chooses a pattern for texts that are not equal, among existing ones and those the batch founded so far."""

    def __init__(self, embeddings: Sequence[Embedding], nearby: Nearby | None) -> None:
        self.missing_resolutions: dict[str, None] = {}
        self._nearby = nearby if nearby and nearby.comparer.weights else None
        self._embeddings = embeddings
        self._place = {each.entry.entry_id: at for at, each in enumerate(embeddings)}
        self._founders: dict[int, PatternId] = {}

    def add_founder(self, embedding: Embedding, pattern_id: PatternId) -> None:
        """Let later entries join the pattern that this one founded."""
        place = self._place[embedding.entry.entry_id]
        self._founders[place] = pattern_id

    def choose(self, embedding: Embedding) -> _Choice:
        """Return the best pattern whose situation and resolution are the same."""
        if self._nearby is None:
            return _Choice(pattern_id=None)
        entry = embedding.entry
        links: list[Link] = []
        best: tuple[float, _Choice] | None = None
        of_batch = self._of_batch(embedding, self._nearby.within[self._place[entry.entry_id]])
        around = (*self._nearby.candidates.get(entry.entry_id, ()), *of_batch)
        comparable = [candidate for candidate in around if candidate.entry_type is entry.entry_type]
        for candidate in sorted(_nearest(comparable), key=lambda each: each.pattern_id):
            result = self._compare(embedding, candidate, self._nearby)
            if isinstance(result, Link):
                links.append(result)
            elif result and (best is None or result[0] > best[0]):
                best = result[0], _Choice(pattern_id=candidate.pattern_id, why=result[1])
        links.sort(key=lambda link: (-link.probability, link.pattern_id))
        return replace(best[1] if best else _Choice(pattern_id=None), links=tuple(links))

    def _of_batch(self, embedding: Embedding, near: Row) -> Iterator[Candidate]:
        entry_type = embedding.entry.entry_type

        def founds(place: int) -> bool:
            return place in self._founders and self._embeddings[place].entry.entry_type is entry_type

        ties = nearest(near, founds)
        for place, cosine in nsmallest(MAX_COMPARED, ties, key=lambda each: (-each[1], self._founders[each[0]])):
            founder = self._embeddings[place]
            yield Candidate(
                pattern_id=self._founders[place],
                entry_type=entry_type,
                situation=embedding_text.compared_situation(founder.entry),
                resolution=embedding_text.compared_resolution(founder.entry),
                situation_cosine=cosine,
            )

    def _compare(
        self, embedding: Embedding, candidate: Candidate, nearby: Nearby
    ) -> Link | tuple[float, tuple[str, ...]] | None:
        """Return the probability that an entry fits a pattern and the reasons, or a link between them, or None."""
        comparing = nearby.comparer
        situations_of_both = embedding_text.compared_situation(embedding.entry), candidate.situation
        cosine = candidate.situation_cosine
        own, other = embedding_text.compared_resolution(embedding.entry), candidate.resolution
        vectors = (nearby.resolutions.get(own), nearby.resolutions.get(other))
        if comparing.same_but_for_passing(situations_of_both, (own, other)):
            return 1.0, ("situation: the same words except for times, ids and the like", "resolution: the same words")
        at_best = comparing.best_case(*situations_of_both, cosine)
        if at_best is BestCase.OTHER or (
            # neither twins nor rivals then, and resolutions are mostly faster to compare than situations
            at_best is BestCase.LIKELY and comparing.are_other_resolutions(own, other, vectors)
        ):
            return None
        situations = comparing.situations(*situations_of_both, cosine)
        if not situations.likely or (not situations.same and comparing.are_other_resolutions(own, other, vectors)):
            return None
        resolutions = comparing.resolutions(own, other, vectors)
        why = _reasons("situation", situations) + _reasons("resolution", resolutions.judgement)
        match resolutions.verdict:
            case Verdict.SAME if situations.same:
                return situations.probability, why
            case Verdict.OTHER:
                return _link(LinkKind.RIVAL, candidate, situations, why)
            case Verdict.UNKNOWN:
                self.missing_resolutions |= {own: None, other: None}
        return _link(LinkKind.TWIN, candidate, situations, why)


def _link(kind: LinkKind, candidate: Candidate, situations: Judgement, why: tuple[str, ...]) -> Link:
    return Link(kind=kind, pattern_id=candidate.pattern_id, probability=situations.probability, why=why)


def _reasons(prefix: str, judgement: Judgement) -> tuple[str, ...]:
    """Return the reasons of a judgement on two situations or two resolutions in words."""
    reasons: Iterable[str] = judgement.differences or judgement.grounds or (f"likeness {judgement.probability:.2f}",)
    return tuple(f"{prefix}: {reason}" for reason in reasons)


def _nearest(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the nearest patterns of at least `MIN_COSINE`, each once."""
    best: dict[PatternId, Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: (-each.situation_cosine, each.pattern_id)):
        if candidate.situation_cosine >= MIN_COSINE:
            best.setdefault(candidate.pattern_id, candidate)
    return list(best.values())[:MAX_COMPARED]
