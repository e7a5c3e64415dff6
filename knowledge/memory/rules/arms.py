"""Arms: the resolutions that may be tried in a situation, and what their records say at a question; pure.

A record is one trial of an arm in a situation. At a question, the records of near situations count by how near they
are (kernel-weighted counts: Nadaraya 1964, Watson 1964) and by how few trials came after them (discounting: Garivier
and Moulines 2011). The optimistic bound of their success rate (Kaufmann, Cappe and Garivier 2012, one step) gives a
better newcomer its chance, and the likeness of the situation decides first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from hardwon.models.access import REPORTER_PREFIX
from knowledge.memory.rules.embedding_text import normalise
from knowledge.models import EntryTexts, EntryType, KnownKeys, NewEntry, PointId, TrialRecord
from knowledge.text.error_summary import error_signature
from knowledge.text.run_output import normal_diff, normal_run

TEMPERATURE = 4.0
"""Nats of likeness by which a situation's weight falls to 1/e; 3 to 6 perform alike (docs/evaluation.md)."""
HALF_LIFE = 8.0
"""Later trials of an arm nearby after which a record counts half; 5 to 10 perform alike."""
LIKENESS_WEIGHT = 0.15
"""Weight of a nat of likeness against the logarithm of a success rate; .08 to .25 perform alike."""
EXACT_LEAD = 5.0
"""Nats by which the same text as the question stands in front."""
OTHER_WEIGHT = 0.5
"""Weight at most of any other situation where one has the same text as the question."""
LOW_TRUST_WEIGHT = 0.5
"""Weight of a record that an agent's key reported, until something trusted worked with the arm nearby; ours."""
INDEPENDENT_RUNS = 2
"""Runs of coding agents that agree from which their records count in full; ours."""
MIN_UPPER_BOUND = 0.25
"""Arms whose upper bound is below it are not shown."""

_CODE = re.compile(r"(?<!`)`+([^`\n]+)`+")
_NAME = re.compile(r"[\w./@:+-]+")
_OWN_SIGN = re.compile(r"[\d./_]")
_MAX_KEYED_CHARS = 2_000
_CACHED_KEYS = 4_096


def arm_key(resolution: str, situation: str) -> str:
    """Return the key that resolutions with the same method share, as sha256 in hexadecimal.

    The method is what stands in code spans, else the normalised text; names of the case itself, which are words with a
    digit, a dot, a slash or an underscore that also stand in its situation, are left open. Our own rule.
    """
    resolution = normal_diff(resolution)
    return _arm_key(resolution[:_MAX_KEYED_CHARS], situation[:_MAX_KEYED_CHARS])  # the cache holds no long text


@lru_cache(maxsize=_CACHED_KEYS)
def _arm_key(resolution: str, situation: str) -> str:
    spans = _CODE.findall(resolution)
    method = " ; ".join(" ".join(span.split()) for span in spans) if spans else normalise(resolution)
    names = {name.strip(".:") for name in _NAME.findall(situation if spans else normalise(situation))}

    def leave_open(name: re.Match[str]) -> str:
        bare = name.group().strip(".:")
        return name.group().replace(bare, "{}") if bare in names and _OWN_SIGN.search(bare) else name.group()

    return sha256(_NAME.sub(leave_open, method).encode()).hexdigest()


def situation_key(text: str) -> str:
    """Return the key of a situation's normalised text, as sha256 in hexadecimal."""
    return sha256(normalise(normal_run(text)).encode()).hexdigest()


def known_keys(entry: NewEntry | EntryTexts) -> KnownKeys:
    """Return the keys of an entry; empty where it has no task description, and where it names no error."""
    error = ""
    if entry.entry_type is EntryType.FAILURE_SOLUTION:
        error = error_key(entry.error_message, entry.failure_description or "")
    task = entry.task_description
    return KnownKeys(task=situation_key(task) if task else "", error=error)


def error_key(error: str | None, description: str) -> str:
    """Return the key of an error's signature, as sha256 in hexadecimal; empty where none is named."""
    signature = error_signature(error, description)
    return sha256(signature.encode()).hexdigest() if signature else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Weighted successes and failures of an arm at a question."""

    successes: float = 0.0
    failures: float = 0.0

    @property
    def mean(self) -> float:
        """Mean of the Beta posterior of a uniform prior (Laplace's rule of succession)."""
        return (self.successes + 1) / (self.successes + self.failures + 2)

    @property
    def upper_bound(self) -> float:
        """The mean plus one standard deviation of the posterior, that is sqrt(m (1 - m) / (n + 3))."""
        mean = self.mean
        return mean + math.sqrt(mean * (1 - mean) / (self.successes + self.failures + 3))


def kernel(likenesses: Mapping[PointId, float], exact: Collection[PointId]) -> dict[PointId, float]:
    """Return the weight of each situation at a question, 0..1; `exact` are those with the question's own text."""
    if not likenesses:
        return {}
    best = max(likenesses.values())
    weights = {point: min(1.0, math.exp((each - best) / TEMPERATURE)) for point, each in likenesses.items()}
    if exact:
        weights = {point: 1.0 if point in exact else min(weight, OTHER_WEIGHT) for point, weight in weights.items()}
    return weights


def record_weight(record: TrialRecord, weights: Mapping[PointId, float], question: str) -> float:
    """Return the weight of a record's situation at a question whose situation key is `question`."""
    if record.situation == question:
        return 1.0
    weight = weights.get(record.point_id, 0.0)
    return weight if record.is_exact else OTHER_WEIGHT * weight


def count(records: Sequence[TrialRecord], weights: Mapping[PointId, float], question: str) -> Counts:
    """Return an arm's counts at a question, from its records in any order.

    A (project, task, run) counts once, by its latest record. Of what one agent's key reported only the first record
    counts, and less while neither a trusted record of a success is near nor a second run of a coding agent agrees.
    """
    if len(records) == 1:  # as most have
        ordered = list(records)
    else:
        ordered = sorted(_first_of_agents(_latest_of_events(records)), key=_time, reverse=True)
    worked = [each for each in ordered if each.worked and record_weight(each, weights, question) > 0]
    vouched = any(not each.low_trust for each in worked) or _count_runs(worked) >= INDEPENDENT_RUNS
    successes = failures = newer = 0.0
    for record in ordered:
        weight = record_weight(record, weights, question)
        if weight <= 0:
            continue
        trust = LOW_TRUST_WEIGHT if record.low_trust and not vouched else 1.0
        counted = weight * trust * 2 ** (-newer / HALF_LIFE)
        successes, failures = successes + counted * record.worked, failures + counted * (not record.worked)
        newer += weight * trust
    return Counts(successes=successes, failures=failures)


def _count_runs(records: Sequence[TrialRecord]) -> int:
    """Return the number of agents' runs that records are of: hardwon read them itself, no agent's key told of them."""
    return len(
        {each.reporter for each in records if each.reporter is not None and each.reporter.startswith(REPORTER_PREFIX)}
    )


def arm_counts(arm: str, records: Sequence[TrialRecord], weights: Mapping[PointId, float], question: str) -> Counts:
    """Return the counts of one arm at a question."""
    return count([record for record in records if record.arm == arm], weights, question)


def order_score(likeness: float, best: float, counts: Counts) -> float:
    """Return the logarithm of an arm's place at a question: `likeness` in nats, `best` that of the best candidate."""
    return LIKENESS_WEIGHT * (likeness - best) + math.log(counts.upper_bound)


def _time(record: TrialRecord) -> tuple[float, bool, str, str]:
    """Return the order of records, those of one moment too: the same records give the same counts to the last bit."""
    others = (record.low_trust, record.is_exact, record.event, record.reporter, record.situation)
    return (record.recorded_at.timestamp(), record.worked, str(record.point_id), str(others))


def _latest_of_events(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    latest: dict[tuple[str, str, str], TrialRecord] = {}
    alone = []
    for record in records:
        if record.event is None:
            alone.append(record)
        elif (other := latest.get(record.event)) is None or _rank(record) > _rank(other):
            latest[record.event] = record
    return [*alone, *latest.values()]


def _rank(record: TrialRecord) -> tuple[bool, tuple[float, bool, str, str]]:
    """Return the order in which records of one event are believed: trusted ones, then the latest."""
    return (not record.low_trust, _time(record))


def _first_of_agents(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    first: dict[str, TrialRecord] = {}
    for record in sorted(records, key=_time):
        if record.low_trust and record.reporter is not None:
            first.setdefault(record.reporter, record)
    return [each for each in records if not each.low_trust or each.reporter is None or first[each.reporter] is each]
