"""Decisions out of pages of GitHub's REST API."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from knowledge.memory.rules.validation import first_status, validate
from knowledge.models import EntryStatus, EntryType, NewEntry
from orchestrator.importers import review_reader
from orchestrator.importers.reviews import read_reviews

NOVA = Path(__file__).resolve().parents[4] / "shared/data/nova_reviews/gate_rejection.jsonl"
CASES = Path(__file__).resolve().parents[4] / "shared/cases/reports/reviews.json"
URL = "https://api.github.com/repos/shop/cart/pulls/{}"
ids = itertools.count(1)


def pull(number: int = 7, **told: Any) -> dict[str, Any]:
    return (
        {"url": URL.format(number), "number": number, "title": "Sum in cents", "body": "No floats.", "id": 9}
        | {
            "user": {"login": "eve", "type": "User"},
        }
        | told
    )


def review(
    state: str, body: str | None = "", *, user: str = "ada", kind: str = "User", number: int = 7, **told: Any
) -> dict[str, Any]:
    at = next(ids)
    return {
        "id": at,
        "user": {"login": user, "type": kind},
        "body": body,
        "state": state,
        "submitted_at": f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z",
        "pull_request_url": URL.format(number),
        "commit_id": "abc",
    } | told


def comment(of: dict[str, Any], body: str, *, user: str = "ada", **told: Any) -> dict[str, Any]:
    at = next(ids)
    return {
        "id": at,
        "pull_request_review_id": of["id"],
        "pull_request_url": of["pull_request_url"],
        "user": {"login": user, "type": "User"},
        "body": body,
        "path": "cart.py",
        "line": None,
        "original_line": 3,
        "diff_hunk": "@@ -1 +1 @@\n+total = 0.0",
        "created_at": f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z",
    } | told


def read(folder: Path, *pages: object) -> list[NewEntry | InvalidInput]:
    file = folder / "reviews.json"
    file.write_text("\n".join(map(json.dumps, pages)))
    found = list(read_reviews(file))
    for entry in found:
        if isinstance(entry, NewEntry):
            validate(entry)
    return found


def entries(found: list[NewEntry | InvalidInput]) -> list[NewEntry]:
    assert all(isinstance(each, NewEntry) for each in found), found
    return [each for each in found if isinstance(each, NewEntry)]


def test_requested_changes_with_a_later_approval_are_a_rejection_with_its_revision(tmp_path: Path) -> None:
    asked = review("CHANGES_REQUESTED", "Money is no float.")
    thread = comment(asked, "Use cents.\n```suggestion\ntotal = 0\n```\nas elsewhere")
    answer = comment(asked, "Done, and the tests too.", user="bob", in_reply_to_id=thread["id"])
    passed = review("APPROVED", "Much better.")
    (entry,) = entries(read(tmp_path, [asked, passed], [thread, answer], pull()))
    assert (entry.entry_type, entry.gate_type) == (EntryType.GATE_REJECTION, "review")
    assert (entry.project_id, entry.task_id) == ("cart", "pull request 7")
    assert entry.human_feedback is not None
    assert entry.human_feedback.startswith("Money is no float.\n\ncart.py:3: Use cents.")
    assert entry.proposal == "Sum in cents\n\nNo floats.\n\ncart.py:3\n@@ -1 +1 @@\n+total = 0.0"
    assert entry.revision_approach == "cart.py:3:\ntotal = 0\n\ncart.py:3: Done, and the tests too.\n\nMuch better."
    assert (entry.technology, entry.verified_by) == ("python", f"review {passed['id']}")


def test_an_approval_by_the_same_reviewer_goes_before_an_earlier_one_by_another(tmp_path: Path) -> None:
    asked = review("CHANGES_REQUESTED", "Money is no float.")
    other, own = review("APPROVED", "Fine", user="bob"), review("APPROVED", "In cents now")
    assert entries(read(tmp_path, [own, other, asked]))[0].revision_approach == "In cents now"
    assert entries(read(tmp_path, [other, asked]))[0].revision_approach == "Fine"


@pytest.mark.parametrize("later", [[], [review("APPROVED", "")], [review("COMMENTED", "Hm")]])
def test_a_rejection_whose_revision_nobody_tells_stays_open(tmp_path: Path, later: list[object]) -> None:
    asked = review("CHANGES_REQUESTED", "Money is no float.", submitted_at="2025-01-01T00:00:00Z")
    (entry,) = entries(read(tmp_path, [asked, *later]))
    assert (entry.revision_approach, first_status(entry)) == (None, EntryStatus.OPEN)


def test_an_answer_after_the_approval_is_no_part_of_what_was_accepted(tmp_path: Path) -> None:
    asked = review("CHANGES_REQUESTED")
    thread = comment(asked, "Use cents.")
    passed = review("APPROVED")
    late = comment(asked, "Reverted again.", user="bob", in_reply_to_id=thread["id"])
    own = comment(asked, "As I said.", in_reply_to_id=thread["id"], created_at="2026-01-01T00:00:00Z")
    (entry,) = entries(read(tmp_path, [asked, passed, thread, late, own]))
    assert entry.revision_approach is None


def test_an_approval_is_not_the_last_word(tmp_path: Path) -> None:
    hasty = review("APPROVED", user="bob")
    asked = review("CHANGES_REQUESTED", "The lock is taken twice.")
    (entry,) = entries(read(tmp_path, pull(), [hasty, asked]))
    assert (entry.human_feedback, entry.revision_approach) == ("The lock is taken twice.", None)
    (entry,) = entries(read(tmp_path, pull(), [hasty, asked, review("APPROVED", "One lock now.")]))
    assert (entry.entry_type, entry.revision_approach) == (EntryType.GATE_REJECTION, "One lock now.")


def test_what_was_rejected_again_after_its_approval_was_not_accepted(tmp_path: Path) -> None:
    rounds = [
        review("CHANGES_REQUESTED", "No floats."),
        review("APPROVED", "Cents."),
        review("CHANGES_REQUESTED", "No"),
    ]
    assert [each.revision_approach for each in entries(read(tmp_path, pull(), rounds))] == [None, None]
    rounds.append(review("APPROVED", "Whole numbers.", user="bob"))
    assert [each.revision_approach for each in entries(read(tmp_path, pull(), rounds))] == ["Cents.", "Whole numbers."]


OBJECTIONS = [
    "This leaks the token, it must not be merged like this.",
    "Never write the key to the log",
    "NACK",
    "-1, the index is missing",
    "Blocking: the migration locks the table",
    "Please don't merge this yet.",
    "This breaks the import of old files",
]
REMARKS = [
    "nit: two spaces, not blocking",
    "No blockers from me",
    "+1",
    "> This must not be merged\n\nIt is mended now",
    "I never knew that",
    "```\nnever log\n```\nNice",
]


@pytest.mark.parametrize("words", OBJECTIONS)
@pytest.mark.parametrize("at_a_line", [False, True])
def test_a_comment_that_objects_is_a_rejection_where_a_later_revision_is_approved(
    tmp_path: Path, words: str, *, at_a_line: bool
) -> None:
    said = review("COMMENTED", "" if at_a_line else words)
    threads = [comment(said, words, line=3)] if at_a_line else []
    (entry,) = entries(read(tmp_path, pull(), [said, review("APPROVED", "Good now", commit_id="def")], threads))
    assert (entry.entry_type, entry.revision_approach) == (EntryType.GATE_REJECTION, "Good now")
    assert words in (entry.human_feedback or "")


@pytest.mark.parametrize("words", REMARKS)
def test_a_comment_that_does_not_object_leaves_the_approval_a_first_one(tmp_path: Path, words: str) -> None:
    (entry,) = entries(read(tmp_path, pull(), [review("COMMENTED", words), review("APPROVED")]))
    assert entry.entry_type is EntryType.GATE_APPROVAL


def test_an_objection_approved_without_a_change_is_neither_a_rejection_nor_an_approval(tmp_path: Path) -> None:
    said = review("COMMENTED", "Must not be merged like this")
    (skipped,) = read(tmp_path, pull(), [said, review("APPROVED")])  # both of the same commit
    assert isinstance(skipped, InvalidInput)
    assert "without a change in between" in skipped.reason
    (entry,) = entries(read(tmp_path, pull(), [said, review("APPROVED", "Now", commit_id="def")]))
    assert entry.entry_type is EntryType.GATE_REJECTION
    (skipped,) = read(tmp_path, pull(), [said])
    assert isinstance(skipped, InvalidInput)
    assert "no later revision" in skipped.reason


def test_a_request_at_a_line_is_a_rejection_where_the_line_was_changed(tmp_path: Path) -> None:
    said, passed = review("COMMENTED"), review("APPROVED")
    for words, expected in (
        ("Use cents instead.", EntryType.GATE_REJECTION),
        ("```suggestion\ntotal = 0\n```", EntryType.GATE_REJECTION),
        ("Should this be in cents?", EntryType.GATE_APPROVAL),
        ("Nice!", EntryType.GATE_APPROVAL),
    ):
        (entry,) = entries(read(tmp_path, pull(), [said, passed], [comment(said, words)]))
        assert entry.entry_type is expected, words
        (entry,) = entries(read(tmp_path, pull(), [said, passed], [comment(said, words, line=3)]))
        assert entry.entry_type is EntryType.GATE_APPROVAL, "the line is as it was"


def test_what_was_closed_without_a_merge_was_not_approved(tmp_path: Path) -> None:
    closed = pull(state="closed", merged_at=None)
    (skipped,) = read(tmp_path, closed, [review("APPROVED", "Fine")])
    assert isinstance(skipped, InvalidInput)
    assert "closed without a merge" in skipped.reason
    (entry,) = entries(read(tmp_path, closed, [review("CHANGES_REQUESTED", "No floats"), review("APPROVED", "Fine")]))
    assert entry.revision_approach is None
    for merged in (pull(state="closed", merged_at="2026-01-02T00:00:00Z"), pull(state="open", merged_at=None)):
        (entry,) = entries(read(tmp_path, merged, [review("APPROVED", "Fine")]))
        assert entry.entry_type is EntryType.GATE_APPROVAL


def test_an_author_approves_nothing_of_their_own(tmp_path: Path) -> None:
    (skipped,) = read(tmp_path, pull(), [review("APPROVED", "lgtm", user="eve")])
    assert isinstance(skipped, InvalidInput)
    assert "by the author" in skipped.reason
    (skipped,) = read(tmp_path, pull(user=None), [review("APPROVED", "lgtm")])
    assert isinstance(skipped, InvalidInput)
    assert "who wrote the pull request" in skipped.reason
    asked, own = review("CHANGES_REQUESTED", "No floats"), review("APPROVED", "Fine", user="eve")
    skipped, entry = read(tmp_path, pull(), [asked, own])
    assert isinstance(entry, NewEntry)
    assert entry.revision_approach is None
    note = review("COMMENTED", "Do not merge yet, I test it", user="eve")
    (entry,) = entries(read(tmp_path, pull(), [note, review("APPROVED")]))
    assert entry.entry_type is EntryType.GATE_APPROVAL


@pytest.mark.parametrize("login", ["renovate[bot]", "k8s-ci-robot", "shop-bot", "dependabot", "Codecov"])
def test_a_bot_under_a_users_account_is_no_person(tmp_path: Path, login: str) -> None:
    (skipped,) = read(tmp_path, pull(), [review("APPROVED", user=login)])
    assert isinstance(skipped, InvalidInput)
    assert "by a bot" in skipped.reason
    assert entries(read(tmp_path, pull(), [review("APPROVED", user="talbot")]))


def test_what_is_approved_at_once_is_an_approval_once(tmp_path: Path) -> None:
    approvals = [review("COMMENTED", "Reading"), review("APPROVED", "Fine"), review("APPROVED", "", user="bob")]
    (entry,) = entries(read(tmp_path, pull(), approvals))
    assert (entry.entry_type, entry.proposal) == (EntryType.GATE_APPROVAL, "Sum in cents")
    assert entry.approved_approach == "Sum in cents\n\nNo floats."


def test_pull_requests_are_apart(tmp_path: Path) -> None:
    found = entries(
        read(tmp_path, [[pull(), pull(8)], [review("CHANGES_REQUESTED", "No", number=8), review("APPROVED", "")]])
    )
    assert [(each.task_id, each.entry_type.value) for each in found] == [
        ("pull request 7", "gate_approval"),
        ("pull request 8", "gate_rejection"),
    ]


def test_a_page_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    page = [review("CHANGES_REQUESTED", "No")]
    assert len(read(tmp_path, page, page)) == 1


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ([review("APPROVED", "Fine")], "lacks the pull request"),
        ([review("CHANGES_REQUESTED", None)], "without saying which"),
        ([review("DISMISSED", "No")], "was dismissed"),
        ([review("CHANGES_REQUESTED", "No", kind="Bot")], "by a bot"),
    ],
)
def test_what_cannot_be_told_is_passed_over_with_the_reason(tmp_path: Path, page: list[object], said: str) -> None:
    (skipped,) = read(tmp_path, page)
    assert isinstance(skipped, InvalidInput)
    assert said in skipped.reason
    assert "of pull request cart#7" in skipped.field


@pytest.mark.skipif(not CASES.is_file(), reason=f"{CASES} is not there")
def test_the_four_pull_requests_of_the_cases_are_read_right() -> None:
    found = [each for each in read_reviews(CASES) if isinstance(each, NewEntry)]
    assert [(each.task_id, each.entry_type) for each in found] == [
        ("pull request 1", EntryType.GATE_REJECTION),
        ("pull request 3", EntryType.GATE_REJECTION),
    ]
    assert all(each.revision_approach for each in found)


def test_after_a_dismissed_review_nothing_is_a_first_attempt(tmp_path: Path) -> None:
    (skipped,) = read(tmp_path, pull(), [review("DISMISSED", "No"), review("APPROVED", "Fine")])
    assert isinstance(skipped, InvalidInput)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1]", "contains a number where"),
        ("[{}]", "object 1 is not a pull request"),
        ('[{"id": 1', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (
            '{"state": "APPROVED", "pull_request_url": "https://x/7", "id": 1}',
            "is not at the address of a pull request",
        ),
        ('{"state": "APPROVED", "pull_request_url": "https://x/repos/a/b/pulls/7"}', "object 1: id: Field required"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: str | bytes, said: str) -> None:
    file = tmp_path / "reviews.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput, match=said) as refused:
        read_reviews(file)
    assert refused.value.field == "file"


def test_a_file_above_the_limit_or_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_reader, "MAX_BYTES", 10)
    with pytest.raises(InvalidInput, match="more than the 10 bytes allowed"):
        read(tmp_path, [review("APPROVED")])
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_reviews(tmp_path / "none.json")


@pytest.mark.skipif(not NOVA.is_file(), reason=f"{NOVA} is not there")
def test_real_objections_to_real_code_become_rejections_with_their_revision(tmp_path: Path) -> None:
    records = [json.loads(line) for line in NOVA.read_text(encoding="utf-8").splitlines()]
    records = [record for record in records if record["changed_nearby"] and record["after"].strip()][:200]
    pages: list[object] = []
    for number, record in enumerate(records, start=1):
        asked = review("CHANGES_REQUESTED", number=number, submitted_at="2026-01-01T00:00:00Z")
        thread = comment(
            asked, record["feedback"], path=record["file"], line=record["line"], diff_hunk=record["before"]
        )
        answer = comment(asked, record["after"], user="bob", in_reply_to_id=thread["id"], created_at="2026-01-02")
        pages += [asked, thread, answer, review("APPROVED", number=number, submitted_at="2026-01-03T00:00:00Z")]
    found = entries(read(tmp_path, pages))
    assert len(found) == len(records) == 200
    assert all(first_status(entry) is EntryStatus.STAGED for entry in found)
    assert {entry.technology for entry in found} >= {"python"}
    assert all(
        record["feedback"].strip()[:40] in (entry.human_feedback or "")
        for entry, record in zip(found, records, strict=True)
    )
