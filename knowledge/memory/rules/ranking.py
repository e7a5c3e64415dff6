"""Selection and order of the matches to show; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from knowledge.memory.rules.arms import MIN_UPPER_BOUND, Counts
from knowledge.memory.rules.entry_profile import resolution_words
from knowledge.memory.rules.facets import MIN_FITTING
from knowledge.models import Entry, EntryType, Evidence, PointId

MIN_COPY_OVERLAP = 0.8
"""Share of common words from which a resolution is a copy of another; ours."""
UNVERIFIED_FACTOR = 0.95
"""Factor of a solution that only its agent says works. Ours; with three fields of other values it makes 0.69, which
outweighs one failure and not two: 1 of 1 times 0.69 is below 1 of 2, and above 1 of 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A live pattern that a search found by `point_id`. `score`: the raw fused score; `likeness`: in nats.

    `fit`: the factor of its fields, 0..1. `fits`: no field has another value than requested.
    `is_task_view`: the point stands for a task description. `arm`: the key of its
    resolution, with its `counts` at the question; `order`: the logarithm of its place (`rules.arms.order_score`).
    """

    evidence: Evidence
    relevance: float
    score: float
    point_id: PointId
    likeness: float
    fit: float = 1.0
    fits: bool = True
    is_task_view: bool = False
    arm: str = ""
    counts: Counts = field(default_factory=Counts)
    order: float = 0.0

    @property
    def factor(self) -> float:
        """Fit of the fields, times trust, 0..1."""
        return self.fit * _trust(self.evidence.words)

    @property
    def is_low_trust(self) -> bool:
        """True if it rests on agents' keys alone."""
        return self.evidence.words.low_trust

    @property
    def is_failing(self) -> bool:
        """True where it is known to fail: in situations like this one, or anywhere."""
        bound = min(self.counts.upper_bound, counts_of_pattern(self.evidence).upper_bound)
        return bound < MIN_UPPER_BOUND


def counts_of_pattern(evidence: Evidence) -> Counts:
    """Return a pattern's own counts, of all situations."""
    return Counts(
        successes=float(evidence.success_count), failures=float(evidence.attempt_count - evidence.success_count)
    )


def strength(match: Match) -> float:
    """Return likeness and upper bound of the success rate, as one factor, times how well the fields fit, times trust.

    The situation decides first, and no threshold cuts it off: of two that are alike, evidence decides.
    """
    return math.exp(match.order) * match.factor


def _trust(words: Entry) -> float:
    """Return an entry's trust factor: 1 with a verification or a human's gate decision, less on its agent's word."""
    return 1.0 if words.verified_by or words.entry_type is not EntryType.FAILURE_SOLUTION else UNVERIFIED_FACTOR


def rank(matches: Iterable[Match], *, limit: int) -> list[Match]:
    """Return the best `limit` matches, each pattern once, best first.

    Ties go to the higher raw score, then to more projects, then to the older pattern. Gate entries take at most two of
    five places while others fit. Near copies of an earlier resolution come after all others. Apart from the first
    place, three places are reserved for patterns of the requested fields.
    """
    return _apply_quotas(_order_matches(matches, limit), limit)


def rank_for_gate(matches: Iterable[Match], *, limit: int) -> list[Match]:
    """Return the best `limit` decisions of a gate, best first; those of other gates only after fewer than three.

    Rejections and approvals of the gate each have two of five places, one of three, while there are any. Otherwise as
    in `rank`.
    """
    everything = list(matches)
    shown = _balance_types(_order_matches((match for match in everything if match.fits), limit), limit)
    if len(shown) < min(MIN_FITTING, limit):
        left = limit - len(shown)
        shown += _balance_types(_order_matches((match for match in everything if not match.fits), left), left)
    return shown


def _order_matches(matches: Iterable[Match], limit: int) -> list[Match]:
    """Return the matches, each pattern once, best first, near copies last; each low-trust key within its quota."""
    best: dict[object, Match] = {}
    for match in matches:
        current = best.get(match.evidence.pattern_id)
        if current is None or (strength(match), match.score) > (strength(current), current.score):
            best[match.evidence.pattern_id] = match
    return _limit_sources(_move_copies_last(sorted(best.values(), key=_sort_key), limit), limit)


def _limit_sources(ordered: list[Match], limit: int) -> list[Match]:
    """Return the matches without those beyond a low-trust key's quota, even where places stay empty."""
    sources: Counter[str | None] = Counter()
    within_quota = []
    for match in ordered:
        source = match.evidence.words.source
        sources[source] += 1
        if source is None or sources[source] <= source_quota(limit):
            within_quota.append(match)
    return within_quota


def _group_rivals(ordered: list[Match]) -> list[Match]:
    """Return the matches in order, each followed by its best rival, so that both are shown together."""
    grouped: dict[object, Match] = {}
    for match in ordered:
        if match.evidence.pattern_id not in grouped:
            grouped[match.evidence.pattern_id] = match
            rivals = match.evidence.rivals
            rival = next((each for each in ordered if each.evidence.pattern_id in rivals), None) if rivals else None
            if rival is not None:
                grouped.setdefault(rival.evidence.pattern_id, rival)
    return list(grouped.values())


def _balance_types(ordered: list[Match], limit: int) -> list[Match]:
    """Return the first `limit` matches, of which neither entry type takes all while there are others."""
    share = limit - (gate_quota(limit) if limit > 1 else 0)
    counts: Counter[EntryType] = Counter()
    shown: list[Match] = []
    deferred: list[Match] = []
    for match in ordered:
        counts[match.evidence.entry_type] += 1
        (shown if counts[match.evidence.entry_type] <= share else deferred).append(match)
    return sorted([*shown[:limit], *deferred][:limit], key=ordered.index)


def gate_quota(limit: int) -> int:
    """Return the number of `limit` places for gate entries while others fit: 2 of 5, 1 of 3."""
    return max(1, limit * 2 // 5)


def source_quota(limit: int) -> int:
    """Return the number of `limit` places for entries of one low-trust key: 1 of 3, 1 of 5."""
    return max(1, limit // 3)


def _apply_quotas(ordered: list[Match], limit: int) -> list[Match]:
    """Return `limit` matches in order; those beyond a quota only fill places that are left."""
    gates_left = gate_quota(limit)
    others_left = limit - min(MIN_FITTING, limit - 1, sum(match.fits for match in ordered))
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


def _move_copies_last(ordered: list[Match], limit: int) -> list[Match]:
    """Return the matches with rivals grouped, and copies of an earlier resolution after all others.

    Stops once `limit` matches are found that no quota excludes: later ones are not shown.
    """
    copies = _CopyDetector(ordered)
    grouped = _group_rivals(ordered)
    first: list[Match] = []
    copy_matches: list[Match] = []
    sure = 0
    for place, match in enumerate(grouped):
        if sure == limit:
            return [*first, *grouped[place:], *copy_matches]
        if match in copies:
            copy_matches.append(match)
        else:
            first.append(match)
            sure += match.fits and not _is_gate(match) and match.evidence.words.source is None
    return [*first, *copy_matches]


class _CopyDetector:
    """The matches, strongest first, that repeat the resolution of a stronger one, which may be a copy itself.

    Of rivals in nearly the same words the best two are not copies: they differ in a number or a denial. The result
    depends only on the stronger matches, not on their being copies: a match that becomes stronger turns others into
    copies, but frees none from being one, and so never loses a place.
    """

    def __init__(self, ordered: Sequence[Match]) -> None:
        self._ordered = ordered
        self._places = {match.evidence.pattern_id: place for place, match in enumerate(ordered)}
        self._words: list[AbstractSet[int]] = []

    def __contains__(self, match: Match) -> bool:
        place = self._places[match.evidence.pattern_id]
        for other in self._ordered[len(self._words) : place + 1]:
            self._words.append(resolution_words(other.evidence))
        own = self._words[place]
        repeated = (
            stronger.evidence.pattern_id
            for stronger, words in zip(self._ordered[:place], self._words, strict=False)
            if word_overlap(own, words) >= MIN_COPY_OVERLAP
        )
        first = next(repeated, None)
        return first is not None and (first not in match.evidence.rivals or next(repeated, None) is not None)


def word_overlap(some: AbstractSet[int], others: AbstractSet[int]) -> float:
    """Return the share of all words of two texts that both have, 0..1; of words as `number_words` returns them."""
    both = len(some & others)
    either = len(some) + len(others) - both
    return both / either if either else 1.0


def _sort_key(match: Match) -> tuple[float, float, int, float, float, str]:
    evidence = match.evidence
    return (
        -strength(match),
        -match.score,
        -evidence.project_count,
        evidence.founded_at.timestamp(),
        evidence.words.captured_at.timestamp(),  # of one checkpoint: ids differ from store to store
        str(evidence.pattern_id),
    )
