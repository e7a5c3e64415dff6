"""Embeddings over HTTP: OpenAI, or any endpoint with its embeddings protocol.

The limits are OpenAI's, as in its client library. There is no tokenizer, so tokens are estimated from bytes; if the
estimate is wrong or a smaller server refuses, a batch is halved and a single text cut.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from cachetools import LRUCache
from pydantic import SecretStr

from hardwon.errors import ENDPOINT_PROVIDER, UNVERSIONED, EmbedderRejected, EmbedderUnavailable, TextRejected
from hardwon.text.truncation import truncate_middle
from knowledge.adapters.embedding_space import refuse_unembeddable, text_key, with_fingerprint
from knowledge.adapters.llm.endpoint import Endpoint, RetryPolicy
from knowledge.adapters.llm.replies import Answer, EndpointKind, RefusedError, read_reply
from knowledge.models import Embeddings, EmbeddingSpace, Vector
from knowledge.ports import Embedder
from knowledge.runtime.scheduling import gather_all

if TYPE_CHECKING:
    import openai

KNOWN_DIMS: Mapping[str, int] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

MAX_INPUTS = 2048
MAX_REQUEST_TOKENS = 300_000
MAX_INPUT_TOKENS = 8192
BYTES_PER_TOKEN = 2
"""Real bug reports have at least 1.94 bytes per token of OpenAI's vocabulary, 4.25 in the median (measured)."""

MAX_RESPONSE_BYTES = 256 * 2**20
"""Ours: `MAX_INPUTS` vectors of 4,096 numbers, written out with 22 characters each, are 176 MiB."""
_SHORTEST_BYTES = 64
"""A text this short is refused for another reason than its length."""
_RECENT = 2048
_PROBE = "dimensions"


EMBEDDING = EndpointKind(
    name="embedding",
    closed="The embedder",
    answers="embeddings of the texts",
    variable="HARDWON_EMBEDDING",
    settings="HARDWON_EMBEDDING_MODEL, HARDWON_EMBEDDING_BASE_URL or HARDWON_EMBEDDING_DIMS",
    parameters=frozenset({"model", "dimensions", "encoding_format"}),
    max_bytes=MAX_RESPONSE_BYTES,
    unavailable=EmbedderUnavailable,
    rejected=EmbedderRejected,
)


class OpenAIEmbedder(Embedder):
    """Embeds by an endpoint, several requests concurrently. A 429 or a Retry-After delays every caller.

    `dimensions` requests shorter vectors; `revision` names the model's version, which endpoints do not report. A wrong
    key, a spent quota, an unknown model and an endpoint that refuses every text raise EmbedderRejected at once; a
    refused text raises TextRejected after the others were embedded and cached: repeating those costs no call.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        revision: str = UNVERSIONED,
        max_tokens: int = MAX_INPUT_TOKENS,
        query_prefix: str = "",
        document_prefix: str = "",
        concurrency: int = 4,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._endpoint = Endpoint(
            EMBEDDING,
            model,
            api_key=api_key,
            base_url=base_url,
            concurrency=concurrency,
            retry=retry or RetryPolicy(),
        )
        self._model = model
        self._dimensions = dimensions
        self._revision = revision
        self._max_tokens = max_tokens
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._probing = asyncio.Lock()
        self._space: EmbeddingSpace | None = None
        self._max_inputs = MAX_INPUTS
        self._recent: LRUCache[tuple[str, bytes], _Row | _Refused] = LRUCache(_RECENT)
        self._accepted_at = -math.inf
        """The time of the endpoint's last embedding."""

    async def space(self) -> EmbeddingSpace:
        """Return the space; calls the endpoint once if neither `dimensions` nor a known model gives the size."""
        async with self._probing:
            if self._space is None:
                dims = self._dimensions or KNOWN_DIMS.get(self._model)
                if dims is None:
                    dims = (await self._probe(None)).rows.shape[1]
                self._space = with_fingerprint(
                    EmbeddingSpace(
                        provider=ENDPOINT_PROVIDER,
                        model=self._model,
                        revision=self._revision,
                        dims=dims,
                        max_tokens=self._max_tokens,
                        query_prefix=self._prefixes["query"],
                        document_prefix=self._prefixes["document"],
                    )
                )
            return self._space

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed texts. If any is refused, TextRejected gives the reason of the first."""
        self._endpoint.refuse_closed()
        refuse_unembeddable(texts)
        space = await self.space()
        rows = {position: row for position, text in enumerate(texts) if (row := self._find_cached(kind, text))}
        inputs = [self._input(position, text, kind) for position, text in enumerate(texts) if position not in rows]
        tokens, began = 0, asyncio.get_running_loop().time()
        if kind == "query":  # urgent, and marks no entry dead
            began -= self._endpoint.retry.refusal_seconds
        for done in await gather_all(
            self._embed(batch, space.dims, began) for batch in _batches(inputs, self._max_inputs)
        ):
            rows.update(done.rows)
            tokens += done.tokens
        refused = [row for _, row in sorted(rows.items()) if isinstance(row, _Refused)]
        if refused and inputs and self._accepted_at < began:
            await self._probe(space.dims)
        if refused or kind == "query":
            for position, text in enumerate(texts):
                self._recent[text_key(kind, text)] = rows[position]
        if refused:
            raise TextRejected(refused[0].reason)
        ordered = [row for _, row in sorted(rows.items()) if isinstance(row, _Row)]
        return Embeddings(
            vectors=np.array([row.vector for row in ordered], dtype=np.float32).reshape(len(texts), space.dims),
            tokens=tokens,
            truncated=tuple(position for position, row in enumerate(ordered) if row.truncated),
        )

    def forget(self) -> None:
        """Clear the cached vectors of queries and refusals."""
        self._recent.clear()

    async def aclose(self) -> None:
        """Close the connections. May be called again."""
        await self._endpoint.aclose()

    def _find_cached(self, kind: str, text: str) -> _Row | _Refused | None:
        row = self._recent.get(text_key(kind, text))
        if isinstance(row, _Refused) and row.until < asyncio.get_running_loop().time():
            return None  # the endpoint may accept it by now
        return row

    def _input(self, position: int, text: str, kind: str) -> _Input:
        return _Input(position, self._prefixes[kind] + text.strip()).truncate(self._max_tokens * BYTES_PER_TOKEN)

    async def _probe(self, dims: int | None) -> Answer:
        """Embed a harmless word. Raises EmbedderRejected if the endpoint refuses even that.

        Called after it refused everything: then no text is the reason, and no entry may become dead for it.
        """
        try:
            return await self._ask([_Input(0, self._prefixes["document"] + _PROBE)], dims)
        except RefusedError as refusal:
            raise EmbedderRejected(
                f"{self._endpoint.name} refuses any text ({refusal.reason}): correct {EMBEDDING.settings}."
            ) from None

    async def _embed(self, batch: list[_Input], dims: int, began: float) -> _Done:
        """Embed a batch; if it is refused, halve it, or cut a single text that is too long."""
        try:
            answer = await self._ask(batch, dims)
        except RefusedError as refusal:
            if len(batch) > 1:
                return await self._embed_halves(batch, dims, began, refusal)
            shorter = len(batch[0].text.encode()) // 2
            if refusal.about_size and shorter >= _SHORTEST_BYTES:
                return await self._embed([batch[0].truncate(shorter)], dims, began)
            reason = f"{self._endpoint.name} refuses this text: {refusal.reason}."
            until = asyncio.get_running_loop().time() + self._endpoint.retry.refusal_seconds
            return _Done({batch[0].position: _Refused(reason, until)}, 0)
        return _Done(
            {one.position: _Row(row, one.truncated) for one, row in zip(batch, answer.rows, strict=True)},
            answer.tokens or sum(one.tokens for one in batch),
        )

    async def _embed_halves(self, batch: list[_Input], dims: int, began: float, refusal: RefusedError) -> _Done:
        middle = len(batch) // 2
        first = await self._embed(batch[:middle], dims, began)
        second = await self._embed(batch[middle:], dims, began)
        if self._accepted_at < began:
            await self._probe(dims)
        done = _Done(first.rows | second.rows, first.tokens + second.tokens)
        whole = all(isinstance(row, _Row) and not row.truncated for row in done.rows.values())
        if refusal.about_size and whole:  # no text was wrong: this server takes fewer at a time
            self._max_inputs = min(self._max_inputs, len(batch) - middle)
        return done

    async def _ask(self, batch: list[_Input], dims: int | None) -> Answer:
        async def send(client: openai.AsyncOpenAI, seconds: float) -> bytes:
            import openai  # noqa: PLC0415 - loaded by now

            response = await client.embeddings.with_raw_response.create(
                model=self._model,
                input=[one.text for one in batch],
                dimensions=self._dimensions or openai.omit,
                encoding_format="base64",
                timeout=seconds,
            )
            return response.content

        answer = await self._endpoint.ask(send, lambda content: read_reply(content, len(batch)))
        if dims is not None and answer.rows.shape[1] != dims:
            raise EmbedderUnavailable(
                f"{self._endpoint.name} answers with vectors of {answer.rows.shape[1]} numbers where {self._model} is "
                f"to have {dims}: correct HARDWON_EMBEDDING_MODEL or HARDWON_EMBEDDING_DIMS."
            )
        self._accepted_at = asyncio.get_running_loop().time()
        return answer


@dataclass(frozen=True, slots=True)
class _Input:
    position: int
    text: str
    truncated: bool = False

    @property
    def tokens(self) -> int:
        return math.ceil(len(self.text.encode()) / BYTES_PER_TOKEN)

    def truncate(self, most_bytes: int) -> _Input:
        if len(self.text.encode()) <= most_bytes:
            return self
        return _Input(self.position, truncate_middle(self.text, most_bytes), truncated=True)


@dataclass(frozen=True, slots=True)
class _Row:
    vector: Vector
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Refused:
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class _Done:
    rows: dict[int, _Row | _Refused]
    tokens: int


def _batches(inputs: Sequence[_Input], max_inputs: int) -> Iterator[list[_Input]]:
    """Split inputs in order, within the limits of one request."""
    batch: list[_Input] = []
    tokens = 0
    for one in inputs:
        if batch and (len(batch) >= max_inputs or tokens + one.tokens > MAX_REQUEST_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(one)
        tokens += one.tokens
    if batch:
        yield batch
