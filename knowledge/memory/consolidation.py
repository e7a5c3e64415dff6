"""Does an entry join a pattern, or found one? The one place that decides; pure.

It joins where entry type, situation and resolution are the same: after normalising white space and case, or as
`likeness` judges them. It is always compared with the texts a pattern was founded on, so that a pattern does not drift
from text to text. Where only the resolution is another one, the patterns are rivals; where it is not certain, twins
for a person to join.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from knowledge.memory import texts
from knowledge.memory.comparing import NEAR_ENOUGH, TextComparer, Verdict
from knowledge.memory.likeness import BestCase, Judgement
from knowledge.memory.points import text_points
from knowledge.models import (
    Decision,
    Entry,
    EntryId,
    EntryType,
    Founder,
    Link,
    LinkKind,
    PatternId,
    Vector,
    View,
    pattern_id_of,
)
from knowledge.search.lexical import term_counts
from knowledge.search.wording import Reading

_DECIMALS = 6
"""Cosines are rounded, since the last digits depend on where a vector stands in its batch."""

MAX_COMPARED = 5
"""An entry is compared with at most this many patterns, those founded by its batch among them: the nearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A leased entry and its texts, as they were told and as the model read them, with their vectors.

    Its keys, and how often each term occurs in its texts, are worked out once: several steps ask for them. `gists`: the
    same of what was read, of those texts of which that is less.
    """

    entry: Entry
    told: Mapping[View, str]
    read: Mapping[View, str]
    vectors: Mapping[View, Vector]
    match_key: str = field(init=False)
    wording_key: str = field(init=False)
    counts: Mapping[View, Mapping[int, int]] = field(init=False)
    gists: Mapping[View, Mapping[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Work out the keys and the terms."""
        object.__setattr__(self, "match_key", texts.match_key(self.entry))
        object.__setattr__(self, "written_key", texts.wording_key(self.entry))
        object.__setattr__(self, "counts", {view: term_counts(text) for view, text in self.told.items()})
        gists = {view: term_counts(text) for view, text in self.read.items() if text != self.told[view]}
        object.__setattr__(self, "gists", gists)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pattern that an entry may join: the texts of the entry that founded it, or of its oldest one that is left."""

    pattern_id: PatternId
    entry_type: EntryType
    situation: str
    resolution: str
    situation_cosine: float


class Row(NamedTuple):
    """Places in a list of texts, the nearest to some vector first, and how near each is."""

    places: Sequence[int]
    cosines: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearby:
    """What entries may join beyond equal texts: the nearest existing patterns of each, and how to compare them.

    `within` are those of the batch that are near each of its entries. `resolutions` are vectors of resolutions by
    text; those that `missing` names are needed.
    """

    comparing: TextComparer
    within: Sequence[Row]
    candidates: Mapping[EntryId, Sequence[Candidate]] = field(default_factory=dict)
    resolutions: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def patterns(self) -> set[PatternId]:
        """The patterns that may be joined."""
        return {candidate.pattern_id for around in self.candidates.values() for candidate in around}

    def among(self, there: Collection[PatternId]) -> Nearby:
        """Return the same without patterns that are gone."""
        if self.patterns <= set(there):
            return self
        left = {
            entry_id: [candidate for candidate in around if candidate.pattern_id in there]
            for entry_id, around in self.candidates.items()
        }
        return replace(self, candidates=left)


def cosines_of(ones: Vector, others: Vector) -> Vector:
    """Return the cosine of each of some vectors of length 1 (a row) with each of others (a column).

    Not by BLAS: its threads spin for some 25 ms after a product, on the cores that embed (measured: 2 ms an entry).
    """
    cosines: Vector = np.einsum("ij,kj->ik", ones, others)
    return cosines


def near_by(cosines: Vector) -> list[Row]:
    """Return, for each row of cosines, the columns that are near enough, the nearest first."""
    rows: list[Row] = []
    for row in cosines:
        near = np.flatnonzero(row >= NEAR_ENOUGH)
        near = near[np.argsort(-row[near], kind="stable")]
        rows.append(Row(near.tolist(), row[near].tolist()))
    return rows


def near_in_batch(embeddings: Sequence[Embedding]) -> list[Row]:
    """Return, for each entry of a batch, those of it that are near enough, the nearest first; itself among them."""
    vectors = np.array([each.vectors[View.SITUATION] for each in embeddings])
    return near_by(np.round(cosines_of(vectors, vectors), _DECIMALS))


def nearest_founders(embeddings: Sequence[Embedding], founders: Collection[Founder]) -> list[list[Founder]]:
    """Return, for each entry, the nearest `MAX_COMPARED` of some patterns of its type; ties go to the lower id."""
    by_id = sorted(founders, key=lambda each: each.pattern_id)
    asking = np.array([embedding.vectors[View.SITUATION] for embedding in embeddings])
    cosines = np.round(cosines_of(asking, np.array([founder.situation for founder in by_id])), _DECIMALS)
    found = []
    for embedding, near in zip(embeddings, near_by(cosines), strict=True):
        entry_type = embedding.entry.entry_type
        alike = (by_id[place] for place in near.places if by_id[place].words.entry_type is entry_type)
        found.append(list(islice(alike, MAX_COMPARED)))
    return found


def nearest(near: Row, those: Callable[[int], bool]) -> list[tuple[int, float]]:
    """Return the nearest of `those` places, `MAX_COMPARED` and those as near as the last, with their cosines."""
    found: list[tuple[int, float]] = []
    for place, cosine in zip(near.places, near.cosines, strict=True):
        if len(found) >= MAX_COMPARED and cosine < found[-1][1]:
            break
        if those(place):
            found.append((place, cosine))
    return found


def rounded_cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of length 1, without the digits that depend on where they stood in a batch."""
    return round(float(one @ other), _DECIMALS)


def decide(
    embeddings: Sequence[Embedding],
    *,
    held: Mapping[EntryId, PatternId | None],
    known: Mapping[str, PatternId],
    workspace: str,
    nearby: Nearby | None = None,
    resolutions: Mapping[PatternId, Collection[str]] = MappingProxyType({}),
) -> list[Decision]:
    """Return a decision for each entry still held, in order; one made by an earlier attempt stands.

    `known` are the patterns that exist, by key, and `resolutions` those of their entries; entries of the batch may
    found and join each other's. Who belongs together does not depend on the order of the batch: the earliest captured
    founds.
    """
    choosing = _Choosing(embeddings, nearby)
    decisions: dict[EntryId, Decision] = {}
    by_key = _ByKey(known, resolutions)
    for embedding, own, choice in _chosen(choosing, embeddings, held, by_key, workspace):
        pattern_id = choice.pattern_id or own
        decisions[embedding.entry.entry_id] = Decision(
            entry=embedding.entry,
            pattern_id=pattern_id,
            match_key=by_key.key_of(embedding, pattern_id),
            founds=pattern_id == own,  # a repeated founding too: what follows from it was not done yet
            points=text_points(workspace, pattern_id, embedding.told, embedding.vectors),
            why=choice.why,
            links=choice.links,
        )
    return [decisions[each.entry.entry_id] for each in embeddings if each.entry.entry_id in decisions]


def to_be_seen(embeddings: Iterable[Embedding], known: Mapping[str, PatternId]) -> set[PatternId]:
    """Return the patterns that share a match key with an entry, and whose resolutions must be compared as written."""
    return {known[each.match_key] for each in embeddings if each.wording_key not in known and each.match_key in known}


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What `decide` needs to know: texts to be read whole, resolutions to be embedded as documents.

    Both are few, and most often none. Resolutions are those of like situations, where the words alone do not decide;
    without their vectors such patterns become twins.
    """

    unread: Collection[Reading]
    resolutions: Sequence[str]


def missing(embeddings: Sequence[Embedding], *, workspace: str, nearby: Nearby) -> Missing:
    """Return what is missing to decide on entries; to be asked again once texts were read."""
    choosing = _Choosing(embeddings, nearby)
    held = dict.fromkeys(embedding.entry.entry_id for embedding in embeddings)
    for _ in _chosen(choosing, embeddings, held, _ByKey({}, {}), workspace):
        pass
    return Missing(unread=list(nearby.comparing.unread.values()), resolutions=list(choosing.wanted))


class _ByKey:
    """The patterns that entries belong to by their words: those that were known, and those of the batch.

    The words of a resolution may be put otherwise in a pattern that has their key: then the entry has a key of its own.
    """

    def __init__(self, known: Mapping[str, PatternId], resolutions: Mapping[PatternId, Collection[str]]) -> None:
        self._known = dict(known)
        self._resolutions = {pattern_id: list(told) for pattern_id, told in resolutions.items()}

    def pattern_of(self, embedding: Embedding) -> PatternId | None:
        """Return the pattern with the words of an entry, None where there is none."""
        found = self._known.get(embedding.wording_key)
        if found is None:
            found = self._known.get(embedding.match_key)
            if found and _put_otherwise(texts.resolution(embedding.entry), self._resolutions.get(found, ())):
                return None
        return found

    def learn(self, embedding: Embedding, pattern_id: PatternId) -> None:
        """Let later entries with the same words come to the pattern of this one."""
        self._known.setdefault(embedding.match_key, pattern_id)
        self._known.setdefault(embedding.wording_key, pattern_id)
        self._resolutions.setdefault(pattern_id, []).append(texts.resolution(embedding.entry))

    def key_of(self, embedding: Embedding, pattern_id: PatternId) -> str:
        """Return the key by which an entry is to be found in its pattern."""
        taken = self._known[embedding.match_key] != pattern_id
        return embedding.wording_key if taken else embedding.match_key


def _put_otherwise(resolution: str, there: Iterable[str]) -> bool:
    """Return whether a resolution is there, but never as it is put: where it is not there any more, nobody knows."""
    words = texts.normalise(resolution)
    same = [told for told in there if texts.normalise(told) == words]
    return bool(same) and all(Reading(told).put_otherwise(Reading(resolution)) for told in same)


def _chosen(
    choosing: _Choosing,
    embeddings: Sequence[Embedding],
    held: Mapping[EntryId, PatternId | None],
    by_key: _ByKey,
    workspace: str,
) -> Iterator[tuple[Embedding, PatternId, _Choice]]:
    """Yield, the earliest captured first, each entry still held, the pattern it would found and what it chooses."""
    for embedding in sorted(embeddings, key=lambda each: (each.entry.captured_at, each.entry.entry_id)):
        entry_id = embedding.entry.entry_id
        if entry_id not in held:
            continue
        own = pattern_id_of(workspace, entry_id)
        choice = _Choice(pattern_id=held[entry_id] or by_key.pattern_of(embedding))
        if choice.pattern_id is None:
            choice = choosing.choose(embedding)
        pattern_id = choice.pattern_id or own
        by_key.learn(embedding, pattern_id)
        if pattern_id == own:
            choosing.founded(embedding, own)
        yield embedding, own, choice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The pattern an entry joins, None where none fits; why; and those it has to do with besides."""

    pattern_id: PatternId | None
    why: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


class _Choosing:
    """Chooses beyond equal texts, among existing patterns and those that the batch founded so far."""

    def __init__(self, embeddings: Sequence[Embedding], nearby: Nearby | None) -> None:
        self.wanted: dict[str, None] = {}
        self._nearby = nearby if nearby and nearby.comparing.weights else None
        self._embeddings = embeddings
        self._place = {each.entry.entry_id: at for at, each in enumerate(embeddings)}
        self._founders: dict[int, PatternId] = {}

    def founded(self, embedding: Embedding, pattern_id: PatternId) -> None:
        """Let later entries join what this one founded."""
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
            found = self._compared(embedding, candidate, self._nearby)
            if isinstance(found, Link):
                links.append(found)
            elif found and (best is None or found[0] > best[0]):
                best = found[0], _Choice(pattern_id=candidate.pattern_id, why=found[1])
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
                situation=founder.told[View.SITUATION],
                resolution=texts.resolution(founder.entry),
                situation_cosine=cosine,
            )

    def _compared(
        self, embedding: Embedding, candidate: Candidate, nearby: Nearby
    ) -> Link | tuple[float, tuple[str, ...]] | None:
        """Return how well an entry fits a pattern and why, or the link between them, or None."""
        comparing = nearby.comparing
        told, cosine = (embedding.told[View.SITUATION], candidate.situation), candidate.situation_cosine
        own, other = texts.resolution(embedding.entry), candidate.resolution
        vectors = (nearby.resolutions.get(own), nearby.resolutions.get(other))
        if comparing.same_but_for_passing(told, (own, other)):
            return 1.0, ("situation: the same words but for moments, ids and the like", "resolution: the same words")
        at_best = comparing.at_best(*told, cosine)
        if at_best is BestCase.OTHER or (
            # neither twins nor rivals then, and resolutions are mostly told apart sooner than situations
            at_best is BestCase.LIKELY and comparing.other_resolutions(own, other, vectors)
        ):
            return None
        situations = comparing.situations(*told, cosine)
        if not situations.likely or (not situations.same and comparing.other_resolutions(own, other, vectors)):
            return None
        resolutions = comparing.resolutions(own, other, vectors)
        why = _told("situation", situations) + _told("resolution", resolutions.judgement)
        match resolutions.verdict:
            case Verdict.SAME if situations.same:
                return situations.probability, why
            case Verdict.OTHER:
                return _link(LinkKind.RIVAL, candidate, situations, why)
            case Verdict.UNKNOWN:
                self.wanted |= {own: None, other: None}
        return _link(LinkKind.TWIN, candidate, situations, why)


def _link(kind: LinkKind, candidate: Candidate, situations: Judgement, why: tuple[str, ...]) -> Link:
    return Link(kind=kind, pattern_id=candidate.pattern_id, probability=situations.probability, why=why)


def _told(what: str, judgement: Judgement) -> tuple[str, ...]:
    """Return in words what decided about two situations or two resolutions."""
    reasons: Iterable[str] = judgement.differences or judgement.grounds or (f"likeness {judgement.probability:.2f}",)
    return tuple(f"{what}: {reason}" for reason in reasons)


def _nearest(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the nearest patterns that are near enough, each once."""
    best: dict[PatternId, Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: (-each.situation_cosine, each.pattern_id)):
        if candidate.situation_cosine >= NEAR_ENOUGH:
            best.setdefault(candidate.pattern_id, candidate)
    return list(best.values())[:MAX_COMPARED]
