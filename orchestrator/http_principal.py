"""Who asks over HTTP: whoever the key names; without keys, whoever can reach the server."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from knowledge.documents.access import Principal
from knowledge.documents.service import LOCAL, KnowledgeBases
from orchestrator.http_opened import Open


def _asking(request: Request) -> Principal:
    named = getattr(request.state, "document_principal", None)
    return named if isinstance(named, Principal) else LOCAL


Asking = Annotated[Principal, Depends(_asking)]


def _bases(knowledge: Open, principal: Asking) -> KnowledgeBases:
    return knowledge.documents.asked_by(principal)


Bases = Annotated[KnowledgeBases, Depends(_bases)]
