"""One entry: its texts as they were told, where it stands, its history, and its correction by a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from hardwon.errors import Conflict, InvalidInput
from hardwon.models.entries import EntryDetails
from knowledge.models import EntryId
from orchestrator.http.pages.forms import read_form
from orchestrator.http.pages.rendering.words import TEXTS
from orchestrator.http.pages.shell import PageRequest

DONE: Final = {"corrected": "Corrected: the texts of before are in the history"}


async def show_entry(
    page: PageRequest,
    *,
    typed: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Show an entry, with its form as it was typed where a correction was refused."""
    entry = await page.knowledge.capture.get(_entry_id(page))
    return await page.render(
        "entry.html",
        status=status,
        here="patterns",
        entry=entry,
        texts={name: label for name, label in TEXTS.items() if getattr(entry, name) is not None},
        labels=TEXTS,
        is_whole=page.parameter("whole") is not None,
        may_correct=page.principal.may("corrections.correct"),
        typed=typed or {},
        errors=errors or {},
        done=page.notice(DONE),
    )


async def correct(page: PageRequest) -> Response:
    """Replace the texts of an entry that were changed in its form."""
    form = await read_form(page.request)
    entry = await page.knowledge.capture.get(_entry_id(page))
    typed = {name: form.text(name) for name in (*TEXTS, "reason") if name in form.fields}
    changed = {name: text for name, text in typed.items() if name in TEXTS and _is_new(entry, name, text)}
    if blank := [name for name, text in changed.items() if not text.strip()]:
        errors = dict.fromkeys(blank, "must not be blank: delete the pattern where this was never so")
        return await show_entry(page, typed=typed, errors=errors, status=422)
    if not changed:
        return await show_entry(page, typed=typed, errors={"reason": "no text was changed"}, status=422)
    try:
        await page.knowledge.corrections.correct(
            entry.entry_id, **changed, reason=typed.get("reason", "").strip() or None
        )
    except (InvalidInput, Conflict) as error:
        name, reason = (error.field, error.reason) if isinstance(error, InvalidInput) else ("reason", str(error))
        errors = {name if name in TEXTS else "reason": reason}
        return await show_entry(page, typed=typed, errors=errors, status=422)
    return page.redirect(f"entries/{entry.entry_id}", done="corrected")


def _is_new(entry: EntryDetails, name: str, text: str) -> bool:
    """Return whether a field was changed; browsers send other line ends than those that are stored."""
    stored: str = getattr(entry, name) or ""
    return text != stored.replace("\r\n", "\n")


def _entry_id(page: PageRequest) -> EntryId:
    return EntryId(page.segment_id(1))
