"""One pattern: what failed and what worked, its record, its rivals, its evidence, and what a person may do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.responses import Response

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.deeds import DeedKind
from hardwon.models.patterns import Pattern, PatternDetails, PatternPair
from hardwon.validation import as_id
from knowledge.models import Entry, EntryId, PatternId
from orchestrator.http.pages.forms import Form, read_form
from orchestrator.http.pages.rendering.words import count_weeks, is_losing, likely_share, outcome_letters
from orchestrator.http.pages.shell import PageRequest

SHOWN_ATTEMPTS: Final = 500
SHOWN_ENTRIES: Final = 50
DONE: Final = {
    "joined": "Joined in half a minute: then the evidence of both counts here",
    "split": "Split off in half a minute: the ticked entries become a pattern of their own",
    "undone": "Taken back",
    "tagged": "The tags are stored: the list of patterns can be filtered by them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another pattern beside this one, and why: a rival of the same situation, or a likely twin."""

    pattern: Pattern
    probability: float
    why: Sequence[str]


async def show_pattern(
    page: PageRequest,
    *,
    split_error: str | None = None,
    typed_tags: str | None = None,
    tags_error: str | None = None,
    status: int = 200,
) -> Response:
    """Show a pattern; one that was joined to another leads there."""
    pattern_id = _pattern_id(page)
    may_edit = page.principal.may("grouping.show")
    if may_edit:
        details = await page.knowledge.grouping.show(pattern_id)
    else:
        pattern = await page.knowledge.queries.get(pattern_id)
        details = PatternDetails(pattern=pattern, entries=(), twins=(), rivals=())
    pattern = details.pattern
    if pattern.pattern_id != pattern_id:
        return page.redirect(f"patterns/{pattern.pattern_id}")
    attempts = await page.knowledge.lists.attempts(pattern_id, limit=SHOWN_ATTEMPTS)
    rivals = sorted(
        (_neighbour(pair, pattern_id) for pair in details.rivals),
        key=lambda rival: -_mean(rival.pattern),
    )
    return await page.render(
        "pattern.html",
        status=status,
        here="patterns",
        pattern=pattern,
        told=details.entries[0] if details.entries else None,
        entries=sorted(details.entries, key=lambda entry: entry.captured_at, reverse=True)[:SHOWN_ENTRIES],
        twins=[_neighbour(pair, pattern_id) for pair in details.twins],
        rivals=rivals,
        leads=all(_beats(pattern, rival.pattern) for rival in rivals),
        dead_ends=[each for each in rivals if is_losing(each.pattern.success_count, each.pattern.attempt_count)],
        attempts=attempts,
        letters=outcome_letters(attempts),
        last_failure=next((attempt.at for attempt in attempts if not attempt.worked), None),
        weeks=await asyncio.to_thread(count_weeks, attempts, page.now),
        likely=likely_share(pattern.success_count, pattern.attempt_count),
        expires_at=_last_expiry(details.entries),
        failed=[attempt for attempt in attempts if not attempt.worked][:SHOWN_ENTRIES],
        may_edit=may_edit,
        may_tag=page.principal.may("corrections.tag"),
        typed_tags=", ".join(pattern.tags) if typed_tags is None else typed_tags,
        tags_error=tags_error,
        may_delete=page.principal.may("deeds.delete"),
        is_whole=page.parameter("whole") is not None,
        split_error=split_error,
        done=page.notice(DONE),
    )


async def join(page: PageRequest) -> Response:
    """Join a likely twin to this pattern."""
    form = await read_form(page.request)
    try:
        other = PatternId(as_id("other", form.text("other")))
    except InvalidInput as error:
        raise NotFound("the pattern to join is not named: open this one again") from error
    pattern_id = _pattern_id(page)
    deed = await page.knowledge.deeds.decide(DeedKind.JOIN, pattern_id=pattern_id, other=other)
    return page.answer_deed(deed, f"patterns/{pattern_id}", done="joined")


async def split(page: PageRequest) -> Response:
    """Move the ticked entries to a pattern of their own; say at the table what is wrong with the choice."""
    form = await read_form(page.request)
    try:
        deed = await page.knowledge.deeds.decide(DeedKind.SPLIT, entry_ids=_chosen_entries(form))
    except InvalidInput as error:
        return await show_pattern(page, split_error=error.reason, status=422)
    return page.answer_deed(deed, f"patterns/{_pattern_id(page)}", done="split")


async def tag(page: PageRequest) -> Response:
    """Replace the tags of this pattern by those that were typed; say at the field what is wrong with them."""
    form = await read_form(page.request)
    typed = form.text("tags")
    try:
        pattern = await page.knowledge.corrections.tag(
            _pattern_id(page), [each for each in typed.split(",") if each.strip()]
        )
    except InvalidInput as error:
        return await show_pattern(page, typed_tags=typed, tags_error=error.reason, status=422)
    return page.redirect(f"patterns/{pattern.pattern_id}", done="tagged")


async def delete(page: PageRequest) -> Response:
    """Delete this pattern with all its entries."""
    await read_form(page.request)
    deed = await page.knowledge.deeds.delete(pattern_id=_pattern_id(page))
    return page.answer_deed(deed, "patterns", done="deleted")


def _chosen_entries(form: Form) -> Sequence[EntryId]:
    """Return the entries that were ticked. Raises InvalidInput for none."""
    chosen = [EntryId(as_id("entry", text)) for text in form.chosen("entry")]
    if not chosen:
        raise InvalidInput("entry_ids", "tick the entries that belong elsewhere")
    return chosen


def _pattern_id(page: PageRequest) -> PatternId:
    return PatternId(page.segment_id(1))


def _neighbour(pair: PatternPair, pattern_id: PatternId) -> Neighbour:
    """Return the other pattern of a pair."""
    other = next(each for each in pair.patterns if each.pattern_id != pattern_id)
    return Neighbour(pattern=other, probability=pair.probability, why=pair.why)


def _mean(pattern: Pattern) -> float:
    return likely_share(pattern.success_count, pattern.attempt_count)[0]


def _beats(pattern: Pattern, rival: Pattern) -> bool:
    """Return whether a pattern has a record at least as good as a rival's."""
    return _mean(pattern) >= _mean(rival)


def _last_expiry(entries: Sequence[Entry]) -> datetime | None:
    """Return when the last entry of a pattern expires, and the pattern with it."""
    return max((entry.expires_at for entry in entries if entry.expires_at is not None), default=None)
