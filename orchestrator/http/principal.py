"""Who asks over HTTP: whoever the key names; without keys, whoever can reach the server."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from knowledge.documents.access import Principal
from knowledge.documents.askers import asker
from knowledge.documents.service import KnowledgeBases
from knowledge.errors import NoAccess
from orchestrator.http.opened import Open


async def _asking(knowledge: Open) -> Principal:
    return asker(knowledge.principal)


Asking = Annotated[Principal, Depends(_asking)]


async def _bases(knowledge: Open, principal: Asking) -> KnowledgeBases:
    return knowledge.documents.for_principal(principal)


Bases = Annotated[KnowledgeBases, Depends(_bases)]


def check_operator(principal: Principal) -> None:
    """Raise NoAccess unless a principal may see what was asked and how it was answered."""
    if not principal.admin:
        raise NoAccess("events, escalations and figures are for administrators")


async def _operator(principal: Asking) -> Principal:
    check_operator(principal)
    return principal


Operator = Annotated[Principal, Depends(_operator)]
"""Who may see what was asked and how it was answered."""
