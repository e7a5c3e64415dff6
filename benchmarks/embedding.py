"""The bundled model as hardwon runs it against the packaged file run as it is: texts per CPU second, and memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from benchmarks.rounds import Outcome
from benchmarks.sets import DATA, load
from knowledge.adapters.embedding.local import LocalEmbedder, bundled_model
from orchestrator.observability.progress import Stages

TEXT_SETS = ("ruff_rules", "reflexion_runs", "gitbugs", "typecheck_reports")
_EACH, _MEAN, _MEGABYTES = 2.1, 2.5, 0.5
_BATCH = 8
_TEXTS = 96
_MEMORY_TEXTS = 1_000


class PackagedFile:
    """The packaged file as it was run until hardwon fused it: float32, one text per run, pooled outside."""

    def __init__(self) -> None:
        model = bundled_model()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(model.weights), options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(model.tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=model.max_tokens)

    def embed(self, texts: Sequence[str], *, threads: int = 1) -> list[Any]:
        """Return a vector for each text."""
        if threads == 1:
            return [self._embed(text) for text in texts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self._embed, texts))

    def _embed(self, text: str) -> Any:
        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        vector = self._session.run(None, inputs)[0][0].mean(axis=0)
        return vector / np.linalg.norm(vector)


def sample(name: str, data: Path = DATA) -> list[str]:
    """Return documents of a labelled set, from its whole length."""
    documents = load(data / name, name).documents
    return list(documents[:: max(1, len(documents) // _TEXTS)][:_TEXTS])


async def measure(progress: Stages) -> list[Outcome]:
    """Return the ratios of CPU seconds by set and their mean, and the ratio of memory."""
    progress.stage("Embedding")
    if not all((DATA / name / "corpus.jsonl").is_file() for name in TEXT_SETS):
        print(f"The labelled sets are not in {DATA}: nothing is embedded.", file=sys.stderr)
        return []
    embedder, packaged = LocalEmbedder(workers=1), PackagedFile()
    try:
        outcomes = [await _compare(name, embedder, packaged) for name in TEXT_SETS]
    finally:
        await embedder.aclose()
    ratios = {each.name: each.ratio for each in outcomes}
    return [*outcomes, _mean(ratios), measure_memory()]


async def _compare(name: str, embedder: LocalEmbedder, packaged: PackagedFile) -> Outcome:
    """Embed batch by batch on both sides in turn; who goes first changes."""
    texts = sample(name)
    ours = raw = 0.0
    await embedder.embed(texts[:1], "document")
    packaged.embed(texts[:1])
    for number, start in enumerate(range(0, len(texts), _BATCH)):
        batch = texts[start : start + _BATCH]
        for side in ("ours", "raw") if number % 2 else ("raw", "ours"):
            began = time.process_time()
            if side == "ours":
                await embedder.embed(batch, "document")
                ours += time.process_time() - began
            else:
                packaged.embed(batch)
                raw += time.process_time() - began
    return Outcome(
        name=f"documents embedded per CPU second / the packaged file as it is, {name}",
        ratio=raw / ours,
        goal=_EACH,
        at_most=False,
        ours=f"{len(texts) / ours:.0f}/s",
        raw=f"{len(texts) / raw:.0f}/s",
        note=f"{len(texts)} texts, one per run",
    )


def _mean(ratios: Mapping[str, float]) -> Outcome:
    return Outcome(
        name="the same, mean of the sets",
        ratio=fmean(ratios.values()),
        goal=_MEAN,
        at_most=False,
        ours="",
        raw="",
        note=_instructions(),
    )


def _instructions() -> str:
    """Return the instructions for int8 that decide what the arithmetic is worth."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return ""
    return "a processor with VNNI" if {"avx512_vnni", "avx_vnni"} & set(flags) else "a processor without VNNI"


_RESIDENT = """
import asyncio, sys
from pathlib import Path
from benchmarks.embedding import PackagedFile, TEXT_SETS, sample
from knowledge.adapters.embedding.local import LocalEmbedder

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

texts = [text for name in TEXT_SETS for text in sample(name)]
texts = (texts * (1 + int(sys.argv[2]) // len(texts)))[: int(sys.argv[2])]
before = resident()
if sys.argv[1] == "ours":
    embedder = LocalEmbedder(workers=2)
    asyncio.run(embedder.embed(texts, "document"))
else:
    packaged = PackagedFile()
    packaged.embed(texts, threads=2)
print(resident() - before)
"""


def measure_memory() -> Outcome:
    """Return the memory that a process of each side has taken after many texts."""

    def megabytes(side: str) -> float:
        program = [sys.executable, "-c", _RESIDENT, side, str(_MEMORY_TEXTS)]
        return float(subprocess.run(program, capture_output=True, text=True, check=True).stdout)

    ours, raw = megabytes("ours"), megabytes("raw")
    return Outcome(
        name=f"memory of the model after {_MEMORY_TEXTS:,} texts / the packaged file as it is",
        ratio=ours / raw,
        goal=_MEGABYTES,
        at_most=True,
        ours=f"{ours:.0f} MB",
        raw=f"{raw:.0f} MB",
        note="two threads; packages that are loaded before not counted",
    )
