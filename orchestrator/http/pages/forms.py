"""Forms of the pages: what was typed, checked to come from a page of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from hardwon.errors import AccessDenied, InvalidInput
from orchestrator.http.middleware.page_sessions import SESSION, Session, is_same_origin

MAX_FIELDS: Final = 2000
"""Fields of one form, ours: a split may name a thousand entries."""
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form that was sent."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        """Return what was typed into a field, empty where it is missing."""
        return self.fields.get(name, [""])[0].replace("\r\n", "\n")

    def chosen(self, name: str) -> Sequence[str]:
        """Return all values of a field."""
        return self.fields.get(name, [])


async def read_form(request: Request) -> Form:
    """Return the form of a request. Raises InvalidInput, or AccessDenied for one that no page of ours sent."""
    check_origin(request)
    try:
        body = (await request.body()).decode()
        fields = parse_qs(body, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidInput("form", "cannot be read: it has too many fields, or is not UTF-8") from error
    form = Form(fields)
    session: Session | None = request.scope.get(SESSION)
    if session is not None and form.text(TOKEN_FIELD) != session.form_token:
        raise AccessDenied("this form is of another session, or of no page of this server: load the page again")
    return form


def check_origin(request: Request) -> None:
    """Raise AccessDenied for a form of another site. Without a session, the key itself shows who sent it."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    has_session = request.scope.get(SESSION) is not None
    if (has_session or origin is not None) and not is_same_origin(origin, host):
        raise AccessDenied("this form was sent from another site: open the page here, and send it again")
