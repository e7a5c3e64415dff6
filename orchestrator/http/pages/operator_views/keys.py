"""Keys: who may do what, when each was used, and making, rotating and revoking them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from hardwon.errors import InvalidInput
from hardwon.models.access import NewKey, Scope
from orchestrator.http.pages.forms import Form, read_form
from orchestrator.http.pages.shell import PageRequest

SHOWN: Final = 100
LIFETIMES: Final[Mapping[str, tuple[str, timedelta | None]]] = {
    "90": ("90 days", timedelta(days=90)),
    "365": ("a year", timedelta(days=365)),
    "": ("no end", None),
}
SCOPES: Final[Mapping[Scope, str]] = {
    Scope.CAPTURE: "tell what was learned: for agents",
    Scope.QUERY: "ask, and tell outcomes: for orchestrators",
    Scope.DOCUMENTS: "ask documents, and add some",
    Scope.REVIEW: "decide on what is held, join and split patterns",
    Scope.ADMIN: "everything",
}
DONE: Final = {"revoked": "Revoked: it opens nothing any more"}


@dataclass(frozen=True, slots=True)
class Typed:
    """The form of a new key as it was typed, with what is wrong at which field."""

    name: str = ""
    scopes: tuple[str, ...] = ()
    lifetime: str = "90"
    errors: Mapping[str, str] = field(default_factory=dict)


async def show_keys(
    page: PageRequest, *, typed: Typed | None = None, new: NewKey | None = None, status: int = 200
) -> Response:
    """Show the keys; a new one's secret is in this answer alone."""
    keys = await page.knowledge.keys.list(limit=SHOWN)
    now = page.now
    return await page.render(
        "keys.html",
        status=status,
        here="keys",
        keys=sorted(keys, key=lambda key: (not key.is_live(now), key.name or "", key.key_id)),
        shown=SHOWN,
        new=new,
        typed=typed or Typed(),
        scopes=SCOPES,
        lifetimes=LIFETIMES,
        done=page.notice(DONE),
    )


async def create(page: PageRequest) -> Response:
    """Make a key of this workspace, and show its secret once."""
    form = await read_form(page.request)
    typed = _read_typed(form)
    try:
        new = await page.knowledge.keys.create(
            typed.scopes,
            workspace=page.workspace,
            name=typed.name.strip() or None,
            expires_in=LIFETIMES.get(typed.lifetime, LIFETIMES["90"])[1],
        )
    except InvalidInput as error:
        errors = {error.field if error.field in {"name", "scope"} else "name": error.reason}
        again = Typed(typed.name, typed.scopes, typed.lifetime, errors)
        return await show_keys(page, typed=again, status=422)
    return await show_keys(page, new=new, status=201)


async def rotate(page: PageRequest) -> Response:
    """Put a new key in the place of one, which stays valid for a day, and show its secret once."""
    await read_form(page.request)
    return await show_keys(page, new=await page.knowledge.keys.rotate(page.path[1]), status=201)


async def revoke(page: PageRequest) -> Response:
    """Revoke a key for good."""
    await read_form(page.request)
    await page.knowledge.keys.revoke(page.path[1])
    return page.redirect("keys", done="revoked")


def _read_typed(form: Form) -> Typed:
    return Typed(form.text("name"), tuple(form.chosen("scope")), form.text("lifetime"))
