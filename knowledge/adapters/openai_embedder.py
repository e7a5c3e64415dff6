"""Texts to vectors over HTTP: OpenAI, or any endpoint that speaks its embeddings protocol.

The limits are OpenAI's, as its client library states them. No tokenizer is at hand, so tokens are guessed from bytes;
where the guess or a smaller server says no, a batch is halved and a single text cut.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
import openai
from pydantic import SecretStr

from knowledge.adapters.embedding_space import Recent, all_of, fingerprinted, refuse_unembeddable
from knowledge.adapters.openai_replies import Answer, PassingError, RefusedError, judged, read_reply
from knowledge.errors import EmbedderUnavailable, InvalidSetting, TextRejected
from knowledge.models import Embedded, EmbeddingSpace, Vector
from knowledge.ports import Embedder

OPENAI_BASE_URL = "https://api.openai.com/v1"
KNOWN_DIMS: Mapping[str, int] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

MAX_INPUTS = 2048
MAX_REQUEST_TOKENS = 300_000
MAX_INPUT_TOKENS = 8192
BYTES_PER_TOKEN = 2
"""Real bug reports have at least 1.94 bytes per token of OpenAI's vocabulary, 4.25 in the middle (measured)."""

_SHORTEST_BYTES = 64
"""A text this short is refused for something else than its length."""
_RECENT = 2048
_PROBE = "dimensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long an endpoint is waited for: `timeout_seconds` for one call, `patience_seconds` for all tries together.

    A text that was refused is not sent again for `refusal_seconds`. A call that hangs on while the endpoint comes back
    and the longest delay after it take less than 30 s together (docs/reliability.md, G5).
    """

    attempts: int = 4
    timeout_seconds: float = 20.0
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 8.0
    patience_seconds: float = 60.0
    refusal_seconds: float = 60.0

    def delay(self, attempt: int, told_seconds: float | None) -> float:
        """Return the seconds to wait after a try: what the endpoint asked for, else doubling; never all at once."""
        if told_seconds is not None:
            return told_seconds + random.uniform(0, 0.1 * min(told_seconds, 1.0))  # noqa: S311 - spreads calls
        doubled = min(self.longest_delay_seconds, self.first_delay_seconds * 2.0 ** min(attempt - 1, 64))
        return doubled * random.uniform(0.5, 1.0)  # noqa: S311 - spreads calls


class OpenAIEmbedder(Embedder):
    """Embeds by an endpoint, several requests at a time. A 429 or a Retry-After holds back every caller.

    `dimensions` asks for shorter vectors. A wrong key, a spent quota and an unknown model raise EmbedderRejected at
    once; so does a text that is refused, after the others were embedded and kept: asking for those again costs no call.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        max_tokens: int = MAX_INPUT_TOKENS,
        query_prefix: str = "",
        document_prefix: str = "",
        concurrency: int = 4,
        retry: RetryPolicy | None = None,
    ) -> None:
        if base_url is None and api_key is None:
            raise InvalidSetting(
                "HARDWON_EMBEDDING_API_KEY", f"{model} needs a key of OpenAI; set it, or HARDWON_EMBEDDING_BASE_URL."
            )
        address = urlsplit(base_url or OPENAI_BASE_URL)
        self._shown_address = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()
        self._key = api_key.get_secret_value() if api_key else "none"
        self._client = openai.AsyncOpenAI(api_key=self._key, base_url=base_url or OPENAI_BASE_URL, max_retries=0)
        self._model = model
        self._dimensions = dimensions
        self._max_tokens = max_tokens
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._retry = retry or RetryPolicy()
        self._slots = asyncio.Semaphore(concurrency)
        self._probing = asyncio.Lock()
        self._space: EmbeddingSpace | None = None
        self._max_inputs = MAX_INPUTS
        self._paused_until = 0.0
        self._recent: Recent[_Row | _Refused] = Recent(_RECENT)
        self._closed = False

    async def space(self) -> EmbeddingSpace:
        """Return the space; asks the endpoint once where neither `dimensions` nor a known model tells the size."""
        async with self._probing:
            if self._space is None:
                dims = self._dimensions or KNOWN_DIMS.get(self._model)
                if dims is None:
                    answer = await self._ask([_Input(0, self._prefixes["document"] + _PROBE)], None)
                    dims = answer.rows.shape[1]
                self._space = fingerprinted(
                    EmbeddingSpace(
                        provider="openai",
                        model=self._model,
                        revision="unversioned",  # the endpoint tells none
                        dims=dims,
                        max_tokens=self._max_tokens,
                        query_prefix=self._prefixes["query"],
                        document_prefix=self._prefixes["document"],
                    )
                )
            return self._space

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embedded:
        """Embed texts. Where one is refused, TextRejected tells why it was, of several the first."""
        self._refuse_closed()
        refuse_unembeddable(texts)
        space = await self.space()
        rows = {position: row for position, text in enumerate(texts) if (row := self._known(kind, text))}
        inputs = [self._input(position, text, kind) for position, text in enumerate(texts) if position not in rows]
        tokens = 0
        for done in await all_of(self._embed(batch, space.dims) for batch in _batches(inputs, self._max_inputs)):
            rows.update(done.rows)
            tokens += done.tokens
        refused = [row for _, row in sorted(rows.items()) if isinstance(row, _Refused)]
        if refused or kind == "query":
            for position, text in enumerate(texts):
                self._recent.keep(kind, text, rows[position])
        if refused:
            raise TextRejected(refused[0].reason)
        ordered = [row for _, row in sorted(rows.items()) if isinstance(row, _Row)]
        return Embedded(
            vectors=np.array([row.vector for row in ordered], dtype=np.float32).reshape(len(texts), space.dims),
            tokens=tokens,
            truncated=tuple(position for position, row in enumerate(ordered) if row.truncated),
        )

    async def aclose(self) -> None:
        """Close the connections. May be called again."""
        self._closed = True
        await self._client.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise EmbedderUnavailable("The embedder was closed: open the stores again.")

    def _known(self, kind: str, text: str) -> _Row | _Refused | None:
        row = self._recent.get(kind, text)
        if isinstance(row, _Refused) and row.until < asyncio.get_running_loop().time():
            return None  # the endpoint may have changed its mind
        return row

    def _input(self, position: int, text: str, kind: str) -> _Input:
        return _Input(position, self._prefixes[kind] + text.strip()).cut(self._max_tokens * BYTES_PER_TOKEN)

    async def _embed(self, batch: list[_Input], dims: int) -> _Done:
        """Embed a batch; refused, halve it, and cut a single text that is too long."""
        try:
            answer = await self._ask(batch, dims)
        except RefusedError as refusal:
            if len(batch) > 1:
                return await self._embed_halves(batch, dims, refusal)
            shorter = len(batch[0].text.encode()) // 2
            if refusal.about_size and shorter >= _SHORTEST_BYTES:
                return await self._embed([batch[0].cut(shorter)], dims)
            reason = f"The embedding endpoint {self._shown_address} refuses this text: {refusal.reason}."
            until = asyncio.get_running_loop().time() + self._retry.refusal_seconds
            return _Done({batch[0].position: _Refused(reason, until)}, 0)
        return _Done(
            {one.position: _Row(row, one.truncated) for one, row in zip(batch, answer.rows, strict=True)},
            answer.tokens or sum(one.tokens for one in batch),
        )

    async def _embed_halves(self, batch: list[_Input], dims: int, refusal: RefusedError) -> _Done:
        middle = len(batch) // 2
        first = await self._embed(batch[:middle], dims)
        second = await self._embed(batch[middle:], dims)
        done = _Done(first.rows | second.rows, first.tokens + second.tokens)
        whole = all(isinstance(row, _Row) and not row.truncated for row in done.rows.values())
        if refusal.about_size and whole:  # nothing was wrong with any text: this server takes fewer at a time
            self._max_inputs = min(self._max_inputs, len(batch) - middle)
        return done

    async def _ask(self, batch: list[_Input], dims: int | None) -> Answer:
        """Ask until there is an answer, a refusal, or no try or patience left."""
        loop = asyncio.get_running_loop()
        give_up_at = math.inf
        for attempt in count(1):
            try:
                async with self._slots:
                    self._refuse_closed()
                    give_up_at = min(give_up_at, loop.time() + self._retry.patience_seconds)
                    await self._pause(give_up_at)
                    return await self._ask_once(batch, dims)
            except PassingError as failure:
                delay = self._retry.delay(attempt, failure.told_seconds)
                if failure.for_all:
                    self._paused_until = max(self._paused_until, loop.time() + delay)
                if attempt >= self._retry.attempts or loop.time() + delay > give_up_at:
                    raise EmbedderUnavailable(
                        f"The embedding endpoint {self._shown_address} {failure.reason} ({attempt} tries): check that "
                        "it runs and that HARDWON_EMBEDDING_BASE_URL is its address.",
                        retry_after_seconds=failure.told_seconds,
                    ) from failure.__cause__
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    async def _pause(self, give_up_at: float) -> None:
        """Wait until the endpoint takes calls again; raises at once where that is past all patience."""
        loop = asyncio.get_running_loop()
        while (left := self._paused_until - loop.time()) > 0:
            if self._paused_until > give_up_at:
                raise EmbedderUnavailable(
                    f"The embedding endpoint {self._shown_address} asked for a pause of {left:.0f} more seconds: try "
                    "again then.",
                    retry_after_seconds=left,
                )
            await asyncio.sleep(left)

    async def _ask_once(self, batch: list[_Input], dims: int | None) -> Answer:
        try:
            async with asyncio.timeout(self._retry.timeout_seconds):  # the whole call: a trickle of bytes ends too
                response = await self._client.embeddings.with_raw_response.create(
                    model=self._model,
                    input=[one.text for one in batch],
                    dimensions=self._dimensions or openai.omit,
                    encoding_format="base64",
                    timeout=self._retry.timeout_seconds,
                )
        except (TimeoutError, openai.APITimeoutError) as exc:
            raise PassingError(f"gave no answer within {self._retry.timeout_seconds:g} seconds") from exc
        except openai.APIConnectionError as exc:
            raise PassingError("cannot be reached or broke off") from exc
        except openai.APIStatusError as exc:
            meaning = judged(exc, address=self._shown_address, model=self._model, key=self._key)
            raise meaning from None  # the library's own text may hold the key
        try:
            answer = read_reply(response.content, len(batch))
        except ValueError as exc:
            raise PassingError("answers with something that is not embeddings of the texts") from exc
        if dims is not None and answer.rows.shape[1] != dims:
            raise EmbedderUnavailable(
                f"The embedding endpoint {self._shown_address} answers with vectors of {answer.rows.shape[1]} numbers "
                f"where {self._model} is to have {dims}: correct HARDWON_EMBEDDING_MODEL or HARDWON_EMBEDDING_DIMS."
            )
        return answer


@dataclass(frozen=True, slots=True)
class _Input:
    position: int
    text: str
    truncated: bool = False

    @property
    def tokens(self) -> int:
        return math.ceil(len(self.text.encode()) / BYTES_PER_TOKEN)

    def cut(self, most_bytes: int) -> _Input:
        encoded = self.text.encode()
        if len(encoded) <= most_bytes:
            return self
        return _Input(self.position, encoded[:most_bytes].decode(errors="ignore"), truncated=True)


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
