"""Reviews of pull requests, as gate entries: rejections with their accepted revision, and first-attempt approvals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hardwon.errors import InvalidInput
from hardwon.text.truncation import escape_unstorable
from knowledge.models import EntryType, NewEntry
from orchestrator.importers.fields import fit_beginning, key, main_technology
from orchestrator.importers.review_reader import Comment, PullRequest, Review, read_pages, suggestions

GATE = "review"
_CUT_NOTE = "cut: the pull request has more"
_MISSING_PULL_REQUEST = (
    "the file lacks the pull request that this review approved: add it, as `gh api repos/OWNER/REPO/pulls/N` prints it"
)


def read_reviews(file: Path) -> Iterator[NewEntry | InvalidInput]:
    """Yield the decisions in pages of GitHub's REST API, pull request by pull request, in the order of time.

    A review that requested changes is a rejection, its text and comments the feedback. A later approval, by the same
    reviewer if there is one, accepts the revision: that is made of the suggestions, the replies to the comments and
    the approval's text; without any of these the rejection stays open. The first approval of a pull request without
    requested changes is a first-attempt approval of its title and description. A review that cannot be used is yielded
    as an InvalidInput with the reason. The file is read whole before the first entry. Raises InvalidInput for `file`.
    """
    data = read_pages(file)
    requests: dict[tuple[str, int], _PullRequestData] = defaultdict(_PullRequestData)
    for pull in data.pulls:
        requests[pull.pull_request].pull = pull
    for review in data.reviews:
        requests[review.pull_request].reviews.append(review)
    for comment in data.comments:
        requests[comment.pull_request].comments.append(comment)
    return (entry for key, request in sorted(requests.items()) for entry in _decisions(key, request))


@dataclass(slots=True)
class _PullRequestData:
    """The objects of a file about one pull request."""

    pull: PullRequest | None = None
    reviews: list[Review] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)

    def threads_of(self, review: Review) -> list[Comment]:
        """Return the comments of a review that began threads."""
        return [each for each in self.comments if each.review_id == review.id and each.reply_to is None]


def _decisions(of: tuple[str, int], request: _PullRequestData) -> Iterator[NewEntry | InvalidInput]:
    reviews = sorted(request.reviews, key=lambda review: (review.submitted_at or "", review.id))
    decided = [review for review in reviews if review.state in {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}]
    rejected = False
    for at, review in enumerate(decided):
        where = f"review {review.id} of pull request {of[0]}#{of[1]}"
        if review.user.type == "Bot":
            yield InvalidInput(where, "is by a bot, not a person")
        elif review.state == "DISMISSED":
            rejected = True  # it may have been one
            yield InvalidInput(where, "was dismissed: its decision is not available any more")
        elif review.state == "CHANGES_REQUESTED":
            rejected = True
            yield _rejection(of, request, review, _approval_after(review, decided[at + 1 :]), where)
        elif not rejected:
            yield _approval(of, request, review, where)
            return  # further approvals add nothing


def _approval_after(review: Review, later: Sequence[Review]) -> Review | None:
    approvals = [each for each in later if each.state == "APPROVED" and each.user.type != "Bot"]
    own = (each for each in approvals if review.user.login and each.user.login == review.user.login)
    return next(own, None) or next(iter(approvals), None)


def _rejection(
    of: tuple[str, int], request: _PullRequestData, review: Review, approval: Review | None, where: str
) -> NewEntry | InvalidInput:
    threads = request.threads_of(review)
    feedback = "\n\n".join(
        _strip_blank([review.body, *(f"{each.place}: {each.body}" for each in threads if each.body)])
    )
    if not feedback:
        return InvalidInput(where, "requested changes without saying which")
    revision = _revision(request, threads, approval) if approval else None
    code = (f"{each.place}\n{each.diff_hunk}" for each in threads if each.diff_hunk)
    return NewEntry(
        entry_type=EntryType.GATE_REJECTION,
        project_id=key(of[0]),
        gate_type=GATE,
        agent_type="developer",
        technology=main_technology((each.path, 1) for each in threads if each.path),
        proposal=_text("\n\n".join(_strip_blank([request.pull.words if request.pull else "", *code]))),
        human_feedback=_text(feedback),
        revision_approach=_text(revision) if revision else None,
        verified_by=f"review {approval.id}" if approval and revision else None,
        task_id=f"pull request {of[1]}",
        run_id=f"review {review.id}",
    )


def _revision(request: _PullRequestData, threads: Sequence[Comment], approval: Review) -> str:
    """Return the text of the accepted revision: the suggestions, the replies and the text of the approval."""
    by_id = {each.id: each for each in threads}
    suggested = [f"{each.place}:\n{text}" for each in threads for text in suggestions(each.body)]
    until = approval.submitted_at or ""
    replies = [
        f"{by_id[each.reply_to].place}: {each.body}"
        for each in request.comments
        if each.reply_to in by_id and each.created_at <= until and each.user != by_id[each.reply_to].user
    ]
    return "\n\n".join(_strip_blank([*suggested, *replies, approval.body]))


def _approval(of: tuple[str, int], request: _PullRequestData, review: Review, where: str) -> NewEntry | InvalidInput:
    if request.pull is None:
        return InvalidInput(where, _MISSING_PULL_REQUEST)
    return NewEntry(
        entry_type=EntryType.GATE_APPROVAL,
        project_id=key(of[0]),
        gate_type=GATE,
        agent_type="developer",
        technology=main_technology((each.path, 1) for each in request.comments if each.path),
        proposal=_text(request.pull.title or ""),
        approved_approach=_text(request.pull.words) or "",
        verified_by=f"review {review.id}",
        task_id=f"pull request {of[1]}",
        run_id=f"review {review.id}",
    )


def _strip_blank(texts: Sequence[str | None]) -> list[str]:
    return [text.strip() for text in texts if text and text.strip()]


def _text(words: str) -> str | None:
    return fit_beginning(escape_unstorable(words), _CUT_NOTE) if words.strip() else None
