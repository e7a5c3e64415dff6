"""Counts by what lines name, of logs in several forms, against a plain count; and as soon as a log is stored."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from hardwon.models.documents import DocumentStatus
from knowledge.documents.models import AnswerStatus, Profile, Query
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromCaseEvidence
from tests.support.cases import over
from tests.support.documents import ADMIN, put, readable
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP
DEFAULT_PROFILE = Profile(name="test", system_prompt="")
BEGIN = datetime(2025, 10, 19, 14, tzinfo=UTC)
USERS = ["root", "admin", "bob", "eve", "mallory", "svc-backup"]
LEVELS = ["INFO"] * 6 + ["WARN", "ERROR", "ERROR", "CRITICAL"]


def sshd(at: datetime, rng: random.Random) -> str:
    head = f"{at:%b %d %H:%M:%S} web-{rng.randrange(4)}"
    user, address = rng.choice(USERS), f"10.0.{rng.randrange(2)}.{rng.randrange(30)} port 4{rng.randrange(999)}"
    process, invalid = rng.randrange(9999), rng.choice(["", "", "invalid user "])
    return rng.choice(
        [
            f"{head} sshd[{process}]: Failed password for {invalid}{user} from {address} ssh2",
            f"{head} sshd[{process}]: Accepted publickey for {user} from {address} ssh2",
            f"{head} CRON[{process}]: pam_unix(cron:session): session opened for user {user} by (uid=0)",
        ]
    )


def nginx(at: datetime, rng: random.Random) -> str:
    status, method = rng.choice([200, 200, 200, 404, 500, 502]), rng.choice(["GET", "POST"])
    path = f"{rng.choice(['/api/orders', '/api/cart', '/login'])}?n={rng.randrange(99)}"
    head = f"10.1.0.{rng.randrange(40)} - {rng.choice(['-', 'bob', 'eve'])} [{at:%d/%b/%Y:%H:%M:%S} +0000]"
    return f'{head} "{method} {path} HTTP/1.1" {status} {rng.randrange(9999)} "-" "curl/8.1.{rng.randrange(9)}"'


def syslog(at: datetime, rng: random.Random) -> str:
    host, program = f"db{rng.randrange(3)}.lan", rng.choice(["kernel", "postgres[88]", "systemd[1]"])
    level = rng.choice(["ERROR", "NOTICE", "started"])
    return f"{at:%Y-%m-%dT%H:%M:%S}+00:00 {host} {program}: {level}: unit {rng.randrange(9)}"


def json_lines(at: datetime, rng: random.Random) -> str:
    service, tenant = rng.choice(["cart", "pay", "mail"]), f"t-{rng.randrange(7)}"
    told = {"time": at.isoformat(), "level": rng.choice(LEVELS).lower(), "service": service, "tenant": tenant}
    return json.dumps({**told, "msg": f"call took {rng.randrange(99)} ms"})


def java(at: datetime, rng: random.Random) -> str:
    thread, logger = f"worker-{rng.randrange(5)}", rng.choice(["com.shop.Cart", "com.shop.pay.Till"])
    level = rng.choice(LEVELS[:-1])
    text = rng.choice(["java.io.IOException: broken pipe", "java.lang.IllegalStateException: closed", "all well"])
    return f"{at:%Y-%m-%d %H:%M:%S},123 [{thread}] {level} {logger} - {text}"


def text_of(line: Callable[[datetime, random.Random], str], count: int) -> str:
    rng = random.Random(46)
    return "".join(f"{line(BEGIN + timedelta(seconds=number), rng)}\n" for number in range(count))


def count(text: str, value: str, only: str = "") -> Counter[str]:
    """Return how many lines name what a pattern finds, as grep, sort and uniq would."""
    lines = [line for line in text.splitlines() if re.search(only, line)]
    return Counter(found[1] for line in lines if (found := re.search(value, line)))


async def told(knowledge: Knowledge, question: str) -> list[str]:
    found = await knowledge.documents.evidence.facts(question, await readable(knowledge, "case", "1"))
    return [line for passage in found.passages for line in passage.text.split("\n")]


QUESTIONS = [
    (sshd, "Which address has the most failed passwords?", r"from (\S+)", "Failed password"),
    (sshd, "How many failed passwords per user?", r"for (?:invalid user )?(\S+) from", "Failed password"),
    (sshd, "top 3 users", r"(?:for user|for invalid user|for) (\S+)", ""),
    (sshd, "How many lines per host?", r"^\S+ \S+ \S+ (\S+)", ""),
    (sshd, "How many entries per program?", r"(sshd|CRON)", ""),
    (nginx, "Which IP sent the most 5xx?", r"^(\S+)", r'" 5\d\d '),
    (nginx, "How many requests per status?", r'" (\d\d\d) ', ""),
    (nginx, "How many POST requests by user?", r"^\S+ - (bob|eve)", "POST"),
    (syslog, "How many errors per host?", r"^\S+ (\S+)", ": ERROR:"),
    (syslog, "Which program has the most lines?", r"lan ([a-z]+)", ""),
    (json_lines, "How many errors per service?", r'"service": "(\w+)"', '"level": "(error|critical)"'),
    (json_lines, "Which tenant has the most errors?", r'"tenant": "([\w-]+)"', '"level": "(error|critical)"'),
    (json_lines, "top 2 tenants", r'"tenant": "([\w-]+)"', ""),
    (java, "How many ERROR entries per thread?", r"\[([\w-]+)\]", " ERROR "),
    (java, "Which exception occurs most often?", r"([\w.]+Exception)", ""),
    (java, "How many warnings by class?", r"(com\.[\w.]+)", " WARN "),
    (java, "How many errors per hour?", r"^(\S+ \d\d)", " ERROR "),
]


def check(lines: list[str], truth: Counter[str], top: int | None) -> None:
    values = [line.split(": ")[0] for line in lines]
    counted = dict(
        zip(values, (int(found[1]) if (found := re.search(r": (\d+) ", line)) else -1 for line in lines), strict=True)
    )
    best = sorted(truth.items(), key=lambda each: (-each[1], each[0]))[: top or 5]
    for value, number in best:
        stamp = f"{value.replace(' ', 'T')}:00"
        assert counted.get(value, counted.get(stamp)) == number, (value, number, lines)
    head = next(line for line in lines if " different value" in line)
    assert f" {len(truth)} different " in head
    assert head.endswith(f" in {truth.total()} lines.")
    assert len(lines) - lines.index(head) - 1 - sum("without one" in line for line in lines) >= len(best)


@pytest.mark.long
@over("form", [sshd, nginx, syslog, json_lines, java])
async def test_counts_by_what_lines_name_are_those_of_a_plain_count_before_anything_is_embedded(
    knowledge: Knowledge, form: Callable[[datetime, random.Random], str]
) -> None:
    """A0-48: 100,000 lines, exact as soon as the upload ends."""
    text = text_of(form, 100_000)
    document = await put(knowledge, "server.log", text.encode(), "case", "1")
    assert document.status is DocumentStatus.PENDING
    for of, question, value, only in QUESTIONS:
        if of is form:
            lines = await told(knowledge, question)
            top = re.search(r"top (\d)", question)
            check(lines, count(text, value, only), int(top[1]) if top else None)
    answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", "How many lines mention '10'?")
    assert answer.status is AnswerStatus.ANSWERED
    held = sum(re.search(r"(?<![\w.])10(?!\w|\.\w)", line) is not None for line in text.splitlines())
    assert answer.claims[0].text.startswith(f"server.log: {held} line")


@pytest.mark.long
async def test_a_newer_log_is_counted_from_its_upload_on_and_an_older_one_until_then(knowledge: Knowledge) -> None:
    await put(knowledge, "app.log", b"2025-10-19T14:00:00Z ERROR one\n", "case", "1")
    question = "How many ERROR entries are there?"
    assert (await told(knowledge, question))[0] == "app.log: 1 ERROR entry."
    await knowledge.documents.indexing.run()
    assert (await told(knowledge, question))[0] == "app.log: 1 ERROR entry."
    await put(knowledge, "app.log", b"2025-10-19T14:00:00Z ERROR one\n2025-10-19T14:00:01Z ERROR two\n", "case", "1")
    assert (await told(knowledge, question))[0] == "app.log: 2 ERROR entries."
    answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", question)
    assert answer.claims[0].text == "app.log: 2 ERROR entries."
    await put(knowledge, "app.log", b"# Notes\n\nNo log any more.\n", "case", "1")
    await knowledge.documents.indexing.run()


async def test_a_guessed_year_is_said(knowledge: Knowledge) -> None:
    year = datetime.now(UTC).year
    line = "web-1 sshd[7]: Failed password for root from 10.0.0.7 port 22 ssh2"
    await put(knowledge, "auth.log", f"Jan  1 10:00:00 {line}\nJan  1 10:00:01 {line}\n".encode(), "case", "1")
    lines = await told(knowledge, "How many failed passwords are there?")
    assert lines[-1] == f"auth.log: its times name no year; {year} is a guess."
    assert f"auth.log: its times name no year; {year} is a guess." in await told(
        knowledge, "Give an overview of the log"
    )


@over(
    "question, first",
    [
        ("How many failed logins were there?", "auth.log: 2 lines with 'failed'; none of these lines holds 'login'."),
        ("How many failed passwords from 10.0.0.7?", "auth.log: 2 lines with '10.0.0.7' and 'failed' and 'password'."),
        ("How many disasters were there?", "auth.log: no line holds 'disaster': other wordings are not counted."),
        ("How many lines per tenant?", "auth.log: 4 lines."),
    ],
)
async def test_a_word_that_no_line_holds_is_dropped_beside_a_rarer_one_and_it_is_said(
    knowledge: Knowledge, question: str, first: str
) -> None:
    failed = "2025-10-19T10:00:00Z web-1 sshd[7]: Failed password for root from 10.0.0.7 port 22 ssh2\n"
    opened = "2025-10-19T10:00:00Z web-1 CRON[7]: session opened for user root by (uid=0)\n"
    await put(knowledge, "auth.log", f"{failed}{opened}{failed}{opened}".encode(), "case", "1")
    lines = await told(knowledge, question)
    assert lines[0] == first
    if "tenant" in question:
        assert lines[-1] == "auth.log: none of these lines names a field 'tenant'."


async def test_a_line_that_alone_names_what_a_question_names_is_found_beside_documents(knowledge: Knowledge) -> None:
    lines = [f"2025-10-19T14:00:{n:02}Z INFO order ord-{n}77 was packed by {n}" for n in range(40)]
    await put(knowledge, "shop.log", "\n".join(lines).encode(), "case", "1")
    await put(knowledge, "shop.md", b"# Shop\n\nOrders are packed by hand and sent in the evening.\n", "case", "1")
    await knowledge.documents.indexing.run()
    scope = await readable(knowledge, "case", "1")
    found = await knowledge.answering.direct.find(Query(question="Was ord-3177 packed?"), scope, DEFAULT_PROFILE)
    (line,) = [each for each in found.passages if "ord-3177" in each.text]
    assert (line.line_start, line.text) == (32, lines[31])
    assert (await knowledge.documents.quotes.visible([line], scope))[line.passage_id] == lines[31]


async def test_a_log_is_embedded_by_its_templates(knowledge: Knowledge) -> None:
    document = await put(knowledge, "auth.log", text_of(sshd, 5_000).encode(), "case", "1")
    await knowledge.documents.indexing.run()
    shown = await knowledge.documents.indexing.store.index_membership(after=None, limit=10_000)
    assert document.lines == 5_000
    assert 3 <= len(shown) <= 60
