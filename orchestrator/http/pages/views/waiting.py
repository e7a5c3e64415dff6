"""The page of what waits for a person: entries held for review, failures and rejections without a resolution."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import JSONResponse, Response

from hardwon.errors import Conflict, HardwonError, InvalidInput
from hardwon.models.deeds import DeedKind
from knowledge.memory.curation.review_queue import id_of_texts
from knowledge.models import Entry, EntryId, EntryType
from orchestrator.http.pages.forms import Form, read_form
from orchestrator.http.pages.rendering.suspicion import mark_entry
from orchestrator.http.pages.shell import HEADERS, PageRequest, count_waiting, find_decided

SHOWN: Final = 50
"""Entries of each kind on one page, ours."""
DONE: Final = {
    "approved": "Approved",
    "rejected": "Rejected: it is deleted in half a minute",
    "resolved": "Saved: the next checkpoint embeds it",
    "abandoned": "Abandoned: it is deleted in half a minute",
    "undone": "Taken back",
}
_KINDS: Final = (None, "review", "open")


@dataclass(frozen=True, slots=True)
class Typed:
    """The form of an entry as it was typed where it was refused, with what is wrong at which field."""

    entry_id: str = ""
    values: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


async def show_waiting(page: PageRequest, typed: Typed | None = None, *, status: int = 200) -> Response:
    """Show what waits; with the form of one entry as it was typed, where it was refused."""
    kind = page.parameter("kind")
    if kind not in _KINDS:
        raise InvalidInput("kind", "must be review or open")
    may_review, principal = page.principal.may("reviews.waiting"), page.principal
    held = await page.knowledge.reviews.waiting(limit=SHOWN) if may_review and kind != "open" else []
    unsolved: Sequence[Entry] = []
    if kind != "review" and (principal.may("capture.unresolved") or not may_review):
        unsolved = await page.knowledge.capture.unresolved(limit=SHOWN)
    decided = await find_decided(page.knowledge)
    held = [entry for entry in held if entry.entry_id not in decided]
    unsolved = [entry for entry in unsolved if entry.entry_id not in decided]
    marked = await asyncio.to_thread(lambda: [mark_entry(entry) for entry in held])
    return await page.render(
        "waiting.html",
        status=status,
        here="waiting",
        held=marked,
        unsolved=unsolved,
        kind=kind,
        shown=SHOWN,
        may_review=may_review,
        may_resolve=principal.may("capture.resolve_failure"),
        may_delete=principal.may("deeds.delete"),
        typed=typed or Typed(),
        done=page.notice(DONE),
        is_rejection=lambda entry: entry.entry_type is EntryType.GATE_REJECTION,
    )


async def show_state(page: PageRequest) -> Response:
    """Answer with what changes on every page by itself: the number of things that wait."""
    return JSONResponse({"waiting": await count_waiting(page.knowledge)}, headers=HEADERS)


async def approve(page: PageRequest) -> Response:
    """Approve an entry that is held for review."""
    form = await read_form(page.request)
    entry_id, seen = _entry_id(page), form.text("seen")
    if seen and seen != str(id_of_texts(await page.knowledge.reviews.show(entry_id))):
        raise Conflict("what was told was changed since this page was made: load it again, and read it anew")
    deed = await page.knowledge.deeds.decide(DeedKind.APPROVE, entry_id=entry_id)
    return page.answer_deed(deed, "waiting", done="approved", kind=form.text("kind"))


async def reject(page: PageRequest) -> Response:
    """Delete an entry that is held for review."""
    form = await read_form(page.request)
    deed = await page.knowledge.deeds.decide(DeedKind.REJECT, entry_id=_entry_id(page))
    return page.answer_deed(deed, "waiting", done="rejected", kind=form.text("kind"))


async def abandon(page: PageRequest) -> Response:
    """Delete an open entry that nobody will resolve."""
    form = await read_form(page.request)
    deed = await page.knowledge.deeds.delete(entry_id=_entry_id(page))
    return page.answer_deed(deed, "waiting", done="abandoned", kind=form.text("kind"))


async def resolve(page: PageRequest) -> Response:
    """Give an open failure or rejection its resolution, or show again what was typed and what is wrong with it."""
    form = await read_form(page.request)
    entry_id = _entry_id(page)
    entry = await page.knowledge.capture.get(entry_id)
    try:
        _check_filled(form, entry)
        if entry.entry_type is EntryType.GATE_REJECTION:
            await page.knowledge.capture.resolve_gate_rejection(
                entry_id, revision_approach=form.text("solution"), verified_by=form.text("verified_by").strip() or None
            )
        else:
            await page.knowledge.capture.resolve_failure(
                entry_id, solution_steps=form.text("solution"), verified_by=form.text("verified_by")
            )
    except (InvalidInput, Conflict) as error:
        return await show_waiting(page, _typed_again(entry_id, form, error), status=422)
    return page.redirect("waiting", kind=form.text("kind"), done="resolved")


def _check_filled(form: Form, entry: Entry) -> None:
    """Raise InvalidInput for a field that has to be filled in."""
    if not form.text("solution").strip():
        raise InvalidInput("solution", "say what worked: the steps, as you would tell a colleague")
    if entry.entry_type is not EntryType.GATE_REJECTION and not form.text("verified_by").strip():
        raise InvalidInput("verified_by", "say what showed that it works, such as the name of a test")


def _typed_again(entry_id: EntryId, form: Form, error: HardwonError) -> Typed:
    """Return the form as it was typed, with the error at its field."""
    name = error.field if isinstance(error, InvalidInput) else "solution"
    name = {"solution_steps": "solution", "revision_approach": "solution"}.get(name, name)
    reason = error.reason if isinstance(error, InvalidInput) else str(error)
    values = {each: form.text(each) for each in ("solution", "verified_by")}
    return Typed(str(entry_id), values, {name if name in values else "solution": reason})


def _entry_id(page: PageRequest) -> EntryId:
    return EntryId(page.segment_id(1))
