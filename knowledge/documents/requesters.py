"""Principals of the document services, derived from API keys."""

from __future__ import annotations

from knowledge.access.principals import Principal, Scope, Trust
from knowledge.documents.access import Principal as Asker
from knowledge.documents.service import LOCAL


def asker(principal: Principal) -> Asker:
    """Return the document principal of a caller. An `admin` key, and a caller that needs no key, manages all documents.

    A key of the scope `documents` stands for the user or agent that it is named after: it reads and writes the base of
    that user, and the cases and teams it has access to. A key without a name is identified by its id.
    """
    if principal.trust is not Trust.KEY:
        return LOCAL
    return Asker(name=principal.name or principal.key_id or "nobody", admin=Scope.ADMIN in principal.scopes)
