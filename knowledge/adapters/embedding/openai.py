"""Embeddings over HTTP: OpenAI, or any endpoint with its embeddings protocol.

The limits are OpenAI's, as in its client library. There is no tokenizer, so tokens are estimated from bytes; if the
estimate is wrong or a smaller server refuses, a batch is halved and a single text cut. Vectors are asked for in base64,
which is a quarter of the size; an endpoint that refuses this, or a number of dimensions, is asked without from then on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np
from cachetools import LRUCache
from pydantic import SecretStr

from hardwon.errors import ENDPOINT_PROVIDER, UNVERSIONED, EmbedderRejected, EmbedderUnavailable, TextRejected
from knowledge.adapters.embedding.isolation import (
    BYTES_PER_TOKEN,
    ROUNDS,
    BatchLimit,
    Check,
    EmbeddingRequests,
    Input,
    Isolation,
    Refusal,
    Row,
)
from knowledge.adapters.embedding_space import refuse_unembeddable, text_key, with_fingerprint
from knowledge.adapters.llm.endpoint import Endpoint, RetryPolicy
from knowledge.adapters.llm.failures import EndpointKind, RefusedError, UnansweredError
from knowledge.adapters.llm.parameters import Parameters
from knowledge.adapters.llm.replies import Answer, read_reply
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import Embedder
from knowledge.runtime.scheduling import gather_all

if TYPE_CHECKING:
    import openai

KNOWN_DIMS: Mapping[str, int] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

MAX_REQUEST_TOKENS = 300_000
MAX_INPUT_TOKENS = 8192
MAX_RESPONSE_BYTES = 256 * 2**20
"""Ours: 2,048 vectors of 4,096 numbers, written out with 22 characters each, are 176 MiB."""
_RECENT = 2048
_PROBE = "dimensions"

_ENCODING, _DIMENSIONS = "encoding_format", "dimensions"
_PARAMETERS = Parameters(
    {_ENCODING: ("base64", "float", None), _DIMENSIONS: (_DIMENSIONS, None)},
    also_called={_DIMENSIONS: ("matryoshka",)},
)

EMBEDDING = EndpointKind(
    name="embedding",
    closed="The embedder",
    answers="embeddings of the texts",
    variable="HARDWON_EMBEDDING",
    settings="HARDWON_EMBEDDING_MODEL, HARDWON_EMBEDDING_BASE_URL or HARDWON_EMBEDDING_DIMS",
    path="/embeddings",
    max_bytes=MAX_RESPONSE_BYTES,
    unavailable=EmbedderUnavailable,
    rejected=EmbedderRejected,
)


class OpenAIEmbedder(Embedder):
    """Embeds by an endpoint, several requests concurrently. A 429 or a Retry-After delays every caller.

    `dimensions` requests shorter vectors; `revision` names the model's version, which endpoints do not report. A wrong
    key, a spent quota, an unknown model and an endpoint that refuses every text raise EmbedderRejected; a refused text
    raises TextRejected after the others were embedded and cached: repeating those costs no call.
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
        endpoint = Endpoint(
            EMBEDDING,
            model,
            api_key=api_key,
            base_url=base_url,
            concurrency=concurrency,
            retry=retry or RetryPolicy(),
        )
        self._requests = _Requests(endpoint, model, dimensions, probe=document_prefix + _PROBE)
        self._endpoint = endpoint
        self._model = model
        self._dimensions = dimensions
        self._revision = revision
        self._max_tokens = max_tokens
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._probing = asyncio.Lock()
        self._space: EmbeddingSpace | None = None
        self._limit = BatchLimit()
        self._recent: LRUCache[tuple[str, bytes], Row | Refusal] = LRUCache(_RECENT)

    async def space(self) -> EmbeddingSpace:
        """Return the space; calls the endpoint once if neither `dimensions` nor a known model gives the size."""
        async with self._probing:
            if self._space is None:
                dims = self._dimensions or KNOWN_DIMS.get(self._model)
                if dims is None:
                    dims = await self._requests.count_dims()
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
        self._requests.dims = space.dims
        rows = {position: row for position, text in enumerate(texts) if (row := self._find_cached(kind, text))}
        inputs = [self._input(position, text, kind) for position, text in enumerate(texts) if position not in rows]
        tokens = 0
        isolation = self._isolation(kind)
        for done in await gather_all(isolation.embed(batch) for batch in _batches(inputs, self._limit.inputs())):
            rows.update(done.rows)
            tokens += done.tokens
        refused = [row for _, row in sorted(rows.items()) if isinstance(row, Refusal)]
        if refused or kind == "query":
            for position, text in enumerate(texts):
                self._recent[text_key(kind, text)] = rows[position]
        if refused:
            raise TextRejected(refused[0].reason)
        ordered = [row for _, row in sorted(rows.items()) if isinstance(row, Row)]
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

    def _isolation(self, kind: str) -> Isolation:
        began, rounds = asyncio.get_running_loop().time(), ROUNDS
        if kind == "query":  # urgent, and marks no entry dead
            began, rounds = began - self._endpoint.retry.refusal_seconds, 0
        return Isolation(requests=self._requests, limit=self._limit, began=began, rounds=rounds)

    def _find_cached(self, kind: str, text: str) -> Row | Refusal | None:
        row = self._recent.get(text_key(kind, text))
        if isinstance(row, Refusal) and row.until < asyncio.get_running_loop().time():
            return None  # the endpoint may accept it by now
        return row

    def _input(self, position: int, text: str, kind: str) -> Input:
        return Input(position, self._prefixes[kind] + text.strip()).truncate(self._max_tokens * BYTES_PER_TOKEN)


class _Requests(EmbeddingRequests):
    """Requests to one endpoint, with the parameters that it takes."""

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int | None, *, probe: str) -> None:
        self.name = endpoint.name
        self.retry = endpoint.retry
        self.accepted_at = -math.inf
        self.dims: int | None = dimensions
        self._endpoint = endpoint
        self._model = model
        self._dimensions = dimensions
        self._probe = probe
        self._parameters = _PARAMETERS
        self._used = (_ENCODING, _DIMENSIONS) if dimensions else (_ENCODING,)

    async def count_dims(self) -> int:
        """Return the size of the vectors, which a request tells."""
        word = [Input(0, self._probe)]
        try:
            return (await self.ask(word)).dims
        except (RefusedError, UnansweredError) as failure:
            if isinstance(failure, UnansweredError) and not failure.of_request:
                raise failure.error from failure.__cause__
            await self.check_harmless(failure)
        return (await self.ask(word)).dims

    async def ask(self, batch: Sequence[Input], *, attempts: int | None = None) -> Answer:
        parameters = self._parameters
        while True:
            try:
                answer = await self._ask_with(parameters, batch, attempts)
            except (RefusedError, UnansweredError) as failure:
                blamed = parameters.find_blamed(failure.reason, failure.param, self._used)
                if blamed is None:
                    raise
                parameters = parameters.replace(blamed)
            else:
                self._parameters = parameters
                return answer

    async def check_harmless(self, failure: RefusedError | UnansweredError) -> Check:
        before = self._parameters
        try:
            at_once = await self._embed_harmless()
        except (RefusedError, UnansweredError) as second:
            await self._learn_parameters(failure, second)
            at_once = False
        return Check(at_once=at_once, changed=self._parameters is not before)

    async def _embed_harmless(self) -> bool:
        """Embed a harmless word; return whether the first try did."""
        try:
            await self.ask(self._harmless(1, 0), attempts=1)
        except UnansweredError as second:
            if not second.may_pass or not second.of_request or self.retry.attempts < 2:
                raise
            more = self.retry.attempts - 1 if second.has_reply else 1
        else:
            return True
        await asyncio.sleep(self.retry.delay(1, None))
        await self.ask(self._harmless(1, 0), attempts=more)
        return False

    async def _learn_parameters(
        self, failure: RefusedError | UnansweredError, second: RefusedError | UnansweredError
    ) -> None:
        """Find the parameters that a harmless request is accepted with; raise what it means if there are none."""
        if isinstance(second, RefusedError) or (second.may_pass and second.has_reply):
            learnt = await self._parameters.relearn(self._used, self._is_accepted_with)
            if learnt is not None:
                self._parameters = learnt
                return
        if isinstance(second, RefusedError):
            raise EmbedderRejected(
                f"{self.name} refuses any text ({second.reason}): correct {EMBEDDING.settings}."
            ) from None
        known = failure if isinstance(failure, UnansweredError) else second
        raise known.error from known.__cause__

    async def accepts(self, texts: int, size: int) -> bool:
        return await self._is_accepted(self._parameters, texts, size)

    async def _is_accepted_with(self, parameters: Parameters) -> bool:
        return await self._is_accepted(parameters, 1, 0)

    async def _is_accepted(self, parameters: Parameters, texts: int, size: int) -> bool:
        try:
            answer = await self._ask_with(parameters, self._harmless(texts, size), 1)
        except (RefusedError, UnansweredError) as failure:
            if isinstance(failure, UnansweredError) and not failure.of_request:
                raise failure.error from failure.__cause__
            return False
        return not answer.unusable

    def _harmless(self, texts: int, size: int) -> list[Input]:
        """Return harmless texts of at least so many bytes, of short words, so that they have many tokens.

        Each is a new one: a cache in front of an endpoint would answer for it while it is down.
        """
        return [Input(number, f"{self._probe} {uuid4().hex[:8]}" + " a b c d" * (size // 8)) for number in range(texts)]

    async def _ask_with(self, parameters: Parameters, batch: Sequence[Input], attempts: int | None) -> Answer:
        body: dict[str, Any] = {"model": self._model, "input": [each.text for each in batch]}
        if self._dimensions is not None and parameters.form(_DIMENSIONS):
            body["dimensions"] = self._dimensions
        if encoding := parameters.form(_ENCODING):
            body["encoding_format"] = encoding

        async def send(client: openai.AsyncOpenAI, seconds: float) -> bytes:
            import httpx  # noqa: PLC0415 - loaded by now

            # not by `embeddings.create`, which asks for base64 where it is told nothing
            response = await client.post(
                EMBEDDING.path, cast_to=httpx.Response, body=body, options={"timeout": seconds}
            )
            return response.content

        answer = await self._endpoint.ask(
            send, lambda content: read_reply(content, len(batch), self.dims), attempts=attempts
        )
        if self.dims is not None and answer.dims != self.dims:
            self._refuse_dims(answer.dims, parameters)
        self.accepted_at = asyncio.get_running_loop().time()
        return answer

    def _refuse_dims(self, dims: int, parameters: Parameters) -> None:
        if self._dimensions is not None and parameters.form(_DIMENSIONS) is None:
            raise EmbedderRejected(
                f"{self.name} takes no `dimensions`, and {self._model} gives vectors of {dims} numbers: set"
                f" HARDWON_EMBEDDING_DIMS to {dims}, or leave it out."
            )
        error = EmbedderUnavailable(
            f"{self.name} answers with vectors of {dims} numbers where {self._model} is to have {self.dims}: correct"
            " HARDWON_EMBEDDING_MODEL or HARDWON_EMBEDDING_DIMS."
        )
        reason = f"answers with a vector of {dims} numbers"
        raise UnansweredError(error, reason, of_request=True, may_pass=False, has_reply=True)


def _batches(inputs: Sequence[Input], max_inputs: int) -> Iterator[list[Input]]:
    """Split inputs in order, within the limits of one request."""
    batch: list[Input] = []
    tokens = 0
    for one in inputs:
        if batch and (len(batch) >= max_inputs or tokens + one.tokens > MAX_REQUEST_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(one)
        tokens += one.tokens
    if batch:
        yield batch
