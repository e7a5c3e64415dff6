"""Reviews of pull requests, as gate entries: rejections with their accepted revision, and first-attempt approvals."""

from __future__ import annotations

import re
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
_MISSING_AUTHOR = "the file does not say who wrote the pull request: its author may have approved it"
_OWN = "is by the author of the pull request"
_NOT_MERGED = "approved a pull request that was closed without a merge"
_NO_REVISION = "objects, but the file shows no later revision"
_UNANSWERED = "approved what a reviewer had objected to, without a change in between"

_QUOTED = re.compile(r"^[ \t]*(?:>[^\n]*|```.*?^[ \t]*```[^\n]*)$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
"""Quotes of others and code, which are not the reviewer's own words."""
_HARMLESS = re.compile(
    r"\b(?:non|not|nothing|isn't|no)[ -]+(?:an?\s+|really\s+|that's\s+|is\s+)?"
    r"(?:block(?:ing|er|ers)|show-?stoppers?|objections?|veto)\b"
    r"|\b(?:nit|nits|nitpick|optional)\b[^\n.]*",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[^.!?\n]*\?(?=\s|$)")
_OBJECTION = re.compile(
    r"^\s*-[12](?![\d.])|\bn(?:ack|ak)(?:ed)?\b|\bveto(?:ed|ing)?\b"
    r"|^\W*block(?:ing|er)\b|\b(?:is|as|are)\s+(?:an?\s+)?(?:block(?:ing|er)|blockers)\b(?!\s+(?:call|device|io|i/o))"
    r"|\bblock(?:s|ing)?\s+(?:this|the)?\s*(?:merge|pr|pull|release|approval)\b"
    r"|\b(?:must\s+not|mustn't|cannot|can't|can\s+not|should\s+not|shouldn't|do\s+not|don't|won't|will\s+not)\s+(?:be\s+)?"
    r"(?:merged?|land(?:ed)?|ship(?:ped)?|go\s+in|accept(?:ed)?|approved?|take\s+this|deploy(?:ed)?)\b"
    r"|\bnot\s+(?:ready|acceptable|mergeable|safe|like\s+this)\b|\bunacceptable\b|\bunsafe\b|\breject(?:ed|ing)?\b"
    r"|\bhold\s+off\b|\b(?:before|until)\s+(?:we\s+(?:can\s+)?|this\s+(?:can\s+|is\s+)?)?merg(?:e|ed|ing)\b"
    r"|(?:^|[.!:;,]\s+|\bplease\s+|\bmust\s+|\bshould\s+)never\s+\w+"
    r"|\b(?:must\s+not|mustn't)\b|\bI(?:'m|\s+am)?\s+(?:strongly\s+)?(?:object|disagree|against\s+this)\b"
    r"|\b(?:strong|hard)\s+no\b|\b(?:request(?:ing)?|needs?)\s+changes\b|\bshow-?stopper\b"
    r"|\b(?:this|it|which|that)\s+(?:still\s+|would\s+|will\s+)?"
    r"(?:leaks?|breaks?|corrupts?|loses?|exposes?|deadlocks?|crash(?:es)?)\b"
    r"|\b(?:introduces|is|has)\s+an?\s+(?:\w+\s+)?(?:vulnerability|security\s+hole|race(?:\s+condition)?|injection)\b"
    r"|[\U0001f6ab\U0001f6d1\U0001f44e]",
    re.IGNORECASE | re.MULTILINE,
)
"""Words that hold a change up, wherever they stand."""
_REQUEST = re.compile(
    r"\bplease\b|\b(?:needs?|has|have|ought)\s+to\b|\b(?:should|must)\b|\binstead\b"
    r"|\b(?:wrong|incorrect|broken|missing|unused|unnecessary|redundant|typo)\b|\b(?:doesn't|does\s+not)\s+\w+"
    r"|(?:^|[.:;!]\s+)(?:do\s+not|don't|avoid|rename|remove|drop|move|replace|revert|use|add|fix|make|change)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Words that ask for a change. They object only where the line was then changed."""


def read_reviews(file: Path) -> Iterator[NewEntry | InvalidInput]:
    """Yield the decisions in pages of GitHub's REST API, pull request by pull request, in the order of time.

    A review that requested changes is a rejection, its text and comments the feedback; so is one that only commented
    and objected, where a later revision follows or its line was changed. A later approval, by the same reviewer if
    there is one, accepts the revision: that is made of the suggestions, the replies to the comments and the approval's
    text; without any of these the rejection stays open, and so it does where the pull request was closed without a
    merge, or somebody rejected it again and nobody approved it after that. The first approval of a pull request
    without any objection, by another than its author, is a first-attempt approval of its title and description.
    Reviews of bots, of the author, and dismissed ones decide nothing. A review that cannot be used is yielded as an
    InvalidInput with the reason. The file is read whole before the first entry. Raises InvalidInput for `file`.
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


def objects(text: str) -> bool:
    """Return whether a comment says that a change must not go in as it is."""
    return _OBJECTION.search(_own_words(text)) is not None


def requests_change(text: str) -> bool:
    """Return whether a comment suggests a change, asks for one, or objects."""
    own = _QUESTION.sub(" ", _own_words(text))
    return bool(suggestions(text)) or objects(text) or _REQUEST.search(own) is not None


def _own_words(text: str) -> str:
    return _HARMLESS.sub(" ", _QUOTED.sub(" ", text.replace("\r\n", "\n").replace("\u2019", "'")))


@dataclass(slots=True)
class _PullRequestData:
    """The objects of a file about one pull request."""

    pull: PullRequest | None = None
    reviews: list[Review] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)

    @property
    def author(self) -> str:
        """The login of the author; empty where the file does not say."""
        return self.pull.user.login if self.pull and self.pull.user else ""

    def threads_of(self, review: Review) -> list[Comment]:
        """Return the comments of a review that began threads."""
        return [each for each in self.comments if each.review_id == review.id and each.reply_to is None]

    def objects(self, review: Review) -> bool:
        """Return whether a review that only commented says that the change must not go in as it is."""
        return any(objects(text) for text in (review.body, *(each.body for each in self.threads_of(review))))

    def changed_a_line(self, review: Review) -> bool:
        """Return whether a later push changed a line for which a review asked for it."""
        return any(each.is_outdated and requests_change(each.body) for each in self.threads_of(review))


def _decisions(of: tuple[str, int], request: _PullRequestData) -> Iterator[NewEntry | InvalidInput]:
    reviews = sorted(request.reviews, key=lambda review: (review.submitted_at or "", review.id))
    people: list[Review] = []
    for review in reviews:
        if review.state not in {"APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED"}:
            continue
        reason = _reason_against(request, review)
        if reason is None:
            people.append(review)
        elif review.state != "COMMENTED":
            yield InvalidInput(_where(of, review), reason)
    rejections = [each for at, each in enumerate(people) if _is_rejection(request, each, people[at + 1 :])]
    last = max((people.index(each) for each in rejections), default=-1)
    is_accepted = any(each.state == "APPROVED" for each in people[last + 1 :])
    is_abandoned = request.pull is not None and request.pull.is_closed_without_merge
    for review in rejections:
        later = people[people.index(review) + 1 :]
        approval = _approval_after(review, later) if is_accepted and not is_abandoned else None
        yield _rejection(of, request, review, approval, _where(of, review))
    if rejections:
        return
    unanswered = [each for each in people if each.state == "COMMENTED" and request.objects(each)]
    first = next((each for each in people if each.state == "APPROVED"), None)
    if first is None:
        yield from (InvalidInput(_where(of, each), _NO_REVISION) for each in unanswered)
    elif unanswered:
        yield InvalidInput(_where(of, first), _UNANSWERED)
    elif not any(each.state == "DISMISSED" for each in reviews):  # it may have been a rejection
        yield _approval(of, request, first, _where(of, first))  # further approvals add nothing


def _where(of: tuple[str, int], review: Review) -> str:
    return f"review {review.id} of pull request {of[0]}#{of[1]}"


def _reason_against(request: _PullRequestData, review: Review) -> str | None:
    """Return why a review decides nothing; None for one by a person other than the author."""
    if review.user.is_bot:
        return "is by a bot, not a person"
    if review.state == "DISMISSED":
        return "was dismissed: its decision is not available any more"
    return _OWN if review.user.login and review.user.login == request.author else None


def _is_rejection(request: _PullRequestData, review: Review, later: Sequence[Review]) -> bool:
    """Return whether a review turned the pull request down: it requested changes, or objected and a revision followed.

    Without commits in the file, an approval that follows is taken to be of a later revision.
    """
    if review.state == "CHANGES_REQUESTED":
        return True
    if review.state != "COMMENTED":
        return False
    if request.changed_a_line(review):
        return True
    is_revised = any(
        each.commit_id != review.commit_id if each.commit_id and review.commit_id else each.state == "APPROVED"
        for each in later
    )
    return is_revised and request.objects(review)


def _approval_after(review: Review, later: Sequence[Review]) -> Review | None:
    approvals = [each for each in later if each.state == "APPROVED"]
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
    if request.pull.is_closed_without_merge:
        return InvalidInput(where, _NOT_MERGED)
    if not request.author:
        return InvalidInput(where, _MISSING_AUTHOR)
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
