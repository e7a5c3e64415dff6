"""An embedder that can be replaced while in use, for a change of model in a running process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from hardwon.errors import HardwonError
from knowledge.adapters.embedding.model_check import RecognisingEmbedder
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import Embedder, SpaceStore


class EmbedderSwitch(Embedder):
    """Delegates to the active embedder; keeps one for each space that was active, to answer for it.

    A replaced embedder is closed after its last call, all others when this is closed.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._places = [_Place(embedder)]
        self._spare: list[Embedder] = []
        self._spaces: SpaceStore | None = None

    def recognise_by(self, spaces: SpaceStore) -> None:
        """Recognise the models of endpoints from now on by the probes in this store."""
        self._spaces = spaces
        for place in self._places:
            place.embedder = self._with_recognition(place.embedder)

    async def use(self, embedder: Embedder) -> None:
        """Make an embedder active, replacing one of its space; the others still answer for theirs."""
        space = await embedder.space()
        place = await self._place_of(space)
        if place is None:
            self._places.append(_Place(self._with_recognition(embedder)))
            return
        self._places = [*(each for each in self._places if each is not place), place]
        await place.exchange(self._with_recognition(embedder))

    def keep(self, embedder: Embedder) -> Embedder:
        """Return an embedder as it is to be used; it is closed with the others unless it is `release` before."""
        self._spare.append(embedder)
        return self._with_recognition(embedder)

    async def release(self, embedder: Embedder) -> None:
        """Close an embedder of `keep`, unless it became active."""
        inner = _inner(embedder)
        self._spare = [each for each in self._spare if each is not inner]
        if not any(_inner(place.embedder) is inner for place in self._places):
            await inner.aclose()

    def _with_recognition(self, embedder: Embedder) -> Embedder:
        if self._spaces is None or isinstance(embedder, RecognisingEmbedder):
            return embedder
        return RecognisingEmbedder(embedder, self._spaces)

    async def _place_of(self, space: EmbeddingSpace) -> _Place | None:
        for place in reversed(self._places):
            try:
                served = await place.space()
            except HardwonError:  # its model is unavailable
                continue
            if served.fingerprint == space.fingerprint:
                return place
        return None

    @property
    def efficient_batch_size(self) -> int | None:
        return self._places[-1].efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        return await self._places[-1].space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        return await self._places[-1].embed(texts, kind)

    async def recognise(self, space: EmbeddingSpace) -> None:
        await self._places[-1].recognise(space)

    def forget(self) -> None:
        for place in self._places:
            place.forget()

    async def embedder_for(self, space: EmbeddingSpace) -> Embedder:
        for place in reversed(self._places):
            if (await place.space()).fingerprint == space.fingerprint:
                return place
        return self._places[-1]

    async def aclose(self) -> None:
        async with AsyncExitStack() as closing:  # all of them, whatever one of them raises
            for embedder in (*self._places, *self._spare):
                closing.push_async_callback(embedder.aclose)


class _Place(Embedder):
    """The embedder of a space, which can be exchanged while callers hold the place."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._calls: dict[object, Embedder] = {}
        """Running calls, each with the embedder at its beginning."""

    async def exchange(self, embedder: Embedder) -> None:
        """Exchange the embedder; close the one before now, or after the last call that runs there."""
        before, self.embedder = self.embedder, embedder
        await self._close_if_left(_inner(before))

    async def _close_if_left(self, inner: Embedder) -> None:
        if not any(each is inner for each in (_inner(self.embedder), *self._calls.values())):
            await inner.aclose()

    @asynccontextmanager
    async def _track_call(self) -> AsyncIterator[Embedder]:
        embedder, call = self.embedder, object()
        self._calls[call] = _inner(embedder)
        try:
            yield embedder
        finally:
            await self._close_if_left(self._calls.pop(call))

    @property
    def efficient_batch_size(self) -> int | None:
        return self.embedder.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        async with self._track_call() as embedder:
            return await embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        async with self._track_call() as embedder:
            return await embedder.embed(texts, kind)

    async def recognise(self, space: EmbeddingSpace) -> None:
        async with self._track_call() as embedder:
            await embedder.recognise(space)

    def forget(self) -> None:
        self.embedder.forget()

    async def aclose(self) -> None:
        for embedder in (self.embedder, *self._calls.values()):
            await embedder.aclose()


def _inner(embedder: Embedder) -> Embedder:
    """Return an embedder without its recognition: it may be passed here already wrapped."""
    return embedder.embedder if isinstance(embedder, RecognisingEmbedder) else embedder
