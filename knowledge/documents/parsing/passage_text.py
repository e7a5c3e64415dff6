"""Texts and ids of passages for embedding and lexical search, shared by all that compare them."""

from __future__ import annotations

import hashlib
from typing import Final
from uuid import UUID, uuid5

from hardwon.models.documents import DocumentId, PassageId
from knowledge.documents.models import Chunk

_PASSAGES: Final = UUID("7c6f3f0c-5a0e-4b1e-9d2a-0d6f4f0e8a11")

MEAN_TERMS: Final = 160.0
"""Mean number of terms of a passage, which normalises lexical scores; fixed, so that stored vectors stay comparable."""


def passage_id(document_id: DocumentId, generation: int, ordinal: int) -> PassageId:
    """Return the id of a chunk and of its point: deterministic, so that a retry writes the same."""
    return PassageId(uuid5(_PASSAGES, f"{document_id}/{generation}/{ordinal}"))


def text_passage_id(document_id: DocumentId, generation: int, text: str) -> PassageId:
    """Return the id of a computed passage."""
    return PassageId(uuid5(_PASSAGES, f"{document_id}/{generation}/{text}"))


def text_to_embed(title: str, chunk: Chunk) -> str:
    """Return the text to embed for a chunk: title, section and function, then its text."""
    return with_headings(title, chunk.section, chunk.function, chunk.text)


def with_headings(title: str, section: str | None, function: str | None, text: str) -> str:
    """Return a text below its title, section and function, each once."""
    head = [part for part in (title, section, function) if part]
    return "\n".join([*dict.fromkeys(head), text])


def text_hash(text: str) -> bytes:
    """Return the hash that an embedding is stored under."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
