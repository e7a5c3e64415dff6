"""The audit log: who decided what, and whether the log is as it was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from hardwon.errors import InvalidInput
from hardwon.models.access import AuditEntry, ChainReport
from orchestrator.http.pages.forms import read_form
from orchestrator.http.pages.shell import PageRequest

SHOWN: Final = 50
_SEARCHED: Final = 1000
"""Latest decisions that a search looks through."""


async def show_audit(page: PageRequest, *, report: ChainReport | None = None) -> Response:
    """Show the latest decisions, or those with some words in them."""
    words, after = page.parameter("q"), page.parameter("after")
    if after is not None and not after.isdecimal():
        raise InvalidInput("after", "must be the number of a decision")
    whole_store = page.parameter("of") == "store"
    limit = _SEARCHED if words else SHOWN + 1
    rows = await page.knowledge.audits.list(
        limit=limit, after=None if after is None else int(after), whole_store=whole_store
    )
    if words:
        rows = [row for row in rows if _has_words(row, words)]
    return await page.render(
        "audit.html",
        here="audit",
        rows=[(row, _read_details(row)) for row in rows[:SHOWN]],
        after=rows[SHOWN - 1].number if len(rows) > SHOWN else None,
        words=words,
        searched=_SEARCHED,
        report=report,
        whole_store=whole_store,
        may_see_store=page.principal.workspace is None,
    )


async def verify(page: PageRequest) -> Response:
    """Check that the log was not changed, and show what was found above it."""
    await read_form(page.request)
    whole_store = page.parameter("of") == "store"
    return await show_audit(page, report=await page.knowledge.audits.verify(whole_store=whole_store))


def _has_words(row: AuditEntry, words: str) -> bool:
    text = f"{row.who} {row.what} {row.details}".lower()
    return all(word in text for word in words.lower().split())


def _read_details(row: AuditEntry) -> Mapping[str, object]:
    """Return the details of a decision by name."""
    try:
        read = json.loads(row.details)
    except ValueError:
        return {"details": row.details}
    return read if isinstance(read, dict) else {"details": row.details}
