"""What embeds, and the chat model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from knowledge.models import Embeddings, EmbeddingSpace


class Embedder(Protocol):
    """Texts to vectors of one embedding space. Batching, retries and limits are the adapter's."""

    @property
    def enough_at_once(self) -> int | None:
        """How many texts one call embeds as quickly, each, as it would more of them; None: the more the better.

        With a number, it works in this process: a call made in vain sends nothing anywhere, and calls wait in line, so
        that one may be made while another is under way, and follows it without a pause.
        """
        return None

    async def space(self) -> EmbeddingSpace:
        """Return the space of every vector this makes; the first call may load weights or ask the endpoint."""
        ...

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed any number of non-blank texts, in order.

        Raises EmbedderUnavailable (worth a retry) or EmbedderRejected (never worth one).
        """
        ...

    async def recognise(self, space: EmbeddingSpace) -> None:  # noqa: ARG002 - most know their model by its weights
        """Raise ModelReplaced where this embeds otherwise than what is stored in a space was embedded."""
        return

    def forget(self) -> None:
        """Forget what was embedded lately, where anything is kept of it."""
        return

    async def of_space(self, space: EmbeddingSpace) -> Embedder:  # noqa: ARG002 - most know one space only
        """Return the embedder of a space among those known here; where none is, one whose space differs."""
        return self

    async def aclose(self) -> None:
        """Free weights, threads and connections."""
        ...


class ChatModel(Protocol):
    """A model that answers a text under instructions. Retries and limits are the adapter's."""

    @property
    def model(self) -> str:
        """The model's name, as the endpoint knows it."""
        ...

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        """Return the answer to a text; `as_json` asks for one JSON object, which the caller still has to check.

        Raises ChatUnavailable (worth a retry), QuestionRejected (of this text) or ChatRejected (of any).
        """
        ...

    async def aclose(self) -> None:
        """Free the connections."""
        ...
