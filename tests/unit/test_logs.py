"""A library is quiet; a program that logs hears what happened, by structlog or by logging."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path

import pytest
import structlog

from hardwon.errors import EmbedderRejected, HardwonError, QuestionRejected, TextRejected, reason_of
from hardwon.event_log import get_logger
from orchestrator.cli.support.logging import configure_client_logs
from orchestrator.observability.logging import configure_logs

ROOT = Path(__file__).resolve().parents[2]


def tell_all() -> None:
    log = get_logger("knowledge.test")
    log.info("entry_captured", entry_id="1")
    log.warning("context_degraded", reason="late\nFORGED")
    log.error("request_failed", method="GET")
    try:
        int("sorry")
    except ValueError:
        log.exception("job_failed", job="prune")


def test_a_program_that_sets_up_no_logs_sees_none(capfd: pytest.CaptureFixture[str]) -> None:
    handlers = logging.root.handlers
    logging.root.handlers = []  # pytest's own hear everything
    try:
        tell_all()
    finally:
        logging.root.handlers = handlers

    assert capfd.readouterr() == ("", "")


def test_a_program_that_uses_logging_hears_each_event_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """T19, but for the trace, which has lines of its own."""
    with caplog.at_level(logging.INFO):
        tell_all()

    assert [record.getMessage() for record in caplog.records] == [
        "entry_captured entry_id='1'",
        r"context_degraded reason='late\nFORGED'",
        "request_failed method='GET'",
        "job_failed job='prune'",
    ]
    assert {record.name for record in caplog.records} == {"knowledge.test"}
    assert {record.funcName for record in caplog.records} == {"tell_all"}
    assert caplog.records[-1].exc_info is not None


def test_a_program_that_uses_structlog_hears_each_event_with_its_ids() -> None:
    with structlog.testing.capture_logs() as heard:
        tell_all()
    assert [(each["log_level"], each["event"]) for each in heard] == [
        ("info", "entry_captured"),
        ("warning", "context_degraded"),
        ("error", "request_failed"),
        ("error", "job_failed"),
    ]
    assert heard[0]["entry_id"] == "1"


def test_our_entry_points_log_to_the_standard_error_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that was standard error while logs were set up may be closed by now."""
    with io.StringIO() as first:
        monkeypatch.setattr("sys.stderr", first)
        configure_logs(level=logging.INFO)
        tell_all()
        logging.getLogger("lib").warning("of a library")
        assert len(first.getvalue().splitlines()) == 5
    second = io.StringIO()
    monkeypatch.setattr("sys.stderr", second)

    tell_all()
    logging.getLogger("lib").warning("of a library")

    told = [json.loads(line) for line in second.getvalue().splitlines()]
    assert [each["event"] for each in told][-2:] == ["job_failed", "of a library"]
    assert told[1]["reason"] == "late\nFORGED"
    assert "sorry" in json.dumps(told[3])


def test_t10_the_trace_of_a_defect_tells_where_it_was_and_nothing_of_what_a_caller_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    configure_logs()

    def meet(secret: str) -> None:
        kept = {"body": secret}
        raise RuntimeError(f"a defect of {len(kept)}")

    for log in (logging.getLogger("uvicorn.error"), structlog.get_logger("x")):
        try:
            meet("hw_3f9a1c7e5b2d_secret")
        except RuntimeError:
            log.exception("it failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    for told in (first, second):
        assert [frame["name"] for frame in told["exception"][0]["frames"]][-1] == "meet"
        assert told["exception"][0]["exc_value"] == "a defect of 1"
    assert "hw_3f9a" not in stream.getvalue()


def test_no_module_of_the_library_logs_to_structlog_itself() -> None:
    direct = {
        str(path.relative_to(ROOT))
        for package in ("knowledge", "orchestrator", "jobs")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"structlog\.get_logger\(__name__|logging\.getLogger\(__name__", path.read_text(encoding="utf-8"))
    }
    assert direct == set()


def test_t10_of_a_refused_text_a_log_holds_who_refused_it_and_not_in_which_words() -> None:
    quoting = "The endpoint refuses this: flagged for 'the plan of the merger'."
    for error in (TextRejected(quoting), QuestionRejected(quoting), ValueError(quoting), HardwonError("")):
        assert reason_of(error) == type(error).__name__
    sentence = "The endpoint refuses the key (401): set HARDWON_EMBEDDING_API_KEY to a valid one."
    assert reason_of(EmbedderRejected(sentence)) == sentence


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_sentences_with_their_fields_and_a_plain_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    configure_logs(level=logging.INFO)
    tell_all()
    logging.getLogger("lib").warning("of a library")
    said = re.sub(r"(?m)^\d\d:\d\d:\d\d ", "", terminal.getvalue()).splitlines()
    assert said[:4] == [
        "info: entry captured (entry id 1)",
        r"warning: context degraded (reason 'late\nFORGED')",
        "error: request failed (method GET)",
        "error: job failed (job prune)",
    ]
    assert said[4] == "Traceback (most recent call last):"
    assert "ValueError: invalid literal" in terminal.getvalue()
    assert said[-1] == "warning: of a library"


def test_a_command_in_a_terminal_logs_sentences_and_into_a_file_json(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = logging.getLogger("hardwon")
    for stream, told in (
        (Terminal(), "warning: owner awaited (reason='x\\ny')\n"),
        (io.StringIO(), '{"event": "owner_awaited reason='),
    ):
        with monkeypatch.context() as changed:
            changed.setattr("sys.stderr", stream)
            changed.setattr(ours, "handlers", [])
            configure_client_logs()
            get_logger("hardwon.test").warning("owner_awaited", reason="x\ny")
        assert stream.getvalue().startswith(told)
