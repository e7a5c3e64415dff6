"""Recall over the kinds of secrets in use, fitted and held out, and false alarms in real logs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from knowledge.text.redaction import redact
from tests.support.cases import each_case, load_tables
from tests.support.secrets import survives
from tests.unit.text.secret_kinds import write_all

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
LOG_LINE = re.compile(r"\d\d:\d\d:\d\d|\b(?:INFO|WARN|ERROR|DEBUG|FATAL|Exception|Caused by)\b|^\s+at |^E  |^>|:\d+: ")
"""A line of a log or a trace among the other lines of a bug report."""


@pytest.mark.long
def test_secrets_of_the_kinds_in_use_are_found() -> None:
    told: Counter[bool] = Counter()
    missed: Counter[bool] = Counter()
    kinds: Counter[str] = Counter()
    for each in write_all(seed=46):
        told[each.held_out] += 1
        if survives(each.secret, redact(each.text).text):
            missed[each.held_out] += 1
            kinds[each.kind] += 1
    recall = {held_out: 1 - missed[held_out] / told[held_out] for held_out in told}
    print(f"recall: fitted {recall[False]:.4f}, held out {recall[True]:.4f}, of {told.total()} texts")  # noqa: T201
    assert 1 - missed.total() / told.total() >= 0.97, kinds
    assert recall[True] >= 0.93, kinds


def test_each_kind_is_written_down_with_its_source_and_none_of_its_values() -> None:
    kinds = load_tables("secret_kinds")["KINDS"]
    assert len({kind["kind"] for kind in kinds}) == len(kinds) >= 190
    assert all(kind["source"].startswith("https://") for kind in kinds)
    assert [kind["kind"] for kind in kinds if redact(kind["form"]).found] == []


@each_case
def test_what_looks_like_a_secret_and_is_none_stays(line: str) -> None:
    random = Random(46)
    values = {
        "uuid": str(UUID(int=random.getrandbits(128), version=4)),
        "hex32": f"{random.getrandbits(128):032x}",
        "hex40": f"{random.getrandbits(160):040x}",
        "hex64": f"{random.getrandbits(256):064x}",
        "base64": "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=4096)),
    }
    for name, value in values.items():
        line = line.replace(f"<{name}>", value)
    assert redact(line).text is line


def _real_lines() -> Iterator[str]:
    """Yield the lines of failing tests in CI, and those of servers' logs in bug reports about Hadoop and SeaMonkey."""
    for path, chosen in (("test_failures/all_failures.jsonl", None), ("gitbugs/corpus.jsonl", LOG_LINE)):
        for record in (DATA / path).read_text(encoding="utf-8").splitlines():
            for text in filter(lambda value: isinstance(value, str), json.loads(record).values()):
                yield from (line for line in text.splitlines() if chosen is None or chosen.search(line))


def test_real_logs_have_next_to_nothing_taken_out() -> None:
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: it holds the real logs")
    lines = [line for line in dict.fromkeys(_real_lines()) if len(line.strip()) > 8]
    found = {line: hidden for line in lines if (hidden := redact(line).found)}
    print(f"false alarms: {len(found)} of {len(lines)} lines")  # noqa: T201
    assert len(lines) >= 3000
    assert len(found) <= 5 * len(lines) / 3000, Counter(kind for hidden in found.values() for kind in hidden)
