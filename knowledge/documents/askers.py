"""Whoever has a key, as documents know them: by the name of the key."""

from __future__ import annotations

from knowledge.access.principals import Principal, Scope, Trust
from knowledge.documents.access import Principal as Asker
from knowledge.documents.service import LOCAL


def asker(principal: Principal) -> Asker:
    """Return who asks for documents. An `admin` key, and whoever needs none, manages them all.

    A key of the scope `documents` stands for the user, or the agent, that it is named after: it reads and writes that
    one's base, and the cases and teams it was given access to. A key without a name is known by its id.
    """
    if principal.trust is not Trust.KEY:
        return LOCAL
    return Asker(name=principal.name or principal.key_id or "nobody", admin=Scope.ADMIN in principal.scopes)
