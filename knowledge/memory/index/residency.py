"""Local-only workspaces: checked before each call that would send a text to an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hardwon.errors import LOCAL_PROVIDER, LocalOnly
from knowledge.access.quota import charge_quota, estimate_tokens
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import Embedder, Stores


async def refuse_endpoint(stores: Stores, what: str) -> None:
    """Raise LocalOnly where the workspace is local only; `what`: the operation that would call the endpoint."""
    if await stores.spaces.local_only():
        raise LocalOnly(stores.workspace, what)


async def refuse_remote(stores: Stores, space: EmbeddingSpace) -> None:
    """Raise LocalOnly where the workspace is local only and the space's embedder is remote."""
    if space.provider != LOCAL_PROVIDER:
        await refuse_endpoint(stores, f"embedding with {space.model}")


@dataclass(frozen=True, slots=True)
class WorkspaceEmbedder(Embedder):
    """Embedder for the texts of one workspace: refuses remote calls of a local-only workspace.

    Also refuses those beyond the workspace's daily budget.
    """

    stores: Stores
    embedder: Embedder

    @property
    def efficient_batch_size(self) -> int | None:
        """Return the embedder's value."""
        return self.embedder.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        """Return the embedder's space."""
        return await self.embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed texts. Raises LocalOnly, BudgetSpent, or what the embedder raises."""
        space = await self.embedder.space()
        if space.provider == LOCAL_PROVIDER:
            return await self.embedder.embed(texts, kind)
        await refuse_remote(self.stores, space)
        async with charge_quota(self.stores, estimate_tokens(texts)) as bill:
            embedded = await self.embedder.embed(texts, kind)
            bill.tokens = embedded.tokens
            return embedded

    async def recognise(self, space: EmbeddingSpace) -> None:
        """Have the embedder verify that it still produces the vectors of a space."""
        await self.embedder.recognise(space)

    def forget(self) -> None:
        """Clear the embedder's cache."""
        self.embedder.forget()

    async def embedder_for(self, space: EmbeddingSpace) -> Embedder:
        """Return the embedder of a space, for the same texts."""
        return WorkspaceEmbedder(self.stores, await self.embedder.embedder_for(space))

    async def aclose(self) -> None:
        """Close the embedder."""
        await self.embedder.aclose()
