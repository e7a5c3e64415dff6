"""Which of the matches are shown, and in which order; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from knowledge.memory import texts
from knowledge.memory.fitting import ENOUGH
from knowledge.memory.success import success_rate
from knowledge.models import Entry, EntryType, Evidence
from knowledge.search.lexical import term_counts

COPY = 0.8
"""A resolution that shares so much of its words with another one says the same; ours."""

AGENTS_WORD = 0.95
"""What a solution counts that only its agent says works. Ours; with three fields of other values (`fitting.OTHER`) it
makes 0.69, which still turns no evidence over: that times 9 of 10 is above 1 of 1, and times 1 of 1 above 1 of 2."""

_COMPARED = 2_000
"""Characters of resolutions that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A live pattern a search found. `score` is the raw fused one.

    `fit` is what its fields count, 0..1, and `fits` whether none of them is another one (`knowledge.memory.fitting`).
    """

    evidence: Evidence
    relevance: float
    score: float
    fit: float = 1.0
    fits: bool = True


def strength(match: Match) -> float:
    """Return relevance times the lower bound of the success rate, times how well the fields fit, times trust.

    A product, so that no evidence lifts what is not relevant.
    """
    evidence = match.evidence
    rate = success_rate(evidence.success_count, evidence.attempt_count)
    return match.relevance * rate * match.fit * _trust(evidence.words)


def _trust(words: Entry) -> float:
    """Return what an entry counts by who vouches for it: a human at a gate, or what verified it, or its agent alone."""
    return 1.0 if words.verified_by or words.entry_type is not EntryType.FAILURE_SOLUTION else AGENTS_WORD


def rank(matches: Iterable[Match], *, limit: int) -> list[Match]:
    """Return the best `limit` matches, a pattern once, best first.

    Ties go to the higher raw score, then to more projects, then to the older pattern. Gate entries take at most two of
    five places while others fit; so does what resolves it in nearly the words of one before, which is left out where
    anything else is left. Whatever comes first, three of the places after it are for patterns of the fields asked for.
    """
    return _within_quotas(_in_order(matches, limit), limit)


def rank_for_gate(matches: Iterable[Match], *, limit: int) -> list[Match]:
    """Return the best `limit` decisions of a gate, best first; those of another gate only behind fewer than three.

    Of the gate's own, what was turned down and what passed both have two of five places, one of three, while there are
    any. The rest is as in `rank`.
    """
    everything = list(matches)
    shown = _both_kinds(_in_order((match for match in everything if match.fits), limit), limit)
    if len(shown) < min(ENOUGH, limit):
        left = limit - len(shown)
        shown += _both_kinds(_in_order((match for match in everything if not match.fits), left), left)
    return shown


def _in_order(matches: Iterable[Match], limit: int) -> list[Match]:
    """Return the matches, a pattern once, best first, near copies last; of a key of low trust only its share."""
    best: dict[object, Match] = {}
    for match in matches:
        known = best.get(match.evidence.pattern_id)
        if known is None or (strength(match), match.score) > (strength(known), known.score):
            best[match.evidence.pattern_id] = match
    return _shares(_copies_last(sorted(best.values(), key=_order), limit), limit)


def _shares(ordered: list[Match], limit: int) -> list[Match]:
    """Return the matches without those of a key of low trust that has had its share, also where places stay empty."""
    sources: Counter[str | None] = Counter()
    kept = []
    for match in ordered:
        source = match.evidence.words.source
        sources[source] += 1
        if source is None or sources[source] <= source_quota(limit):
            kept.append(match)
    return kept


def _rivals_together(ordered: list[Match]) -> list[Match]:
    """Return the matches in order, each followed by its best rival: whoever tries one is to know of the other."""
    beside: dict[object, Match] = {}
    for match in ordered:
        if match.evidence.pattern_id not in beside:
            beside[match.evidence.pattern_id] = match
            rivals = match.evidence.rivals
            rival = next((each for each in ordered if each.evidence.pattern_id in rivals), None) if rivals else None
            if rival is not None:
                beside.setdefault(rival.evidence.pattern_id, rival)
    return list(beside.values())


def _both_kinds(ordered: list[Match], limit: int) -> list[Match]:
    """Return the first `limit`, of which neither entry type takes all while there are others."""
    share = limit - (gate_quota(limit) if limit > 1 else 0)
    taken: Counter[EntryType] = Counter()
    shown: list[Match] = []
    held_back: list[Match] = []
    for match in ordered:
        taken[match.evidence.entry_type] += 1
        (shown if taken[match.evidence.entry_type] <= share else held_back).append(match)
    return sorted([*shown[:limit], *held_back][:limit], key=ordered.index)


def gate_quota(limit: int) -> int:
    """Return how many of `limit` places gate entries may take while others fit: 2 of 5, 1 of 3."""
    return max(1, limit * 2 // 5)


def source_quota(limit: int) -> int:
    """Return how many of `limit` places what one key of low trust told may take: 1 of 3, 1 of 5."""
    return max(1, limit // 3)


def _within_quotas(ordered: list[Match], limit: int) -> list[Match]:
    """Return `limit` of the matches, in order; what has had its share comes in only where places are left."""
    gates_left = gate_quota(limit)
    others_left = limit - min(ENOUGH, limit - 1, sum(match.fits for match in ordered))
    shown: list[Match] = []
    of_other_fields: list[Match] = []
    gates: list[Match] = []
    for match in ordered:
        if len(shown) == limit:
            break
        if _is_gate(match) and not gates_left:
            gates.append(match)
        elif not match.fits and not others_left:
            of_other_fields.append(match)
        else:
            shown.append(match)
            gates_left -= _is_gate(match)
            others_left -= not match.fits
    for match in of_other_fields:
        (gates if _is_gate(match) and not gates_left else shown).append(match)
        gates_left -= _is_gate(match) and bool(gates_left)
    gates.sort(key=ordered.index)
    return sorted([*shown, *gates][:limit], key=ordered.index)


def _is_gate(match: Match) -> bool:
    return match.evidence.entry_type is not EntryType.FAILURE_SOLUTION


def _copies_last(ordered: list[Match], limit: int) -> list[Match]:
    """Return the matches, rivals together, those behind all others whose resolution repeats that of one before it.

    Looked at up to where `limit` are found that no quota keeps out: what comes after them is not shown.
    """
    copies = _Copies(ordered)
    told = _rivals_together(ordered)
    first: list[Match] = []
    repeated: list[Match] = []
    sure = 0
    for place, match in enumerate(told):
        if sure == limit:
            return [*first, *told[place:], *repeated]
        if match in copies:
            repeated.append(match)
        else:
            first.append(match)
            sure += match.fits and not _is_gate(match) and match.evidence.words.source is None
    return [*first, *repeated]


class _Copies:
    """Which of some matches, the strongest first, repeat the resolution of one before them, be that a copy too.

    Of rivals in nearly the same words the best two stand: where they differ, in a number or a denial, one tells of the
    other. What one is depends on the stronger ones alone, and not on what those are: whoever becomes stronger makes
    copies of others, but nobody stands apart for it, and so it loses no place.
    """

    def __init__(self, ordered: Sequence[Match]) -> None:
        self._ordered = ordered
        self._places = {match.evidence.pattern_id: place for place, match in enumerate(ordered)}
        self._words: list[Counter[int]] = []

    def __contains__(self, match: Match) -> bool:
        place = self._places[match.evidence.pattern_id]
        for other in self._ordered[len(self._words) : place + 1]:
            self._words.append(term_counts(texts.resolution(other.evidence.words)[:_COMPARED]))
        repeated = {
            stronger.evidence.pattern_id
            for stronger, words in zip(self._ordered[:place], self._words, strict=False)
            if shared(self._words[place], words) >= COPY
        }
        return len(repeated) > 1 or not repeated <= set(match.evidence.rivals)


def shared(some: Counter[int], others: Counter[int]) -> float:
    """Return which share of all the words of two texts both have, 0..1."""
    both = sum(min(times, others[term]) for term, times in some.items() if term in others)
    either = some.total() + others.total() - both
    return both / either if either else 1.0


def _order(match: Match) -> tuple[float, float, int, float, str]:
    evidence = match.evidence
    return (
        -strength(match),
        -match.score,
        -evidence.project_count,
        evidence.founded_at.timestamp(),
        str(evidence.pattern_id),
    )
