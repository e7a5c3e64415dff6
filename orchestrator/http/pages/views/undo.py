"""Taking a decision back while it waits to be done."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import JSONResponse, Response

from hardwon.models.deeds import DeedId
from orchestrator.http.pages.forms import read_form
from orchestrator.http.pages.shell import HEADERS, PageRequest

_BACK: Final = re.compile(r"waiting|patterns(/[0-9a-f-]{36})?")
"""The pages that a decision is made on."""


async def undo_deed(page: PageRequest) -> Response:
    """Undo a decision, and go back to where it was made."""
    form = await read_form(page.request)
    await page.knowledge.deeds.undo(DeedId(page.segment_id(1)))
    if page.wants_json:
        return JSONResponse({"undone": True}, headers=HEADERS)
    back = form.text("back")
    return page.redirect(back if _BACK.fullmatch(back) else "waiting", done="undone")
