"""The principal of document requests over HTTP: the one that the key names; without keys, any caller."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from hardwon.errors import NoAccess
from knowledge.documents.access import Principal
from knowledge.documents.requesters import asker
from knowledge.documents.service import KnowledgeBases
from orchestrator.http.operation_route import CallerKnowledge


async def _document_principal(knowledge: CallerKnowledge) -> Principal:
    return asker(knowledge.principal)


DocumentPrincipal = Annotated[Principal, Depends(_document_principal)]


async def _bases(knowledge: CallerKnowledge, principal: DocumentPrincipal) -> KnowledgeBases:
    return knowledge.documents.for_principal(principal)


Bases = Annotated[KnowledgeBases, Depends(_bases)]


def check_operator(principal: Principal) -> None:
    """Raise NoAccess unless a principal may see the journal of answers."""
    if not principal.admin:
        raise NoAccess("events, escalations and figures are for administrators")


async def _operator(principal: DocumentPrincipal) -> Principal:
    check_operator(principal)
    return principal


Operator = Annotated[Principal, Depends(_operator)]
"""A principal that may see the journal of answers."""
