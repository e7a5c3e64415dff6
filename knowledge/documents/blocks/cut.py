"""Cut a document into blocks by its type, cached by its text: derived from what is stored, so nothing else is; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cachetools import LRUCache, cached

from hardwon.models.documents import DocumentType
from knowledge.documents.blocks.config import code_blocks, config_blocks, line_blocks
from knowledge.documents.blocks.layout import layout_blocks
from knowledge.documents.blocks.markdown import markdown_blocks
from knowledge.documents.blocks.model import Block
from knowledge.documents.parsing.passage_text import text_hash

_MAX_CACHED_BLOCKS: Final = 200_000
_CUTTERS: Final[Mapping[DocumentType, Callable[[str], Sequence[Block]]]] = {
    DocumentType.MARKDOWN: markdown_blocks,
    DocumentType.TEXT: layout_blocks,
    DocumentType.CONFIG: config_blocks,
    DocumentType.CODE: code_blocks,
    DocumentType.LOG: line_blocks,
}


def cut_document(text: str, document_type: DocumentType) -> Sequence[Block]:
    """Return the blocks of a text."""
    return _cut_hashed(text_hash(text), text, document_type)


@cached(
    LRUCache(_MAX_CACHED_BLOCKS, getsizeof=lambda blocks: max(1, len(blocks))),
    key=lambda digest, _, document_type: (digest, document_type),
)
def _cut_hashed(digest: bytes, text: str, document_type: DocumentType) -> Sequence[Block]:  # noqa: ARG001
    return tuple(_CUTTERS[document_type](text))
