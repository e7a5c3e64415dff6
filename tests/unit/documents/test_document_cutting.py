"""Reading and cutting documents: lines stay lines, and every passage is a piece of its text."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.models.documents import DocumentType, Severity
from knowledge.documents.parsing.chunking import CHUNK_TOKENS, split_document
from knowledge.documents.parsing.decode import Unreadable, decode, is_readable, read
from knowledge.documents.parsing.log_lines import lines_of, moment, read_lines, severity
from knowledge.documents.ports import ParsedDocument
from knowledge.documents.relevance import Scale, middle_sentence
from knowledge.documents.retrieval.search import parse_conditions
from tests.support.cases import each_case, over

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=60)


def cut_as(kind: DocumentType, text: str, tokens: int = CHUNK_TOKENS) -> Any:
    lines = list(read_lines(text, now=NOW)) if kind is DocumentType.LOG else []
    return split_document(ParsedDocument(text=text, document_type=kind), lines, tokens=tokens)


WHOLE = [each for each in DocumentType if each is not DocumentType.LOG]


@given(st.sampled_from(WHOLE), st.lists(LINE, max_size=40), st.sampled_from([64, 512]))
def test_passages_are_pieces_of_the_text_and_leave_nothing_out(
    kind: DocumentType, lines: list[str], tokens: int
) -> None:
    """A0-72: spans, and lines, that say where a passage stands."""
    text = "\n".join(lines)
    chunks = cut_as(kind, text, tokens)
    covered: set[int] = set()
    for chunk in chunks:
        assert text[chunk.char_start : chunk.char_end] == chunk.text
        assert chunk.line_start == text.count("\n", 0, chunk.char_start) + 1
        assert chunk.line_end == text.count("\n", 0, chunk.char_end) + 1
        covered.update(range(chunk.char_start, chunk.char_end))
    begin = 0 if kind is not DocumentType.MARKDOWN else max(0, text.find("\n---", 3) + 1)
    missed = [
        at for at in range(begin, len(text)) if at not in covered and text[at].strip("\x1c\x1d\x1e\x1f\x85\u2028\u2029")
    ]
    assert [text[at] for at in missed if not text[at].isspace() and text[at] != "-"] == []
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))


def test_text_is_cut_at_512_tokens_with_128_overlapping() -> None:
    """A0-72."""
    text = " ".join(f"This is sentence {n} of a long text." for n in range(400))
    chunks = cut_as(DocumentType.TEXT, text)
    assert all(len(chunk.text) <= 512 * 4 for chunk in chunks)
    overlaps = [one.char_end - other.char_start for one, other in pairwise(chunks)]
    assert all(128 * 4 - 60 <= overlap <= 128 * 4 for overlap in overlaps)


def test_markdown_is_cut_by_headings_that_stand_in_no_fence() -> None:
    """A0-72, A2-27."""
    text = "---\ntitle: T\n---\n# A\none\n## B\n```\n# no heading\n```\ntwo\n# C\nthree\n"
    found = [(chunk.section, chunk.text) for chunk in cut_as(DocumentType.MARKDOWN, text)]
    assert found == [
        ("A", "# A\none"),
        ("A > B", "## B\n```\n# no heading\n```\ntwo"),
        ("C", "# C\nthree"),
    ]


def test_markdown_is_cut_by_headings_that_have_a_line_below_them_too() -> None:
    text = "Pump\n====\n\none\n\nCare of it\n---\n\ntwo\n\n- item\n---\n\nof two\nlines\n---\n\na | b\n--- | ---\n"
    found = [(chunk.section, chunk.line_start) for chunk in cut_as(DocumentType.MARKDOWN, text)]
    assert found == [("Pump", 1), ("Pump > Care of it", 6)]


@over("head", ["Pump\n====\n", "# Pump\n"])
def test_the_title_of_markdown_is_its_first_heading_and_no_comment_in_code(head: str) -> None:
    text = f"```sh\n# install it\nmake\n```\n\n{head}\nIt runs.\n"
    assert read("pump.md", text.encode(), redacting=True).title == "Pump"


def test_only_a_fence_of_its_own_kind_ends_a_fence_and_words_in_its_marks_begin_none() -> None:
    """As CommonMark has it: else all headings after them are lost, or lines of code are headings."""
    text = "# A\n\n```make ready``` makes it.\n\n## B\n\n````md\n```py\n# none\n```\n# none\n````\n\n## C\n\nSee.\n"
    assert [chunk.section for chunk in cut_as(DocumentType.MARKDOWN, text)] == ["A", "A > B", "A > C"]


def test_code_is_cut_by_definitions_with_what_stands_above_them() -> None:
    """A0-72: function_name."""
    text = "import os\n\n# tells\n@wrapped\ndef first(a):\n    return a\n"
    text += "\nclass Pool:\n    def take(self):\n        return 1\n"
    found = [(chunk.function, chunk.text.split("\n")[0], chunk.line_start) for chunk in cut_as(DocumentType.CODE, text)]
    assert found == [
        (None, "import os", 1),
        ("first", "# tells", 3),
        ("Pool", "class Pool:", 8),
        ("Pool.take", "    def take(self):", 9),
    ]


def test_a_long_configuration_is_cut_by_its_sections() -> None:
    """A0-72: section_path."""
    text = "".join(f"[part{n}]\n" + "".join(f"key{m} = {'v' * 40}\n" for m in range(12)) for n in range(6))
    chunks = cut_as(DocumentType.CONFIG, text)
    assert [chunk.section for chunk in chunks] == [f"part{n}" for n in range(6)]


def test_a_log_has_a_passage_for_each_kind_of_entry_that_knows_the_times_and_severities_of_all() -> None:
    """A0-72: line_number, timestamp, severity. An entry goes on below its first line, where the others have a time."""
    quiet = "".join(f"2025-10-19T14:00:{n:02}Z INFO job {n} is fine and well\n" for n in range(10))
    bad = "".join(f"2025-10-19T{hour}:00:00Z ERROR gone\n  at Pool.take\n" for hour in (15, 18))
    chunks = cut_as(DocumentType.LOG, quiet + bad, 256)
    assert [(chunk.line_start, chunk.line_end) for chunk in chunks] == [(1, 1), (11, 12)]
    assert chunks[1].text.endswith("ERROR gone\n  at Pool.take")
    assert chunks[1].severities == (Severity.ERROR,)
    assert chunks[1].timestamp == datetime(2025, 10, 19, 15, tzinfo=UTC)
    assert chunks[1].until == datetime(2025, 10, 19, 18, tzinfo=UTC)


def test_names_that_differ_from_line_to_line_are_variable_and_verbs_are_not() -> None:
    """Drain: a log of sshd has one template for each thing that happens, not one for each account."""
    names = [f"user{letter}" for letter in "abcdefghijk"]
    lines = [f"Oct 19 14:00:01 web sshd[7]: Failed password for {name} from 10.0.0.7 port 22 ssh2" for name in names]
    lines += [f"Oct 19 14:00:01 web sshd[7]: Connection {verb} by remote host" for verb in ("closed", "reset")]
    templates = [line.template for line in read_lines("\n".join(lines), now=NOW)]
    assert len(set(templates[: len(names)])) == 1
    assert "for <*> from <*>" in templates[0]
    assert len(set(templates)) == 3


@over(
    "line, when, how_bad",
    [
        ("2025-10-19T14:32:15Z ERROR x", "2025-10-19T14:32:15+00:00", Severity.ERROR),
        ("2025-10-19 14:32:15,123 [main] WARN x", "2025-10-19T14:32:15.123000+00:00", Severity.WARN),
        ("2025-10-19T16:32:15+02:00 level=warning msg=x", "2025-10-19T14:32:15+00:00", Severity.WARN),
        ('{"ts":"2025-10-19T14:32:15.5Z","level":"error"}', "2025-10-19T14:32:15.500000+00:00", Severity.ERROR),
        ('1.2.3.4 - - [19/Oct/2025:14:32:15 +0000] "GET / HTTP/1.1" 200', "2025-10-19T14:32:15+00:00", None),
        ("[fatal] no memory", None, Severity.CRITICAL),
        ("2025-99-19T14:32:15Z INFORMATION", None, None),
        ("\x1b[90m2025-10-19 14:32:15\x1b[0m \x1b[1;31mERROR\x1b[0m x", "2025-10-19T14:32:15+00:00", Severity.ERROR),
        ("2025/10/19 14:32:15 [error] 7#7: *1 connect() failed", "2025-10-19T14:32:15+00:00", Severity.ERROR),
        ("[Sun Oct 19 14:32:15.5 2025] [core:error] [pid 7] x", "2025-10-19T14:32:15.500000+00:00", Severity.ERROR),
        (f'{{"log":"ERROR {"x" * 300}","time":"2025-10-19T14:32:15Z"}}', "2025-10-19T14:32:15+00:00", Severity.ERROR),
        (
            f'{{"msg":"level: info, 2027-01-01 00:00:00 {"x" * 300}","level":"error","ts":"2025-10-19T14:32:15Z"}}',
            "2025-10-19T14:32:15+00:00",
            Severity.ERROR,
        ),
        ('{"a":' * 9_000 + "}" * 9_000, None, None),
        ("Start-Date: 2025-10-19  14:32:15", "2025-10-19T14:32:15+00:00", None),
        ("Sun Oct 19 16:32:15 CEST 2025 backup began", "2025-10-19T14:32:15+00:00", None),
        ("19-Oct-2025 14:32:15.123 SEVERE [main] x", "2025-10-19T14:32:15.123000+00:00", Severity.ERROR),
        ("7:M 19 Oct 2025 14:32:15.123 * Ready", "2025-10-19T14:32:15.123000+00:00", None),
        ("2025-10-19 16:32:15.123 CEST [7] ERROR:  x", "2025-10-19T14:32:15.123000+00:00", Severity.ERROR),
        ("2025-10-26 02:30:00 CEST [7] LOG:  x", "2025-10-26T00:30:00+00:00", None),
        ("2025-10-26 02:30:00 CET [7] LOG:  x", "2025-10-26T01:30:00+00:00", None),
        ("2025-10-19 16:32:15.123+02 ERROR x", "2025-10-19T14:32:15.123000+00:00", Severity.ERROR),
        ("2025-10-19 14:32:15 -12 degrees", "2025-10-19T14:32:15+00:00", None),
        ("2025-10-19 02:32:15 PM ERROR x", "2025-10-19T14:32:15+00:00", Severity.ERROR),
        ("2025-10-19 12:32:15 am ERROR x", "2025-10-19T00:32:15+00:00", Severity.ERROR),
        ("2025-10-19 14:32:15.5-45: ERROR x", "2025-10-19T14:32:15.500000+00:00", Severity.ERROR),
        ('{"timestamp":"2025-10-19T14:32:15Z","severity":"EMERGENCY"}', "2025-10-19T14:32:15+00:00", Severity.CRITICAL),
        ("2025-10-19 14:32:15 error: lost", "2025-10-19T14:32:15+00:00", Severity.ERROR),
        ("2025-10-19 14:32:15 Warning disk", "2025-10-19T14:32:15+00:00", Severity.WARN),
        ("[2025-10-19 14:32:15] notice x", "2025-10-19T14:32:15+00:00", Severity.INFO),
        ("2025-10-19 14:32:15 error-handler started", "2025-10-19T14:32:15+00:00", None),
        ("2025-10-19 14:32:15 the error was", "2025-10-19T14:32:15+00:00", None),
        ("2m          Warning   BackOff   restarting", None, Severity.WARN),
        ("E1103 10:00:00.1   1 sync.go:1] no lease", None, Severity.ERROR),
        ("I1103 10:00:00.1   1 sync.go:1] synced", None, Severity.INFO),
        ("W1103 10:00:00.1   1 sync.go:1] slow", None, Severity.WARN),
        ("F1103 10:00:00.1   1 sync.go:1] gone", None, Severity.CRITICAL),
        ("an error of somebody", None, None),
    ],
)
def test_a_line_tells_its_time_and_severity(line: str, when: str | None, how_bad: Severity | None) -> None:
    """A0-35, A0-42."""
    found = moment(line)
    assert (found.isoformat() if found else None) == when
    assert severity(line) is how_bad


@each_case
def test_a_line_of_the_first_or_last_year_there_is_names_no_moment(line: str) -> None:
    assert moment(line) is None
    assert severity(line) is Severity.ERROR


def test_lines_of_json_are_alike_by_what_they_say() -> None:
    """All of them were one kind, of which nothing was to be seen."""
    told = '{"ts":"2025-10-19T14:32:15Z","level":"error","msg":"job 3 failed","user":"u3"}\n{"ts":"2025-10-19"}\n'
    assert [line.template for line in read_lines(told, now=NOW)] == ["job <*> failed", "{<*>:<*>}"]


def test_a_line_that_names_no_year_is_of_the_last_one_that_fits() -> None:
    """A0-35."""
    (klog,) = read_lines("E1019 14:32:15.1   1 sync.go:1] x\n", now=NOW)
    assert klog.timestamp is not None
    assert klog.timestamp.isoformat() == "2025-10-19T14:32:15.100000+00:00"
    lines = read_lines("Oct 19 14:32:15 host sshd[1]: x\nJan 15 11:00:00 host y\n", now=NOW)
    assert [line.timestamp and line.timestamp.year for line in lines] == [2025, 2026]


@each_case
def test_the_time_of_a_line_is_the_one_it_begins_with_and_none_that_it_tells_of(line: str) -> None:
    """Whoever asks for a page would say in its address when it was."""
    (told,) = read_lines(line, now=NOW)
    assert told.timestamp == datetime(2025, 10, 19, 14, 32, 15, tzinfo=UTC)


@over(
    "question, severities, lines",
    [
        ("What error is on line 42 of the log I uploaded?", set(), (42,)),
        ("lines 3 to 5 please", set(), (3, 4, 5)),
        ("Show me all CRITICAL entries with timestamps", {Severity.CRITICAL}, ()),
        ("which critical events came, and which WARNINGs?", {Severity.CRITICAL, Severity.WARN}, ()),
        ("What is a critical section in online banking?", set(), ()),
        ("How do I fix an error?", set(), ()),
    ],
)
def test_a_question_asks_for_severities_and_lines_only_where_it_says_so(
    question: str, severities: set[Severity], lines: tuple[int, ...]
) -> None:
    """A0-80, A0-48."""
    found = parse_conditions(question)
    assert (set(found.severities), found.lines) == (severities, lines)


def test_a_question_asks_for_times() -> None:
    """A0-80: timestamp >=."""
    found = parse_conditions("ERROR entries after 2025-10-19T14:00Z and before 2025-10-20")
    assert found.since == datetime(2025, 10, 19, 14, tzinfo=UTC)
    assert found.until == datetime(2025, 10, 20, tzinfo=UTC) - datetime.resolution
    day = parse_conditions("what happened on 2025-10-19?")
    assert (day.since, day.until) == (
        datetime(2025, 10, 19, tzinfo=UTC),
        datetime(2025, 10, 20, tzinfo=UTC) - datetime.resolution,
    )


@each_case
def test_a_time_of_day_is_of_the_one_day_that_a_question_names(question: str) -> None:
    """A0-80: what is counted for it is not the whole day."""
    found = parse_conditions(question)
    assert found.since == datetime(2025, 10, 19, 9, tzinfo=UTC)
    assert found.until == datetime(2025, 10, 19, 9, 10, tzinfo=UTC)


def test_a_day_in_words_leaves_documents_their_questions() -> None:
    """No passage but those of logs names a moment: the minutes of that day would not be looked at."""
    assert parse_conditions("What was decided on 3 November 2025?") == parse_conditions("What was decided?")


@over("end", ["9999-12-31", "9999-12-31T23:59:30Z", "0001-01-01"])
def test_a_question_about_the_end_of_all_time_asks_for_none(end: str) -> None:
    assert parse_conditions(f"errors on {end}") == parse_conditions(f"errors since {end}") == parse_conditions("errors")


def test_front_matter_gives_title_category_and_tags() -> None:
    """A1-09, A1-10, A4-27."""
    parsed = read(
        "a.md",
        b"---\ntitle: 'GitHub Onboarding'\ncategory: onboarding\ntags:\n  - github\n  - access\n---\nx\n",
        redacting=True,
    )
    assert (parsed.title, parsed.category, parsed.tags) == ("GitHub Onboarding", "onboarding", ("github", "access"))


@over(
    "content, text",
    [
        (b"\xef\xbb\xbfone\r\ntwo", "one\ntwo"),
        ("eins".encode("utf-16"), "eins"),
        (b"caf\xe9", "café"),
        ("naïve ✓".encode(), "naïve ✓"),
        ("Müller sagt ja\n".encode() + b"cut of\xc3\n" + "✓".encode(), "Müller sagt ja\ncut ofÃ\n✓"),
        ("größer\n".encode() + "größer\n".encode("cp1252"), "größer\ngrößer\n"),
    ],
)
def test_text_is_read_in_the_encodings_that_files_come_in(content: bytes, text: str) -> None:
    """A4-20: invalid UTF-8."""
    assert decode(content) == text


@over(
    "content, lines",
    [
        (b"one\rtwo\r", 2),
        (b"1%\r50%\r100%\ndone\n", 2),
        (b"written twice over\r\r\nby Windows\r\r\n", 2),
    ],
)
def test_lines_are_counted_as_grep_and_editors_count_them(content: bytes, lines: int) -> None:
    """A0-47: line N of a log is line N of the file."""
    assert len(list(lines_of(decode(content)))) == lines


@over(
    "name",
    ["app.log", "app.log.1", "app.log-20251019", "app.log.2025-10-19", "app.log.2025-10-19_14-00-00", "a.LOG.7.2"],
)
def test_a_log_that_was_turned_over_is_one_yet(name: str) -> None:
    assert is_readable(f"logs/{name}")
    assert read(name, b"started\n", redacting=True).document_type is DocumentType.LOG


@over("name", ["README", "CHANGELOG", "docs/NOTES", "LICENSE", "Contributing"])
def test_what_projects_tell_of_themselves_is_text_without_an_ending(name: str) -> None:
    assert is_readable(name)
    assert read(name, b"The pool holds forty connections.\n", redacting=True).document_type is DocumentType.TEXT
    assert not is_readable(f"{name}er")


@over("content", [b"\x7fELF\0\0\0", bytes(range(1, 256)) * 20, b"\x01\x02 OK " * 9])
def test_what_is_no_text_is_refused(content: bytes) -> None:
    """A4-20: with a zero byte or without."""
    with pytest.raises(Unreadable, match="not a text file"):
        decode(content)


def test_colours_of_a_terminal_and_a_few_odd_signs_are_text() -> None:
    text = "\x1b[31mERROR\x1b[0m pool exhausted\r\n" * 9 + "\x01"
    assert decode(text.encode()) == text.replace("\r\n", "\n")


def test_relevance_is_the_place_between_two_cosines() -> None:
    """X-08."""
    scale = Scale(low=0.1, high=0.6)
    assert [scale.relevance(cosine) for cosine in (-1, 0.1, 0.35, 0.6, 1)] == pytest.approx([0, 0, 0.5, 1, 1])
    assert scale.relevance(scale.cosine(0.45)) == pytest.approx(0.45)
    assert (
        middle_sentence("One is here now. Two is the middle one. Three comes at the end.") == "Two is the middle one."
    )


@over("tokens", [64, 256])
def test_a_table_is_cut_between_its_rows(tokens: int) -> None:
    """A0-72."""
    rows = [f"| valve {n} | It opens at {n} bar. It closes again by hand, and slowly. |" for n in range(60)]
    text = "# Valves\n\n| valve | how |\n| --- | --- |\n" + "\n".join(rows)
    chunks = split_document(ParsedDocument(text=text, document_type=DocumentType.MARKDOWN), tokens=tokens)
    assert len(chunks) > 3
    assert all(line in text.split("\n") for chunk in chunks for line in chunk.text.split("\n"))
    assert all(len(chunk.text) <= tokens * 4 for chunk in chunks)
