"""What redaction costs: 2,000 characters with nothing to hide, and the same with a secret in them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median, quantiles

from benchmarks.materials import texts
from benchmarks.rounds import Outcome
from knowledge.text.redaction import redact
from knowledge.text.redaction.rules import RULES
from orchestrator.observability.progress import Stages

GOAL = 50.0
_CHARACTERS = 2_000
_TEXTS = 500
_ROUNDS = 5


def measure(progress: Stages) -> list[Outcome]:
    """Return the microseconds a text takes; beside it the same hints looked for by Python's own expressions."""
    progress.stage("Redacting")
    source = "\n".join(islice(texts(), 8_000))
    plain = [source[start : start + _CHARACTERS] for start in range(0, _CHARACTERS * _TEXTS, _CHARACTERS)]
    secret = "gh" + "p_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
    planted = [f"{text[:1000]} {secret} {text[1000 : _CHARACTERS - len(secret) - 2]}" for text in plain]
    hints = [re.compile(rule.hint) for rule in RULES]

    def by_hand(text: str) -> None:
        told = text.encode()
        for hint in hints:
            hint.search(told)

    raw = _microseconds(by_hand, plain[:100], rounds=1)
    return [
        _outcome("redact 2,000 characters, µs p50", _microseconds(redact, plain, rounds=_ROUNDS), raw),
        _outcome("the same with a token in them, µs p50", _microseconds(redact, planted, rounds=_ROUNDS), raw),
    ]


def _microseconds(work: Callable[[str], object], told: Sequence[str], *, rounds: int) -> list[float]:
    work(told[0])
    taken = []
    for _ in range(rounds):
        for text in told:
            began = time.perf_counter()
            work(text)
            taken.append((time.perf_counter() - began) * 1e6)
    return taken


def _outcome(name: str, ours: list[float], raw: list[float]) -> Outcome:
    return Outcome(
        name=name,
        ratio=median(ours),
        goal=GOAL,
        at_most=True,
        ours=f"{median(ours):.0f} µs",
        raw=f"{median(raw):.0f} µs",
        note=f"p95 {quantiles(ours, n=20)[-1]:.0f} µs; raw = the hints of all {len(RULES)} rules by Python's `re`",
    )
