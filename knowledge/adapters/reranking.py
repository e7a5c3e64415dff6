"""Models that score pairs of texts: an ONNX file on this machine, or an endpoint with a `/rerank` route.

A cross-encoder says how well a text answers a question; a model of natural language inference says whether a claim
follows from a text. `/rerank` is spoken alike by Cohere, Jina, vLLM and Text Embeddings Inference, which differ in the
name of the texts and in the envelope of the scores.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
from pydantic import SecretStr

from hardwon.errors import InvalidSetting, RerankerUnavailable
from knowledge.documents.ports import Reranker

MAX_TOKENS: Final = 512
"""Tokens of a pair that a local model reads: cross-encoders of the size of BERT have no more."""
MAX_RESPONSE_BYTES: Final = 4 * 2**20
_BATCH: Final = 8
_SHAPES: Final = ("documents", "texts")
"""The name of the texts in a request: Cohere, Jina and vLLM; Text Embeddings Inference."""
_WRONG_SHAPE: Final = frozenset({400, 422})
_VARIABLE: Final = "HARDWON_RERANKER_MODEL"


@dataclass(slots=True)
class EndpointReranker(Reranker):
    """A model behind `/rerank`. It ranks; it judges entailment where it is said to be a model for that."""

    model: str
    base_url: str
    api_key: SecretStr | None
    timeout_seconds: float
    judges: bool = False
    ranks: bool = True
    _shape: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the scores of the endpoint, in the order of the texts."""
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key.get_secret_value()}"}
        try:
            async with (
                asyncio.timeout(self.timeout_seconds),
                httpx.AsyncClient(headers=headers, follow_redirects=False, timeout=None) as client,  # noqa: S113 - above
            ):
                status, content = await self._post(client, query, texts)
                if status in _WRONG_SHAPE:
                    self._shape = 1 - self._shape
                    status, content = await self._post(client, query, texts)
        except TimeoutError:
            raise RerankerUnavailable(f"the reranker did not answer within {self.timeout_seconds:g} s") from None
        except httpx.HTTPError as error:
            raise RerankerUnavailable(f"the reranker cannot be reached: {type(error).__name__}") from error
        if status != httpx.codes.OK:
            raise RerankerUnavailable(f"the reranker answers with status {status}")
        return read_scores(content, len(texts))

    async def _post(self, client: httpx.AsyncClient, query: str, texts: Sequence[str]) -> tuple[int, bytes]:
        body: dict[str, Any] = {"model": self.model, "query": query, _SHAPES[self._shape]: list(texts)}
        if _SHAPES[self._shape] == "documents":
            body["top_n"] = len(texts)
        content = bytearray()
        async with client.stream("POST", f"{self.base_url.rstrip('/')}/rerank", json=body) as response:
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MAX_RESPONSE_BYTES:
                    raise RerankerUnavailable(f"the reranker answers with more than {MAX_RESPONSE_BYTES // 2**20} MiB")
        return response.status_code, bytes(content)


def read_scores(content: bytes, count: int) -> list[float]:
    """Return the scores in a response, in the order of the texts. Raises RerankerUnavailable if one is missing."""
    try:
        told = json.loads(content)
        rows = told if isinstance(told, list) else told.get("results", told.get("data"))
        scores = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
        found = [scores[at] for at in range(count)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RerankerUnavailable("the reranker's answer has no score for each text") from None
    if not all(map(math.isfinite, found)):
        raise RerankerUnavailable("the reranker's answer has a score that is no number")
    return found


@dataclass(frozen=True, slots=True)
class OnnxReranker(Reranker):
    """A model in an ONNX file, run in a thread. One with a label for entailment judges; any other ranks."""

    path: Path
    session: Any
    tokenizer: Any
    entailment: int | None
    """Where the label for entailment is among the model's outputs."""

    @property
    def name(self) -> str:
        """The file's folder and size, so that answers of another model are not reused."""
        return f"{self.path.parent.name}/{self.path.name} {self.path.stat().st_size}"

    @property
    def judges(self) -> bool:
        """Return whether it has a label for entailment."""
        return self.entailment is not None

    @property
    def ranks(self) -> bool:
        """Return whether it has none."""
        return self.entailment is None

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the query; where the model judges, how surely the query follows from it."""
        return await asyncio.to_thread(self._score, query, texts)

    def _score(self, query: str, texts: Sequence[str]) -> list[float]:
        pairs = [(text, query) if self.judges else (query, text) for text in texts]
        found: list[float] = []
        try:
            for start in range(0, len(pairs), _BATCH):
                found += self._score_batch(pairs[start : start + _BATCH])
        except _onnx_errors() as error:
            raise RerankerUnavailable(f"the reranker in {self.path.name} fails: {type(error).__name__}") from error
        return found

    def _score_batch(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        encoded = self.tokenizer.encode_batch(list(pairs))
        columns = {
            "input_ids": [each.ids for each in encoded],
            "attention_mask": [each.attention_mask for each in encoded],
            "token_type_ids": [each.type_ids for each in encoded],
        }
        wanted = {each.name for each in self.session.get_inputs()}
        feed = {name: np.array(rows, dtype=np.int64) for name, rows in columns.items() if name in wanted}
        logits = np.asarray(self.session.run(None, feed)[0], dtype=np.float64).reshape(len(pairs), -1)
        if self.entailment is not None:
            shares = np.exp(logits - logits.max(axis=1, keepdims=True))
            return [float(each) for each in shares[:, self.entailment] / shares.sum(axis=1)]
        return [float(each) for each in 1 / (1 + np.exp(-np.clip(logits[:, -1], -60, 60)))]


def _onnx_errors() -> tuple[type[Exception], ...]:
    """Return the errors of onnxruntime, which have no base of their own, and of what is run with it."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: PLC0415 - as below

    own = (each for each in vars(state).values() if isinstance(each, type) and issubclass(each, Exception))
    return (*own, RuntimeError, ValueError, OSError, AttributeError)


def open_onnx(path: Path) -> OnnxReranker:
    """Open an ONNX file with `tokenizer.json`, and `config.json` if there is one, beside it. Raises InvalidSetting."""
    import onnxruntime  # noqa: PLC0415 - 30 MB that a process without a local model never needs
    from tokenizers import Tokenizer  # noqa: PLC0415 - the same

    beside = path.with_name("config.json")
    try:
        labels: Mapping[str, str] = json.loads(beside.read_bytes()).get("id2label", {}) if beside.exists() else {}
        tokenizer = Tokenizer.from_str(path.with_name("tokenizer.json").read_text("utf-8"))
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except _onnx_errors() as error:
        reason = "give an ONNX file of a cross-encoder, with its tokenizer.json beside it"
        raise InvalidSetting(_VARIABLE, f"{path} cannot be read: {reason}") from error
    tokenizer.enable_padding()
    tokenizer.enable_truncation(max_length=MAX_TOKENS)
    found = [int(number) for number, label in labels.items() if label.lower() == "entailment"]
    return OnnxReranker(path, session, tokenizer, found[0] if found else None)
