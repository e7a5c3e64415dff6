"""An embedder that can be exchanged while it is in use: what a change of model does in a running process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from knowledge.adapters.recognising import RecognisingEmbedder
from knowledge.errors import HardwonError
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import Embedder, SpaceStore


class EmbedderSwitch(Embedder):
    """Passes calls on to the embedder in use; keeps one for each space that was in use, to answer for it.

    What another one took the place of is closed once no call runs there, what is left when this is closed.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._used = [_Place(embedder)]
        self._made: list[Embedder] = []
        self._spaces: SpaceStore | None = None

    def recognise_by(self, spaces: SpaceStore) -> None:
        """Have the models of endpoints recognised from now on by what this store keeps of them."""
        self._spaces = spaces
        for place in self._used:
            place.embedder = self._recognising(place.embedder)

    async def use(self, embedder: Embedder) -> None:
        """Use another embedder from now on, in place of one of its space; the others still answer for theirs."""
        space = await embedder.space()
        place = await self._place_of(space)
        if place is None:
            self._used.append(_Place(self._recognising(embedder)))
            return
        self._used = [*(each for each in self._used if each is not place), place]
        await place.exchange(self._recognising(embedder))

    def keep(self, embedder: Embedder) -> Embedder:
        """Return an embedder as it is to be used; it is closed with the others unless it is `let_go` before."""
        self._made.append(embedder)
        return self._recognising(embedder)

    async def let_go(self, embedder: Embedder) -> None:
        """Close an embedder of `keep`, unless it came into use."""
        inner = _inner(embedder)
        self._made = [each for each in self._made if each is not inner]
        if not any(_inner(place.embedder) is inner for place in self._used):
            await inner.aclose()

    def _recognising(self, embedder: Embedder) -> Embedder:
        if self._spaces is None or isinstance(embedder, RecognisingEmbedder):
            return embedder
        return RecognisingEmbedder(embedder, self._spaces)

    async def _place_of(self, space: EmbeddingSpace) -> _Place | None:
        for place in reversed(self._used):
            try:
                known = await place.space()
            except HardwonError:  # of a model that is away, and its place with it
                continue
            if known.fingerprint == space.fingerprint:
                return place
        return None

    @property
    def enough_at_once(self) -> int | None:
        return self._used[-1].enough_at_once

    async def space(self) -> EmbeddingSpace:
        return await self._used[-1].space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        return await self._used[-1].embed(texts, kind)

    async def recognise(self, space: EmbeddingSpace) -> None:
        await self._used[-1].recognise(space)

    def forget(self) -> None:
        for place in self._used:
            place.forget()

    async def of_space(self, space: EmbeddingSpace) -> Embedder:
        for place in reversed(self._used):
            if (await place.space()).fingerprint == space.fingerprint:
                return place
        return self._used[-1]

    async def aclose(self) -> None:
        async with AsyncExitStack() as closing:  # all of them, whatever one of them raises
            for embedder in (*self._used, *self._made):
                closing.push_async_callback(embedder.aclose)


class _Place(Embedder):
    """The embedder of a space, which may be exchanged for another one of it: whoever holds the place goes on."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._calls: dict[object, Embedder] = {}
        """Those that run, each with the embedder that was here when it began."""

    async def exchange(self, embedder: Embedder) -> None:
        """Put another embedder here; close the one before, or have the last call that runs there do so."""
        before, self.embedder = self.embedder, embedder
        await self._close_if_left(_inner(before))

    async def _close_if_left(self, inner: Embedder) -> None:
        if not any(each is inner for each in (_inner(self.embedder), *self._calls.values())):
            await inner.aclose()

    @asynccontextmanager
    async def _calling(self) -> AsyncIterator[Embedder]:
        embedder, call = self.embedder, object()
        self._calls[call] = _inner(embedder)
        try:
            yield embedder
        finally:
            await self._close_if_left(self._calls.pop(call))

    @property
    def enough_at_once(self) -> int | None:
        return self.embedder.enough_at_once

    async def space(self) -> EmbeddingSpace:
        async with self._calling() as embedder:
            return await embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        async with self._calling() as embedder:
            return await embedder.embed(texts, kind)

    async def recognise(self, space: EmbeddingSpace) -> None:
        async with self._calling() as embedder:
            await embedder.recognise(space)

    def forget(self) -> None:
        self.embedder.forget()

    async def aclose(self) -> None:
        for embedder in (self.embedder, *self._calls.values()):
            await embedder.aclose()


def _inner(embedder: Embedder) -> Embedder:
    """Return an embedder without what recognises it: one may have been given that twice."""
    return embedder.embedder if isinstance(embedder, RecognisingEmbedder) else embedder
