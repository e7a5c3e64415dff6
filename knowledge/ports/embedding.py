"""Embedders and chat models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from knowledge.models import Embeddings, EmbeddingSpace


class Embedder(Protocol):
    """Texts to vectors of one embedding space. Batching, retries and limits are the adapter's."""

    @property
    def efficient_batch_size(self) -> int | None:
        """Batch size from which on a larger batch is no faster per text; None: the larger the better.

        With a number, the embedder works in this process: an unused call sends nothing to anyone, and calls queue up,
        so that one may be made while another runs, and follows it without a pause.
        """
        return None

    async def space(self) -> EmbeddingSpace:
        """Return the space of every vector this makes; the first call may load weights or ask the endpoint."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed any number of non-blank texts, in order.

        Raises EmbedderUnavailable (worth a retry) or EmbedderRejected (never worth one).
        """

    async def recognise(self, space: EmbeddingSpace) -> None:  # noqa: ARG002 - most know their model by its weights
        """Raise ModelReplaced if this model no longer embeds as it did when the vectors of a space were stored."""
        return

    def forget(self) -> None:
        """Clear the cache of embeddings, if there is one."""
        return

    async def embedder_for(self, space: EmbeddingSpace) -> Embedder:  # noqa: ARG002 - most know one space only
        """Return the embedder of a space if it is open here, else one whose space differs."""
        return self

    async def aclose(self) -> None:
        """Free weights, threads and connections."""


class ChatModel(Protocol):
    """A model that answers a text under instructions. Retries and limits are the adapter's."""

    @property
    def model(self) -> str:
        """The model's name, as the endpoint knows it."""

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        """Return the answer to a text; `as_json` asks for one JSON object, which the caller still has to check.

        Raises ChatUnavailable (worth a retry), QuestionRejected (of this text) or ChatRejected (of any).
        """

    async def aclose(self) -> None:
        """Free the connections."""
