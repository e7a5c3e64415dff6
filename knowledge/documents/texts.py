"""What is embedded and counted of a passage, in one place for all that compare them."""

from __future__ import annotations

import hashlib
from typing import Final
from uuid import UUID, uuid5

from knowledge.documents.models import Chunk, DocumentId, PassageId

_PASSAGES: Final = UUID("7c6f3f0c-5a0e-4b1e-9d2a-0d6f4f0e8a11")

MEAN_TERMS: Final = 160.0
"""Mean number of terms of a passage that lexical scores are normalised by; fixed, so that stored vectors stay alike."""


def passage_id(document_id: DocumentId, generation: int, ordinal: int) -> PassageId:
    """Return the id of a chunk and of its point: derived, so that whatever is repeated writes the same."""
    return PassageId(uuid5(_PASSAGES, f"{document_id}/{generation}/{ordinal}"))


def computed_id(document_id: DocumentId, generation: int, text: str) -> PassageId:
    """Return the id of a computed passage."""
    return PassageId(uuid5(_PASSAGES, f"{document_id}/{generation}/{text}"))


def embedded_text(title: str, chunk: Chunk) -> str:
    """Return what is embedded of a chunk: the names of what it is part of, then its text."""
    return told_above(title, chunk.section, chunk.function, chunk.text)


def told_above(title: str, section: str | None, function: str | None, text: str) -> str:
    """Return a text below the names of what it is part of, each once."""
    head = [part for part in (title, section, function) if part]
    return "\n".join([*dict.fromkeys(head), text])


def text_hash(text: str) -> bytes:
    """Return what an embedding is kept by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
