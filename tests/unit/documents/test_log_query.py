"""The query plan of logs: read from plain words, from a model's tool call, and validated."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest

from hardwon.errors import ChatUnavailable, InvalidInput
from hardwon.models.documents import Severity
from hardwon.models.log_query import Group, LogQuery, Order, instant, log_query_json, read_log_query
from knowledge.documents.answering.strategies import words_for_logs
from knowledge.documents.llm import ChatReply
from knowledge.documents.logs.executor import QUERY_LOGS, plan_by_model
from knowledge.documents.logs.questions import addresses_logs, may_ask_logs, parse_log_question
from tests.support.answering import ScriptedModel, call
from tests.support.cases import each_case, over

ERRORS = (Severity.ERROR, Severity.CRITICAL)
GROUPED = tuple(Group)
DAY = date(2025, 10, 19)
TICK = datetime.resolution


def plan(**fields: Any) -> LogQuery:
    return LogQuery(**fields)


@over(
    "question, expected",
    [
        ("What errors are in app.log?", plan(documents=("app.log",), severities=ERRORS, group_by=GROUPED)),
        ("Show me all CRITICAL entries with timestamps", plan(severities=(Severity.CRITICAL,), listed=True)),
        ("What's on line 42 of the log?", plan(lines=(42,))),
        ("lines 10-12 of app.log", plan(documents=("app.log",), lines=(10, 11, 12))),
        ("When did payment errors start?", plan(severities=ERRORS, words=("payment",))),
        ("Which API endpoints have errors?", plan(severities=ERRORS, group_by=GROUPED)),
        ("What's the first and last error timestamp?", plan(severities=ERRORS)),
        ("How many ERROR entries are there?", plan(severities=(Severity.ERROR,))),
        ("How many lines mention 'timed out' and ERR-4521?", plan(terms=("timed out", "ERR-4521"), any_term=True)),
        ("How many 404s and 5xx are there?", plan(statuses=("404", "5xx"))),
        ("How many server errors?", plan(statuses=("5xx",))),
        ("Show the last 3 WARN lines", plan(severities=(Severity.WARN,), listed=True, top=3, order=Order.LAST)),
        ("What is the first line of the log?", plan(listed=True, top=1)),
        ("How many entries of each severity are there?", plan()),
        ("Which path has the most requests?", plan(group_by=(Group.PATH,))),
        ("Which address has the most failed passwords?", plan(words=("failed", "password"), field="address")),
        ("How many errors per host?", plan(severities=ERRORS, field="host")),
        ("top 3 users", plan(field="user", top=3)),
        ("Which user has the most errors?", plan(severities=ERRORS, field="user")),
        ("Which 3 IPs sent most requests?", plan(field="address", top=3)),
        ("How many requests by status code?", plan(field="status")),
        ("How many ERROR entries per hour?", plan(severities=(Severity.ERROR,), field="hour")),
        ("How many timeouts per tenant_id?", plan(words=("timeout",), field="tenant_id")),
        ("Which service logs the most warnings?", plan(severities=(Severity.WARN,), field="program")),
        ("How many different users are there?", plan(field="user")),
        ("What happened on 2025-10-19?", plan(since=DAY, until=DAY, listed=True)),
        ("How many lines between 10:00 and 11:00?", plan(since=time(10), until=time(11))),
        ("How many lines since 9:05 UTC?", plan(since=time(9, 5, tzinfo=UTC))),
        ("How many lines after 2025-10-19?", plan(since=DAY)),
        ("How many lines before 2025-10-19?", plan(until=datetime(2025, 10, 19) - TICK)),  # noqa: DTZ001
        ("How many lines at 14:32?", plan(since=time(14, 32), until=time(14, 32, 59, 999999))),
        ("How many lines at 23:59:59?", plan(since=time(23, 59, 59), until=time(23, 59, 59, 999999))),
        (
            "How many lines from 10:00 to 11:00 on 2025-10-19?",
            plan(since=datetime(2025, 10, 19, 10), until=datetime(2025, 10, 19, 11)),  # noqa: DTZ001
        ),
    ],
)
def test_a_plain_question_has_a_plan(question: str, expected: LogQuery) -> None:
    """A0-48, A0-49, A0-50."""
    assert parse_log_question(question, {"app.log"}) == expected
    assert may_ask_logs(question)


@each_case
def test_a_question_with_a_condition_that_no_plan_holds_has_none(question: str) -> None:
    """A count without the condition would be told for certain, and wrong."""
    assert parse_log_question(question) is None


def test_beside_documents_only_what_names_lines_of_a_log_has_a_plan() -> None:
    assert parse_log_question("How many vacations do employees have?", addressed=False) is None
    assert parse_log_question("What errors were there?", addressed=False) is None
    assert parse_log_question("How many vacations do employees have?") == plan(words=("vacation", "employee"))
    most = plan(words=("failed", "password"), field="address")
    assert parse_log_question("Which address has the most failed passwords?", addressed=False) == most
    assert parse_log_question("Which host has the most memory?", addressed=False) is None
    assert parse_log_question("When did the errors start?", addressed=False) == plan(severities=ERRORS)
    assert addresses_logs("Show me all CRITICAL entries")
    assert not addresses_logs("What errors were there?")


def test_a_follow_up_is_read_by_its_own_words_where_they_name_what_is_meant() -> None:
    """A0-84."""
    whole = "What errors in the log?\nWhen did they start?"
    assert words_for_logs("When did they start?", whole) == whole
    assert words_for_logs("How many of them are CRITICAL?", whole) == "How many of them are CRITICAL?"


@each_case
def test_a_plan_that_no_log_can_be_asked_is_refused_by_its_field(told: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_log_query(told)
    assert refused.value.field == field


def test_a_plan_is_the_same_as_json() -> None:
    every = plan(
        documents=("app.log",),
        severities=ERRORS,
        terms=("x",),
        since=DAY,
        until=datetime(2025, 10, 20, 1, tzinfo=UTC),
        group_by=GROUPED,
        top=3,
        order=Order.LAST,
    )
    assert read_log_query(json.dumps(log_query_json(every))) == every
    assert read_log_query('{"terms": null, "until": "14:32"}') == plan(until=time(14, 32))


def test_a_moment_without_a_zone_is_one_of_the_logs() -> None:
    zone = timezone(timedelta(hours=1))
    assert instant(time(8), zone, day=DAY) == datetime(2025, 10, 19, 7, tzinfo=UTC)
    assert instant(DAY, zone, end=True) == datetime(2025, 10, 19, 23, tzinfo=UTC) - TICK
    assert instant(time(8, tzinfo=UTC), zone, day=DAY) == datetime(2025, 10, 19, 8, tzinfo=UTC)


QUESTION = "Which failures of the till on 2025-10-19 were fatal in app.log?"


async def planned(*said: ChatReply | ChatUnavailable) -> LogQuery | None:
    return await plan_by_model(ScriptedModel(list(said)), QUESTION, {"app.log"})


async def test_a_model_fills_the_plan_by_a_tool_call() -> None:
    arguments: dict[str, Any] = {
        "documents": ["app.log"],
        "severities": ["CRITICAL"],
        "words": ["till"],
        "since": "2025-10-19",
    }
    model = ScriptedModel([ChatReply(calls=(call("query_logs", **arguments),))])
    found = await plan_by_model(model, QUESTION, {"app.log"})
    assert found == plan(documents=("app.log",), severities=(Severity.CRITICAL,), words=("till",), since=DAY)
    ((messages, asking),) = model.asked
    assert asking.tools == (QUERY_LOGS,)
    assert QUESTION in messages[-1].content


@each_case
async def test_a_plan_of_a_model_that_is_not_of_the_question_is_not_taken(arguments: dict[str, Any]) -> None:
    assert await planned(ChatReply(calls=(call("query_logs", **arguments),))) is None


async def test_a_model_that_gives_no_plan_is_done_without() -> None:
    assert await planned(ChatReply(text="There are 7.")) is None
    assert await planned(ChatUnavailable("down")) is None
    assert await planned(ChatReply(calls=(call("delete_logs"),))) is None
