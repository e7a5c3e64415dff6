"""Decisions on pull requests, as gate entries: what reviewers asked for and then accepted, and what passed at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.errors import InvalidInput
from knowledge.models import EntryType, NewEntry
from orchestrator.learn.fields import key, majority, storable, within_limit
from orchestrator.learn.review_pages import Comment, PullRequest, Review, read_pages, suggestions

GATE = "review"
_CUT = "cut: the pull request has more"
_UNTOLD = (
    "a review approved what this file does not hold: add the pull request itself, as `gh api repos/OWNER/REPO/pulls/N`"
)


def read_reviews(file: Path) -> Iterator[NewEntry | InvalidInput]:
    """Yield the decisions in pages of GitHub's REST API, pull request by pull request, in the order of time.

    A review that requested changes is a rejection, its words and comments the feedback. A later approval accepts the
    revision, by the same reviewer where there is one: of that, the suggestions, the answers to the comments and the
    approval's words are known; where there are none the rejection stays open. The first approval of a pull request
    nobody requested changes of is a first-attempt approval of what its title and description tell. What cannot be told
    comes as an InvalidInput that says why. The file is read whole before the first entry. Raises InvalidInput for
    `file`.
    """
    found = read_pages(file)
    requests: dict[tuple[str, int], _Request] = defaultdict(_Request)
    for pull in found.pulls:
        requests[pull.of].pull = pull
    for review in found.reviews:
        requests[review.of].reviews.append(review)
    for comment in found.comments:
        requests[comment.of].comments.append(comment)
    return (entry for of, request in sorted(requests.items()) for entry in _decisions(of, request))


@dataclass(slots=True)
class _Request:
    """What a file holds of one pull request."""

    pull: PullRequest | None = None
    reviews: list[Review] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)

    def of_review(self, review: Review) -> list[Comment]:
        """Return the comments that a review began threads with."""
        return [each for each in self.comments if each.review_id == review.id and each.answers is None]


def _decisions(of: tuple[str, int], request: _Request) -> Iterator[NewEntry | InvalidInput]:
    reviews = sorted(request.reviews, key=lambda review: (review.submitted_at or "", review.id))
    decided = [review for review in reviews if review.state in {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}]
    rejected = False
    for place, review in enumerate(decided):
        where = f"review {review.id} of pull request {of[0]}#{of[1]}"
        if review.user.type == "Bot":
            yield InvalidInput(where, "is a machine's, and no person's decision")
        elif review.state == "DISMISSED":
            rejected = True  # it may have been one
            yield InvalidInput(where, "was dismissed: what it had decided is not told any more")
        elif review.state == "CHANGES_REQUESTED":
            rejected = True
            yield _rejection(of, request, review, _approval_after(review, decided[place + 1 :]), where)
        elif not rejected:
            yield _approval(of, request, review, where)
            return  # one more approval of the same tells nothing more


def _approval_after(review: Review, later: Sequence[Review]) -> Review | None:
    approvals = [each for each in later if each.state == "APPROVED" and each.user.type != "Bot"]
    own = (each for each in approvals if review.user.login and each.user.login == review.user.login)
    return next(own, None) or next(iter(approvals), None)


def _rejection(
    of: tuple[str, int], request: _Request, review: Review, approval: Review | None, where: str
) -> NewEntry | InvalidInput:
    threads = request.of_review(review)
    feedback = "\n\n".join(_words([review.body, *(f"{each.place}: {each.body}" for each in threads if each.body)]))
    if not feedback:
        return InvalidInput(where, "requested changes without a word of which")
    revision = _revision(request, threads, approval) if approval else None
    code = (f"{each.place}\n{each.diff_hunk}" for each in threads if each.diff_hunk)
    return NewEntry(
        entry_type=EntryType.GATE_REJECTION,
        project_id=key(of[0]),
        gate_type=GATE,
        agent_type="developer",
        technology=majority((each.path, 1) for each in threads if each.path),
        proposal=_text("\n\n".join(_words([request.pull.words if request.pull else "", *code]))),
        human_feedback=_text(feedback),
        revision_approach=_text(revision) if revision else None,
        verified_by=f"review {approval.id}" if approval and revision else None,
        task_id=f"pull request {of[1]}",
        run_id=f"review {review.id}",
    )


def _revision(request: _Request, threads: Sequence[Comment], approval: Review) -> str:
    """Return what is known of the revision that was accepted: what was suggested, answered and said of it."""
    began = {each.id: each for each in threads}
    suggested = [f"{each.place}:\n{text}" for each in threads for text in suggestions(each.body)]
    until = approval.submitted_at or ""
    answers = [
        f"{began[each.answers].place}: {each.body}"
        for each in request.comments
        if each.answers in began and each.created_at <= until and each.user != began[each.answers].user
    ]
    return "\n\n".join(_words([*suggested, *answers, approval.body]))


def _approval(of: tuple[str, int], request: _Request, review: Review, where: str) -> NewEntry | InvalidInput:
    if request.pull is None:
        return InvalidInput(where, _UNTOLD)
    return NewEntry(
        entry_type=EntryType.GATE_APPROVAL,
        project_id=key(of[0]),
        gate_type=GATE,
        agent_type="developer",
        technology=majority((each.path, 1) for each in request.comments if each.path),
        proposal=_text(request.pull.title or ""),
        approved_approach=_text(request.pull.words) or "",
        verified_by=f"review {review.id}",
        task_id=f"pull request {of[1]}",
        run_id=f"review {review.id}",
    )


def _words(texts: Sequence[str | None]) -> list[str]:
    return [text.strip() for text in texts if text and text.strip()]


def _text(words: str) -> str | None:
    return within_limit(storable(words), _CUT) if words.strip() else None
