"""What logs say, counted: against a log of 30,000 lines whose truth is known as it is written."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, time
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from hardwon.errors import InvalidInput
from hardwon.models.documents import PassageKind, Severity
from hardwon.models.log_query import Group, LineFilter, LogQuery
from hardwon.text.pluralize import plain_count_of
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.documents.service import Documents
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromCaseEvidence
from tests.conftest import Opens
from tests.support.answering import quotes_line_with
from tests.support.cases import each_case, over, read_sample
from tests.support.clients import client_of, http_of
from tests.support.documents import ADMIN, WrittenLog, add, readable, write_log
from tests.support.openai_server import OpenAIServer
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP
LINES = 30_000


def _when(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


async def facts(documents: Documents, question: str, knowledge: Knowledge) -> list[str]:
    found = await documents.evidence.facts(question, await readable(knowledge, "case", "1"))
    assert all(passage.kind is PassageKind.COMPUTED for passage in found.passages)
    return [passage.text for passage in found.passages]


async def _check_counts(knowledge: Knowledge, written: WrittenLog) -> None:
    told = "\n".join(await facts(knowledge.documents, "How many entries of each severity are there?", knowledge))
    assert f"server.log: {len(written.lines)} lines." in told
    for name, number in written.severities.items():
        assert (f"{number} {name} entries." if name else f"{number} lines without a severity.") in told
    first, last = min(written.first.values()), max(written.last.values())
    assert f"First entry {_when(first)}, last entry {_when(last)}." in told
    for name in ("ERROR", "WARN", "CRITICAL", "INFO"):
        text = (await facts(knowledge.documents, f"How many {name} entries, and when did they begin?", knowledge))[-1]
        assert f"{written.severities[name]} {name} entries." in text
    for path, number in written.terms.items():
        text = (await facts(knowledge.documents, f"How often does '{path}' occur?", knowledge))[0]
        assert text.startswith(f"server.log: {number} lines with {path!r}.")


async def _check_lines(knowledge: Knowledge, written: WrittenLog) -> None:
    for number in (1, 42, LINES // 2, len(written.lines)):
        text = (await facts(knowledge.documents, f"What's on line {number} of the log?", knowledge))[0]
        shown = dict(line[2:].split(": ", 1) for line in text.split("\n"))
        assert shown[str(number)] == written.lines[number - 1]
        assert len(shown) == min(number + 2, len(written.lines)) - max(number - 2, 1) + 1
    beyond = await facts(knowledge.documents, f"What is on line {len(written.lines) + 1}?", knowledge)
    assert beyond == [f"server.log has {len(written.lines)} lines; there is no line {len(written.lines) + 1}."]


async def _check_selected(knowledge: Knowledge, written: WrittenLog) -> None:
    logs, scope = knowledge.documents.evidence.logs, await readable(knowledge, "case", "1")
    (log,) = [each.document_id for each in await knowledge.documents.quotes.documents(scope)]
    total, found = await logs.select(log, scope, LineFilter(severities=(Severity.CRITICAL,)), limit=10**6)
    expected = [(n, line) for n, line in enumerate(written.lines, 1) if " CRITICAL " in line]
    assert [(line.line, line.text) for line in found] == expected
    assert total == len(expected) == written.severities["CRITICAL"]
    since = written.first["CRITICAL"]
    only = LineFilter(severities=(Severity.ERROR,), since=since, until=since)
    total, _ = await logs.select(log, scope, only, limit=1)
    assert total == sum(line.startswith(_when(since)) and " ERROR " in line for line in written.lines)


@pytest.mark.long
async def test_counts_times_lines_and_listings_of_a_long_log_are_exact(knowledge: Knowledge) -> None:
    """A0-48, A0-49, A0-50, A0-47: more lines than any answer, page or batch holds."""
    written = write_log(LINES, random.Random(3))
    document = await add(knowledge, "server.log", written.text.encode(), "case", "1")
    assert document.lines == LINES
    await _check_counts(knowledge, written)
    await _check_lines(knowledge, written)
    await _check_selected(knowledge, written)


MIDNIGHTS = read_sample("log_evidence_midnights.txt").encode()


@pytest.mark.long
@each_case
async def test_entries_of_a_time_are_counted_to_its_ends(knowledge: Knowledge, when: str, entries: int) -> None:
    """A0-48: a day is all of it, and nothing of the next."""
    await add(knowledge, "server.log", MIDNIGHTS, "case", "1")
    told = await facts(knowledge.documents, f"How many ERROR entries were there {when}?", knowledge)
    assert told[0].startswith(f"server.log: {plain_count_of(entries, 'ERROR entry')} ")


OTHER_WORDS = ": other wordings are not counted"
VISITS = b"""10.0.0.4 - - [03/May/2026:08:00:03 +0000] "GET /api/orders HTTP/1.1" 500 1113
10.0.0.40 - - [03/May/2026:08:00:05 +0000] "POST /api/orders HTTP/1.1" 200 500
10.0.0.4 - - [03/May/2026:08:00:07 +0000] "POST /login HTTP/1.1" 404 80
10.0.0.7 - - [03/May/2026:08:00:09 +0000] "GET /api/orders HTTP/1.1" 200 15005
"""


GATEWAY = (
    VISITS
    + b'10.0.0.5 - - [03/May/2026:08:00:19 +0000] "GET /api/orders HTTP/1.1" 502 15005\n'
    + b'10.0.0.5 - - [03/May/2026:08:00:20 +0000] "GET /api/orders HTTP/1.1" 404\n'
)


@pytest.mark.long
async def test_what_a_question_says_of_lines_is_counted_and_each_status_told_apart(knowledge: Knowledge) -> None:
    """Neither the whole log is the answer to how many came from one address, nor are 1,500 bytes a status."""
    await add(knowledge, "access.log", GATEWAY, "case", "1")
    for question, told in (
        ("How many requests came from 10.0.0.99?", ["0 lines with '10.0.0.99'"]),
        ("How many POST requests are there?", ["2 lines with 'POST'"]),
        ("How many 5xx?", ["2 lines with status 500-599"]),
        ("How many 404 and 500 errors are there?", ["2 lines with status 404", "1 line with status 500"]),
        ("How many requests from 10.0.0.4 and 10.0.0.5?", ["2 lines with '10.0.0.4'", "2 lines with '10.0.0.5'"]),
        ("When was the last 500 in access.log?", ["1 line with status 500"]),
        ("How many requests failed?", [f"no line holds 'failed'{OTHER_WORDS}"]),
        ("How many 15005 responses?", ["2 lines with '15005'"]),
        ("How many visitors came from 10.0.0.4?", ["2 lines with '10.0.0.4'; none of these lines holds 'visitor'"]),
    ):
        found = [each.split("\n")[0] for each in await facts(knowledge.documents, question, knowledge)]
        assert found == [f"access.log: {each}." for each in told], question
    listed = (await facts(knowledge.documents, "List all 404s in access.log", knowledge))[1]
    assert [line.split(":")[0].strip() for line in listed.split("\n")[1:]] == ["3", "6"]
    (counted,) = await facts(knowledge.documents, "Which path has the most requests?", knowledge)
    assert counted.split("\n") == ["access.log: 6 lines.", "/api/orders: 5 lines.", "/login: 1 line."]


SHOP = b"""2025-10-19T14:00:00Z ERROR user=u3 [stock] query failed, will retry
2025-10-19T14:00:01Z ERROR user=u4 [cart] timeout
2025-10-19T14:00:02Z INFO user=u5 logged in
2025-10-19T14:00:03Z INFO user=u5 query done
"""


async def test_severities_of_a_log_that_names_none_are_never_told_as_none(knowledge: Knowledge) -> None:
    """A0-50: a 0 would say that all was well."""
    await add(knowledge, "plain.log", b"2025-10-19T14:32:01Z connection lost\n", "case", "1")
    nameless = "plain.log: none of its 1 line names a severity: errors cannot be distinguished from other lines."
    for question in ("How many ERROR entries are there?", "What errors are there?", "List all WARN lines"):
        assert await facts(knowledge.documents, question, knowledge) == [nameless]


async def test_the_last_lines_of_a_log_are_told(knowledge: Knowledge) -> None:
    await add(knowledge, "app.log", SHOP, "case", "1")
    (told,) = await facts(knowledge.documents, "Show the last 2 lines of app.log", knowledge)
    assert told.split("\n")[0] == "app.log: the last 2 of 4 lines:"
    assert [line.split(":")[0].strip() for line in told.split("\n")[1:]] == ["3", "4"]


async def test_a_time_of_day_alone_is_of_the_only_day_of_a_log_and_counts_nothing_where_it_has_more(
    knowledge: Knowledge,
) -> None:
    """A0-50: 7 errors of all days are no answer."""
    await add(knowledge, "server.log", MIDNIGHTS, "case", "1")
    asked = "How many ERROR entries were there between 14:00 and 14:32?"
    (told,) = await facts(knowledge.documents, asked, knowledge)
    days = "from 2025-10-18T23:00:00Z to 2025-10-21T00:00:00Z"
    assert told == f"server.log has entries of several days, {days}: a time of day needs its day."
    await add(knowledge, "server.log", b"".join(MIDNIGHTS.splitlines(keepends=True)[1:4]), "case", "1")
    (told,) = await facts(knowledge.documents, asked, knowledge)
    assert told.startswith("server.log: 0 ERROR entries since 2025-10-19T14:00:00Z until 2025-10-19T14:32:00Z.")


@each_case
async def test_a_line_that_an_answer_tells_of_is_cited_by_its_own_number_and_time(
    knowledge: Knowledge, question: str
) -> None:
    """A0-48, A0-51: the lines of what was counted are none of the log's."""
    lines = [f"2025-10-19T14:{m:02}:00Z {'CRITICAL disk' if m % 4 == 0 else 'INFO ok'} {m}" for m in range(20)]
    await add(knowledge, "server.log", "\n".join(lines).encode(), "case", "1")
    answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", question)
    of_lines = [each for each in answer.citations if any(line in each.quote for line in lines)]
    assert len(of_lines) >= 2
    for cited in of_lines:
        number, minute = cited.line_start or 0, (cited.line_start or 0) - 1
        assert cited.quote.endswith(f"{number}: {lines[minute]}")
        assert (cited.line_end, cited.timestamp) == (number, datetime(2025, 10, 19, 14, minute, tzinfo=UTC))
    assert all((each.line_end or 0) <= len(lines) for each in answer.citations)


ZERO = b"""2025-10-19T14:00:00Z INFO started
0001-01-01T00:00:00Z ERROR job has no start time
2025-10-19T14:00:05Z ERROR pool exhausted until 9999-12-31T23:59:59.999999Z
9999-12-31T23:59:59.999999Z INFO never
"""


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_line_without_a_real_time_is_counted_and_breaks_nothing(knowledge: Knowledge) -> None:
    """What programs write where there is no time is, to Postgres, a time without an end; a version before stored it."""
    await add(knowledge, "server.log", ZERO, "case", "1")
    for endless in (None, "-infinity", "infinity"):
        async with transaction(knowledge.engine) as connection:
            for change in ("kb_lines SET ts = {} WHERE line IN (2, 4)", "kb_chunks SET ts = {0}, until = {0}"):
                when = "CAST(CAST(:endless AS text) AS timestamptz)"
                await connection.execute(sa.text(f"UPDATE {change.format(when)}"), {"endless": endless})
        counted = (await facts(knowledge.documents, "How many entries of each severity are there?", knowledge))[0]
        assert "2 ERROR entries." in counted
        assert "First entry 2025-10-19T14:00:00Z, last entry 2025-10-19T14:00:05Z." in counted
        listed = (await facts(knowledge.documents, "Show me all ERROR entries with timestamps", knowledge))[1]
        assert [line.split(": ")[0] for line in listed.split("\n")[1:]] == ["  2", "  3"]
        assert (await knowledge.store_upkeep.rebuild()).passages == len(ZERO.splitlines())
        assert (await knowledge.kb.search("pool exhausted", kb="case", scope_id="1")).passages


async def test_lines_without_times_are_never_counted_as_none_of_a_time(knowledge: Knowledge) -> None:
    """A0-48: nothing was counted, and a 0 would say that all was well."""
    await add(knowledge, "server.log", b"ERROR one\nERROR two\n", "case", "1")
    for question in ("How many ERROR entries since 2025-10-19?", "Show me all lines on 2025-10-19"):
        told = await facts(knowledge.documents, question, knowledge)
        assert told == ["server.log: none of its 2 lines has a readable timestamp; they cannot be selected by time."]
    assert (await facts(knowledge.documents, "How many ERROR entries?", knowledge))[-1].startswith(
        "server.log: 2 ERROR"
    )


ZONED = "\n".join(f"2025-11-04T08:{m:02}:13.577+01:00 {'ERROR' if m % 5 == 0 else 'INFO'} job {m}" for m in range(60))


async def test_a_time_without_a_zone_is_one_of_the_logs_own(knowledge: Knowledge) -> None:
    """What stood between 8:15 and 8:30 in the lines was told as 0, for certain."""
    await add(knowledge, "worker.log", ZONED.encode(), "case", "1")
    for question, told in (
        ("How many errors between 08:15 and 08:30?", "3 ERROR entries since 2025-11-04T08:15:00+01:00"),
        ("How many ERROR entries since 07:20 UTC?", "8 ERROR entries since 2025-11-04T08:20:00+01:00"),
        ("How many errors on 2025-11-04?", "12 ERROR entries since 2025-11-04T00:00:00+01:00"),
    ):
        counted = (await facts(knowledge.documents, question, knowledge))[0]
        assert counted.startswith(f"worker.log: {told}"), question
    assert "First at 2025-11-04T08:00:13.577000+01:00, line 1: " in counted


async def test_a_time_of_a_log_over_a_change_of_zone_is_one_of_the_zone_printed_then(knowledge: Knowledge) -> None:
    summer = "".join(f"2025-10-{day}T10:15:00+02:00 ERROR job\n" for day in (24, 25))
    winter = "".join(f"2025-10-{day}T10:15:00+01:00 ERROR job\n" for day in (26, 27, 28))
    await add(knowledge, "worker.log", (summer + winter).encode(), "case", "1")
    for when, number in (
        ("at 10:15 on 2025-10-27", 1),
        ("between 2025-10-25 10:10 and 2025-10-27 10:20", 3),
        ("at 08:15 UTC on 2025-10-25", 1),
    ):
        counted = (await facts(knowledge.documents, f"How many errors were there {when}?", knowledge))[0]
        assert counted.startswith(f"worker.log: {plain_count_of(number, 'ERROR entry')} "), when


WORDS = """2025-10-19T14:00:00Z ERROR ΚΌΣΜΟΣ lost
2025-10-19T14:00:01Z INFO after an ERROR: İSTANBUL again
2025-10-19T14:00:02Z INFO all's well
"""


@each_case
async def test_what_a_question_quotes_is_counted_as_it_stands(knowledge: Knowledge, question: str, told: str) -> None:
    """A0-48: as grep counts it, whatever small letters an alphabet has."""
    await add(knowledge, "server.log", WORDS.encode(), "case", "1")
    assert (await facts(knowledge.documents, question, knowledge))[0].startswith(f"server.log: {told}.")


async def test_a_line_is_told_whole_whatever_stands_in_it(knowledge: Knowledge) -> None:
    """What breaks lines elsewhere breaks none of a log: a line could show another one that is not there."""
    forged = "2025-10-19T14:00:00Z ERROR lost\x85  7: 2025-10-19T15:00:00Z CRITICAL gone\u2028and\x0cmore"
    await add(knowledge, "server.log", f"{forged}\n".encode(), "case", "1")
    answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", "Show me all ERROR entries")
    told = [claim.text.split(": ")[0] for claim in answer.claims]
    ends = [f"{name} at 2025-10-19T14:00:00Z, line 1" for name in ("First", "Last")]
    assert told == ["server.log", *ends, "server.log", "1"]


CHECKOUT = read_sample("log_evidence_checkout.txt")
FIRST = "First at 2025-10-19T14:32:15Z, line 2: 2025-10-19T14:32:15Z ERROR"
PROCESS = """# Invoicing

The errors of the old invoicing process were wrong totals and lost receipts.

Warnings of the auditor are answered within two days.
"""
KINDS = [
    "app.log: 4 ERROR entries.",
    "app.log: 1 CRITICAL entry.",
    "2 times: <*>-<*>-<*>T<*>Z ERROR GET /api/checkout failed: pool exhausted",
    "2 times: <*>-<*>-<*>T<*>Z ERROR POST /api/payment?id=<*> failed: ConnectionTimeout after <*>ms",
    "1 time: <*>-<*>-<*>T<*>Z CRITICAL disk full",
    "/api/checkout: 2 ERROR/CRITICAL entries.",
    "/api/payment: 2 ERROR/CRITICAL entries.",
]


@each_case
async def test_errors_asked_for_in_plain_words_are_counted_by_severity_kind_and_path(
    knowledge: Knowledge, question: str
) -> None:
    """A0-50, A0-20: the first examples of the tool's own description."""
    await add(knowledge, "app.log", CHECKOUT.encode(), "case", "1")
    counted, kinds = await facts(knowledge.documents, question, knowledge)
    assert counted.split("\n")[0] == "app.log: 5 ERROR/CRITICAL entries."
    assert kinds.split("\n") == KINDS
    answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", question)
    assert {"app.log: 5 ERROR/CRITICAL entries.", *KINDS} <= {claim.text for claim in answer.claims}


@each_case
async def test_first_and_last_of_errors_are_theirs_and_not_the_logs(
    knowledge: Knowledge, question: str, told: str, last: int
) -> None:
    """A0-50: a log begins before what goes wrong in it."""
    await add(knowledge, "app.log", CHECKOUT.encode(), "case", "1")
    counted = (await facts(knowledge.documents, question, knowledge))[0]
    lines = counted.split("\n")
    assert lines[0] == f"app.log: {told}."
    assert lines[1].startswith(FIRST)
    assert f", line {last}: " in lines[2]


@pytest.mark.long
@over("beside, text", [("config.yaml", "server:\n  port: 80\n"), ("process.md", PROCESS)])
async def test_what_is_beside_a_log_does_not_keep_its_errors_from_being_counted(
    knowledge: Knowledge, beside: str, text: str
) -> None:
    """A0-50: settings have no errors, and paths that have some are those of a log."""
    await add(knowledge, "app.log", CHECKOUT.encode(), "case", "1")
    await add(knowledge, beside, text.encode(), "case", "1")
    counted, kinds = await facts(knowledge.documents, "Which API endpoints have errors?", knowledge)
    assert counted.split("\n")[0] == "app.log: 5 ERROR/CRITICAL entries."
    assert kinds.split("\n") == KINDS


PAYMENTS = "\n".join(
    [
        *(f"2025-10-19T14:{m:02}:00Z INFO POST /api/payment paid in {m} ms" for m in range(38)),
        *(f"2025-10-19T14:{m}:00Z INFO POST /api/payment tried again after ERR-4521" for m in (38, 39)),
        *(f"2025-10-19T15:0{m}:00Z ERROR POST /api/payment failed: ERR-4521" for m in range(2)),
        *(f"2025-10-19T15:0{m}:00Z ERROR POST /api/payment timed out" for m in (2, 3)),
        *(f"2025-10-19T15:1{m}:00Z WARN POST /api/payment slow" for m in range(2)),
        "2025-10-19T15:30:00Z ERROR POST /api/cart failed: ERR-77",
        "2025-10-19T15:31:00Z CRITICAL POST /api/cart gone",
        "2025-10-19T15:32:00Z INFO error-handler of /api/payment started, said 'no errors'",
    ]
)


@pytest.mark.long
@each_case
async def test_errors_asked_for_in_plain_words_are_counted_together_with_what_is_named_beside_them(
    knowledge: Knowledge, question: str, told: str
) -> None:
    """A0-50: of 47 lines with the path, 4 tell of an error, and all of them were the answer."""
    await add(knowledge, "pay.log", PAYMENTS.encode(), "case", "1")
    assert (await facts(knowledge.documents, question, knowledge))[0].split("\n")[0] == f"pay.log: {told}."


async def test_errors_on_a_path_are_counted_of_each_log_and_beside_documents_too(knowledge: Knowledge) -> None:
    """A0-50."""
    await add(knowledge, "pay.log", PAYMENTS.encode(), "case", "1")
    await add(knowledge, "two.log", "\n".join(PAYMENTS.split("\n")[39:42]).encode(), "case", "1")
    await add(knowledge, "handbook.md", HANDBOOK.encode(), "case", "1")
    found = await facts(knowledge.documents, "How many errors are on /api/payment?", knowledge)
    counted = [each.split("\n")[0] for each in found]
    assert "pay.log: 4 ERROR/CRITICAL entries with '/api/payment'." in counted
    assert "two.log: 2 ERROR entries with '/api/payment'." in counted
    assert not any("lines" in each for each in counted)


@each_case
async def test_a_follow_up_about_a_log_is_counted_of_what_was_spoken_of(
    knowledge: Knowledge, before: str, question: str, told: str
) -> None:
    """A0-84: the log began before its errors did."""
    await add(knowledge, "app.log", CHECKOUT.encode(), "case", "1")
    talk = [{"role": "user", "content": before}, {"role": "assistant", "content": "Five."}]
    answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN)("1", question, conversation_context=talk)
    assert told in [line.split(" [")[0] for line in answer["answer"].split("\n")]
    assert answer["searched"] == [f"{before}\n{question}"]


DATABASE = "".join(f"2025-10-19T14:{m:02}:00Z ERROR database refused connection {m}\n" for m in range(10))


@each_case
async def test_a_log_beside_documents_leaves_them_their_questions(
    knowledge: Knowledge, question: str, sentence: str
) -> None:
    await add(knowledge, "app.log", DATABASE.encode(), "case", "1")
    await add(knowledge, "process.md", PROCESS.encode(), "case", "1")
    assert await facts(knowledge.documents, question, knowledge) == []
    answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", question)
    assert any(sentence in claim.text for claim in answer.claims)
    assert not any("entries" in claim.text for claim in answer.claims)


@over(
    "question, told",
    [
        ("How many kafka errors are in app.log?", f"no line holds 'kafka'{OTHER_WORDS}"),
        ("What errors in app.log from kafka?", f"no line holds 'kafka'{OTHER_WORDS}"),
        ("What errors are from app.log?", "10 ERROR entries"),
        ("When did the database errors start?", "10 ERROR entries with 'database'"),
    ],
)
async def test_errors_of_what_a_log_beside_documents_does_not_hold_are_not_counted_as_others(
    knowledge: Knowledge, question: str, told: str
) -> None:
    await add(knowledge, "app.log", DATABASE.encode(), "case", "1")
    await add(knowledge, "process.md", PROCESS.encode(), "case", "1")
    first = (await facts(knowledge.documents, question, knowledge))[0]
    assert first.split("\n")[0] == f"app.log: {told}."


HANDBOOK = read_sample("log_evidence_handbook.txt")


@pytest.mark.long
@each_case
async def test_a_log_beside_documents_counts_nothing_that_it_may_not_be_asked(
    knowledge: Knowledge, question: str
) -> None:
    """Whatever counted or asked for a time was answered by the overview of the log, or by a 0 of it."""
    await add(knowledge, "app.log", DATABASE.replace("2025", "2023").encode(), "case", "1")
    await add(knowledge, "untimed.log", b"ERROR one\n", "case", "1")
    await add(knowledge, "handbook.md", HANDBOOK.encode(), "case", "1")
    assert await facts(knowledge.documents, question, knowledge) == []


@each_case
async def test_a_log_beside_documents_tells_what_is_counted_or_listed_of_it(
    knowledge: Knowledge, question: str, told: str
) -> None:
    await add(knowledge, "app.log", DATABASE.encode(), "case", "1")
    await add(knowledge, "process.md", PROCESS.encode(), "case", "1")
    first = (await facts(knowledge.documents, question, knowledge))[0]
    assert first.split("\n")[0] == f"app.log: {told}."


async def test_a_value_of_a_configuration_has_its_line(knowledge: Knowledge) -> None:
    """A0-51, A0-48."""
    config = "# settings\nserver:\n  port: 80\ndatabase:\n  timeout: 30\n  pool: 40\n"
    await add(knowledge, "config.yaml", config.encode(), "case", "1")
    asked = await knowledge.kb.search("What's the database timeout configured in config.yaml?", kb="case", scope_id="1")
    best = asked.passages[0]
    assert "timeout: 30" in best.text
    assert (best.line_start or 0) <= 5 <= (best.line_end or 0)
    told = await facts(knowledge.documents, "What is on line 5 of config.yaml?", knowledge)
    assert ">   5:   timeout: 30".replace(">   ", "> ") in told[0]


def calls_with(arguments: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return an endpoint that calls the tool of logs with these arguments, and quotes the first line when it writes."""

    def converses(asked: dict[str, Any]) -> dict[str, Any]:
        if "tools" in asked:
            function = {"name": "query_logs", "arguments": arguments}
            return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        return {"content": quotes_line_with("app.log: ")("", asked["messages"][-1]["content"])}

    return converses


@pytest.mark.long
@each_case
async def test_a_model_plans_what_is_counted_and_plain_words_do_where_its_plan_is_none(
    opens: Opens, question: str, arguments: str, told: str
) -> None:
    with OpenAIServer(converses=calls_with(arguments)) as server:
        model: dict[str, Any] = {
            "synthesis_model": "m",
            "synthesis_base_url": server.base_url,
            "synthesis_api_key": SecretStr(server.key),
        }
        async with opens(**model) as knowledge:
            await add(knowledge, "app.log", CHECKOUT.encode(), "case", "1")
            answer = await AnswerFromCaseEvidence(knowledge.answering, ADMIN).answer("1", question)
            assert [claim.text for claim in answer.claims] == [told]
            (asked,) = [chat for chat in server.chats if "tools" in chat]
            assert [tool["function"]["name"] for tool in asked["tools"]] == ["query_logs"]


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_plan_that_is_given_is_answered_whatever_the_question_says(knowledge: Knowledge) -> None:
    """Over HTTP, too: what cannot be asked is refused by its name."""
    await add(knowledge, "app.log", CHECKOUT.encode(), "case", "1")
    asked = LogQuery(terms=("/api/checkout",), since=time(14, 45), group_by=(Group.PATH,))
    async with client_of(knowledge) as client:
        told = await client.answers.ask_base("case", "1", "What of the checkout?", logs=asked)
        expected = "app.log: 1 line with '/api/checkout' since 2025-10-19T14:45:00Z."
        assert expected in [line.split(" [")[0] for line in told["answer"].split("\n")]
        other = await client.answers.ask_base("case", "1", "What of the checkout?", logs=LogQuery(lines=(6,)))
        assert "CRITICAL disk full" in other["answer"]
        with pytest.raises(InvalidInput, match=r"there is no document other\.log here"):
            await client.answers.ask_base("case", "1", "What of it?", logs=LogQuery(documents=("other.log",)))
    async with http_of(knowledge) as web:
        response = await web.post("/api/kb/case/1/ask", json={"question": "What?", "logs": {"top": 0}})
        assert response.status_code == 422
        assert "top" in response.text
