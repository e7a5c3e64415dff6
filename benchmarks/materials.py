"""What the performance benchmarks work on: texts nobody made for them, instant embedders, a clock that moves."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Literal

import numpy as np

from knowledge.adapters.embedding_space import unit, with_fingerprint
from knowledge.models import Embeddings, EmbeddingSpace, EntryType, NewEntry
from knowledge.ports import Clock, Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.evaluation.retrieval import throwaway_home

AGENTS = ("backend", "frontend", "qa", "coder")
TASKS = ("bugfix", "feature", "lint")
TECHNOLOGIES = ("python", "rust", "typescript")
PROJECTS = 20
_LINES = (3, 9)
_SHORTEST = 80
_LONGEST = 600


def texts() -> Iterator[str]:
    """Yield distinct pieces of the Python sources installed here, the same in each run; without end."""
    seen: set[bytes] = set()
    for turn in count():
        for piece in _pieces():
            text = piece if turn == 0 else f"{piece}\nvariant {turn}"
            key = hashlib.blake2b(text.encode(), digest_size=8).digest()
            if key not in seen:
                seen.add(key)
                yield text


def _pieces() -> Iterator[str]:
    """Yield three to nine lines at a time, of every file in turn."""
    for path in sorted(Path(sysconfig.get_path("purelib")).rglob("*.py")):
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        start = 0
        while start < len(lines):
            size = _LINES[0] + len(lines[start]) % (_LINES[1] - _LINES[0] + 1)
            piece = "\n".join(lines[start : start + size])[:_LONGEST].replace("\0", "")
            start += size
            if len(piece) >= _SHORTEST:
                yield piece


def failure(number: int, text: str) -> NewEntry:
    """Return a verified failure with a text as its situation."""
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=f"project-{number % PROJECTS}",
        agent_type=AGENTS[number % len(AGENTS)],
        task_type=TASKS[number % len(TASKS)],
        technology=TECHNOLOGIES[number % len(TECHNOLOGIES)],
        failure_description=text,
        solution_steps=f"Do what number {number} did: read the traceback, mend the first line that is ours, run again.",
        success_verified=True,
        verified_by="pytest",
        task_id=f"T-{number}",
        run_id="1",
    )


class InstantEmbedder(Embedder):
    """A hash of the text as its vector: takes next to no time, finds nothing. For stores whose time counts."""

    def __init__(self, space: EmbeddingSpace | None = None, *, dims: int = 384) -> None:
        self._space = space or with_fingerprint(
            EmbeddingSpace(provider="benchmark", model="instant", revision="1", dims=dims, max_tokens=10_000)
        )

    async def space(self) -> EmbeddingSpace:
        """Return the space it pretends to."""
        return self._space

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:  # noqa: ARG002
        """Return a vector for each text."""
        dims = self._space.dims
        told = b"".join(hashlib.shake_128(text.encode()).digest(dims) for text in texts)
        rows = np.frombuffer(told, dtype=np.uint8).reshape(len(texts), dims).astype(np.float32) - 127.5
        return Embeddings(vectors=unit(rows), tokens=0)

    async def aclose(self) -> None:
        """Nothing to let go of."""


class InstantDocuments(Embedder):
    """Documents at once, queries by the model whose space it is: a large store soon, queries that cost their due."""

    def __init__(self, model: Embedder) -> None:
        self._model = model

    async def space(self) -> EmbeddingSpace:
        """Return the model's space."""
        return await self._model.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed by the model or at once."""
        if kind == "query":
            return await self._model.embed(texts, kind)
        return await InstantEmbedder(await self.space()).embed(texts, kind)

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()


class MovedClock(Clock):
    """The machine's clock, set forward when told."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        """Return the moment it pretends to be."""
        return datetime.now(UTC) + self._ahead

    def move(self, by: timedelta) -> None:
        """Set it forward."""
        self._ahead += by


@asynccontextmanager
async def throwaway(embedder: Embedder, *, clock: Clock | None = None) -> AsyncIterator[Knowledge]:
    """Open empty stores: a Postgres of its own with fsync on, and the engine in process."""
    with throwaway_home() as home:
        settings = KnowledgeSettings(home=home).model_copy(
            update=dict.fromkeys(("database_url", "qdrant_url", "api_url", "seal_keys", "seal_anew", "keep_heads"))
        )
        async with open_knowledge(settings, embedder=embedder, clock=clock) as knowledge:
            yield knowledge
