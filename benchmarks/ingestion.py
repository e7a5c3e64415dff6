"""`python -m benchmarks.ingestion`: ingestion of Markdown against LlamaIndex and txtai, in turn in one run.

All embed with the bundled model as hardwon runs it, and cut at its number of tokens. Their packages, pinned, go into a
temporary folder (`--packages` keeps it): txtai needs torch, some gigabytes, so it is measured only with `--txtai`.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from benchmarks.materials import throwaway
from hardwon.models.documents import NewDocument
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.documents.ingestion.queue import max_passage_tokens
from knowledge.documents.parsing.chunking import CHUNK_TOKENS
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.ports import Embedder
from knowledge.wiring.open import Knowledge

LLAMA_INDEX = "llama-index-core==0.14.25"
TXTAI = "txtai==9.14.0"
FILE_BYTES = 16_000
"""About the mean of the guides of a project."""
_BATCH = 64
_WARM_BYTES = 20_000
Ingest = Callable[[dict[str, str]], Awaitable[int]]


def make_files(size: int, file_bytes: int = FILE_BYTES) -> dict[str, str]:
    """Return Markdown files of this size together: the project's own, varied so that no passage comes twice."""
    root = Path(__file__).parents[1]
    whole = "\n\n".join(each.read_text() for each in sorted(root.glob("docs/**/*.md")))
    files: dict[str, str] = {}
    at = total = 0
    while total < size:
        begin = at * file_bytes % len(whole)
        paragraphs = whole[begin : begin + file_bytes].split("\n\n")
        varied = "\n\n".join(f"{each} ({at}.{number})" for number, each in enumerate(paragraphs) if each.strip())
        files[f"{at}.md"] = varied[: size - total]
        total += len(files[f"{at}.md"])
        at += 1
    return files


class _Counting(Embedder):
    """Counts the tokens that an embedder embeds."""

    def __init__(self, embedder: Embedder, *, instant: bool) -> None:
        self._embedder = embedder
        self._instant = instant
        self.tokens = 0

    async def space(self) -> EmbeddingSpace:
        """Return the space of the embedder."""
        return await self._embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Embed, and count."""
        if self._instant:
            numbers = np.random.default_rng(len(texts)).standard_normal((len(texts), (await self.space()).dims))
            return Embeddings(vectors=numbers.astype(np.float32), tokens=0, truncated=())
        embedded = await self._embedder.embed(texts, kind)
        self.tokens += embedded.tokens
        return embedded

    async def aclose(self) -> None:
        """Close the embedder."""
        await self._embedder.aclose()


async def ingest_by_hardwon(files: dict[str, str], knowledge: Knowledge) -> int:
    """Add and index files in a base of their own; return the number of passages."""
    base = str(time.monotonic_ns())
    began = time.monotonic()
    for name, text in files.items():
        await knowledge.kb.add("case", base, NewDocument(uri=name, content=text.encode()))
    print(f"hardwon: {time.monotonic() - began:.1f} s of it until all are added", flush=True)
    await knowledge.kb.index()
    scope = await knowledge.documents.access.scope(knowledge.kb.principal, "case", base)
    return (await knowledge.documents.quotes.statistics(scope, [])).documents


async def ingest_by_llama_index(files: dict[str, str], embedder: Embedder, tokens: int) -> int:
    """Split, embed and persist files with LlamaIndex; return the number of nodes."""
    core = import_module("llama_index.core")
    base = import_module("llama_index.core.base.embeddings.base").BaseEmbedding
    loop = asyncio.get_running_loop()

    class Ours(base):  # type: ignore[misc, valid-type]  # loaded while this runs
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            embedded = asyncio.run_coroutine_threadsafe(embedder.embed(texts, "document"), loop).result()
            return [[float(number) for number in row] for row in embedded.vectors]

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    def work() -> int:
        documents = [core.Document(text=text, metadata={"file": name}) for name, text in files.items()]
        splitter = core.node_parser.SentenceSplitter(chunk_size=tokens, chunk_overlap=tokens // 4)
        nodes = splitter.get_nodes_from_documents(documents)
        index = core.VectorStoreIndex(nodes, embed_model=Ours(embed_batch_size=_BATCH))
        with tempfile.TemporaryDirectory() as folder:
            index.storage_context.persist(folder)
        return len(nodes)

    return await asyncio.to_thread(work)


async def ingest_by_txtai(files: dict[str, str], embedder: Embedder, tokens: int) -> int:
    """Split files at headings as its own segmentation does for Markdown, embed and save them with txtai."""
    embeddings = import_module("txtai").Embeddings
    loop = asyncio.get_running_loop()

    def transform(texts: Sequence[str]) -> Any:
        return asyncio.run_coroutine_threadsafe(embedder.embed(list(texts), "document"), loop).result().vectors

    def work() -> int:
        size = tokens * 4
        parts = [text[at : at + size] for text in files.values() for at in range(0, len(text), size - size // 4)]
        index = embeddings(method="external", transform=transform, content=True, batch=_BATCH, encodebatch=_BATCH)
        index.index(parts)
        with tempfile.TemporaryDirectory() as folder:
            index.save(f"{folder}/index")
        return len(parts)

    return await asyncio.to_thread(work)


async def measure(
    size: int, rounds: int, *, file_bytes: int, txtai: bool, instant: bool
) -> list[tuple[str, list[float], int]]:
    """Return the seconds of each round, by way, and the number of passages."""
    embedder = _Counting(LocalEmbedder(), instant=instant)
    space = await embedder.space()
    tokens = max_passage_tokens(space, CHUNK_TOKENS)
    async with throwaway(embedder) as knowledge:
        ways: list[tuple[str, Ingest]] = [
            ("hardwon", lambda files: ingest_by_hardwon(files, knowledge)),
            ("LlamaIndex", lambda files: ingest_by_llama_index(files, embedder, tokens)),
        ]
        if txtai:
            ways.append(("txtai", lambda files: ingest_by_txtai(files, embedder, tokens)))
        seconds: dict[str, list[float]] = {name: [] for name, _ in ways}
        passages: dict[str, int] = {}
        for _, way in ways:
            await way(make_files(_WARM_BYTES))
        for number in range(rounds):
            varied = {uri: text.replace(" (", f" ({number}:") for uri, text in make_files(size, file_bytes).items()}
            for name, way in ways if number % 2 == 0 else reversed(ways):
                began, cpu, before = time.monotonic(), time.process_time(), embedder.tokens
                passages[name] = await way(varied)
                seconds[name].append(time.monotonic() - began)
                cpu, told = time.process_time() - cpu, embedder.tokens - before
                print(f"{name}: {seconds[name][-1]:.1f} s, CPU {cpu:.1f} s, {told:,} tokens", flush=True)
    return [(name, seconds[name], passages[name]) for name, _ in ways]


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the packages, measure, and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingestion", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=10.0, help="of Markdown (10)")
    parser.add_argument("--file-bytes", type=int, default=FILE_BYTES, help=f"of each file ({FILE_BYTES:,})")
    parser.add_argument("--rounds", type=int, default=3, help="of all, in turn (3)")
    parser.add_argument("--txtai", action="store_true", help="txtai too")
    parser.add_argument("--instant", action="store_true", help="vectors at random: all but the model")
    parser.add_argument("--packages", type=Path, help="a folder that has them already")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.packages or Path(temporary)
        if given.packages is None:
            wanted = [LLAMA_INDEX, *([TXTAI] if given.txtai else [])]
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *wanted], check=True)
        sys.path.append(str(folder))  # after our own packages, so that both run on the same versions
        measured = asyncio.run(
            measure(
                int(given.megabytes * 1e6),
                given.rounds,
                file_bytes=given.file_bytes,
                txtai=given.txtai,
                instant=given.instant,
            )
        )
    ours = measured[0][1]
    for name, seconds, passages in measured[1:]:
        ratios = [theirs / each for theirs, each in zip(seconds, ours, strict=True)]
        print(f"{name}/hardwon: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {passages:,} passages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
