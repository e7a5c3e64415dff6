"""A reranker: an ONNX file, and `/rerank` over real HTTP as four servers speak it; without one answers say why."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import SecretStr

from hardwon.errors import InvalidSetting, RerankerUnavailable
from knowledge.adapters.embedding.local import bundled_model
from knowledge.adapters.embedding.onnx_graph import GraphBuilder
from knowledge.adapters.reranking import EndpointReranker, open_onnx
from knowledge.documents.answering.reranking import Reranking
from knowledge.documents.models import Claim, Quote
from knowledge.documents.verification.verify import Verified
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromGlobalKB
from tests.conftest import Opens
from tests.support.cases import over
from tests.support.documents import ADMIN, add

TEXTS = ["the cat sleeps", "the pool is full of connections", "the pool"]
Scores = Callable[[str, list[str]], list[float]]


def share_letters(query: str, texts: list[str]) -> list[float]:
    """Return how many words of a query each text has, as a share."""
    words = set(query.lower().split())
    return [len(words & set(text.lower().split())) / len(words) for text in texts]


@dataclass
class RerankServer:
    """Speaks `/rerank`: `envelope` makes the answer of rows, `name` is how it calls the texts."""

    name: str = "documents"
    envelope: Callable[[list[dict[str, Any]]], Any] = lambda rows: {"results": rows}
    score_name: str = "relevance_score"
    scores: Scores = share_letters
    status: int = 200
    seconds: float = 0.0
    asked: list[tuple[str, dict[str, Any], str | None]] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str, body: dict[str, Any], key: str | None) -> tuple[int, Any]:
        self.asked.append((path, body, key))
        time.sleep(self.seconds)
        if self.name not in body:
            return 422, {"error": f"missing field {self.name}"}
        rows = [
            {"index": at, self.score_name: score}
            for at, score in enumerate(self.scores(body["query"], body[self.name]))
        ]
        return self.status, self.envelope(sorted(rows, key=lambda row: -row[self.score_name]))


@contextmanager
def serving(server: RerankServer) -> Iterator[RerankServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, told = server.answer(self.path, body, self.headers.get("Authorization"))
            content = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=http.serve_forever, daemon=True).start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def asked_of(server: RerankServer, seconds: float = 5.0) -> EndpointReranker:
    return EndpointReranker("some-model", server.url, SecretStr("k"), seconds)


@pytest.mark.long
@over(
    "name, envelope, score_name",
    [
        ("documents", lambda rows: {"results": rows, "id": "1"}, "relevance_score"),  # Cohere, Jina, vLLM
        ("documents", lambda rows: {"data": rows, "object": "list"}, "relevance_score"),  # Voyage
        ("texts", lambda rows: rows, "score"),  # Text Embeddings Inference
    ],
)
async def test_scores_come_in_the_order_of_the_texts_however_a_server_speaks(
    name: str, envelope: Callable[[list[dict[str, Any]]], Any], score_name: str
) -> None:
    with serving(RerankServer(name=name, envelope=envelope, score_name=score_name)) as server:
        model = asked_of(server)
        for _ in range(2):
            assert await model.score("the pool", TEXTS) == [0.5, 1.0, 1.0]
        paths, bodies, keys = zip(*server.asked, strict=True)
        assert set(paths) == {"/v1/rerank"}
        assert set(keys) == {"Bearer k"}
        assert len(bodies) == (2 if name == "documents" else 3)  # what it refuses once is not sent again
        assert bodies[-1][name] == TEXTS


@pytest.mark.long
@over(
    "wrong, said",
    [
        ({"status": 500}, "status 500"),
        ({"envelope": lambda rows: {"results": rows[1:]}}, "no score for each text"),
        ({"envelope": lambda _: "busy"}, "no score for each text"),
        ({"scores": lambda _, texts: [float("nan")] * len(texts)}, "no number"),
        ({"seconds": 1.0}, "within 0.2 s"),
    ],
)
async def test_what_is_no_ranking_is_unavailable(wrong: dict[str, Any], said: str) -> None:
    with serving(RerankServer(**wrong)) as server, pytest.raises(RerankerUnavailable, match=said):
        await asked_of(server, 0.2 if "seconds" in wrong else 5.0).score("the pool", TEXTS)


def save_overlap_model(folder: Path, *, judges: bool) -> Path:
    """Write an ONNX model that counts the tokens that two texts share, and the tokenizer of the bundled model."""
    graph = GraphBuilder()
    one, second, last = graph.constant("one", [1]), graph.constant("second", [1]), graph.constant("last", [2])
    both = graph.constant("both", [1, 2])
    same = graph.node(
        "Equal", [graph.node("Unsqueeze", ["input_ids", last]), graph.node("Unsqueeze", ["input_ids", second])]
    )
    of_first = graph.node("Mul", ["attention_mask", graph.node("Sub", [one, "token_type_ids"])])
    of_second = graph.node("Mul", ["attention_mask", "token_type_ids"])
    pairs = graph.node("Mul", [graph.node("Cast", [same], to=7), graph.node("Unsqueeze", [of_first, last])])
    pairs = graph.node("Mul", [pairs, graph.node("Unsqueeze", [of_second, second])])
    shared = graph.node("Unsqueeze", [graph.node("ReduceSum", [pairs, both], keepdims=0), second])
    if judges:  # entailed where nearly all of the claim stands in the text: contradiction, entailment, neutral
        length = graph.node("ReduceSum", [of_second, second], keepdims=1)
        sure = graph.node("Sub", [graph.node("Mul", [shared, graph.constant("four", [4])]), length])
        sure = graph.node("Sub", [graph.node("Sub", [sure, length]), length])
        nothing = graph.node("Sub", [length, length])
        shared = graph.node("Concat", [nothing, sure, nothing], axis=1)
        labels = {"0": "contradiction", "1": "entailment", "2": "neutral"}
        (folder / "config.json").write_text(json.dumps({"id2label": labels}))
    inputs = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), ("batch", "tokens"))
    model = graph.close(inputs, graph.node("Cast", [shared], to=1), ("batch", 3 if judges else 1))
    (folder / "model.onnx").write_bytes(model.graph)
    (folder / "tokenizer.json").write_bytes(bundled_model().tokenizer.read_bytes())
    return folder / "model.onnx"


async def test_an_onnx_cross_encoder_ranks(tmp_path: Path) -> None:
    model = open_onnx(save_overlap_model(tmp_path, judges=False))
    assert (model.ranks, model.judges) == (True, False)
    scores = await model.score("the pool of connections", TEXTS * 4)
    assert scores[:3] == scores[9:]
    assert scores[1] > scores[2] > scores[0]


async def test_an_onnx_model_with_a_label_for_entailment_judges_claims(tmp_path: Path) -> None:
    model = open_onnx(save_overlap_model(tmp_path, judges=True))
    assert (model.ranks, model.judges) == (False, True)
    claims = [
        Claim(text=text, quotes=(Quote(passage_id=None, text="the old primary is demoted"),))  # type: ignore[arg-type]
        for text in ("the primary is demoted", "a standby gets promoted")
    ]
    judging = Reranking(model, 5.0)
    judged = await judging.drop_unsupported("What?", Verified(claims=tuple(claims), spans={}, faults=()))
    assert [each.text for each in judged.claims] == ["the primary is demoted"]
    assert "does not follow" in judged.faults[0]
    assert judging.degraded is None
    assert await judging.order("What?", TEXTS) == [0, 1, 2]


def test_a_file_that_is_no_model_is_refused_by_the_name_of_its_setting(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(InvalidSetting, match="HARDWON_RERANKER_MODEL"):
        open_onnx(tmp_path / "model.onnx")


POOLS = """# Pools

## Pool of the web tier

The pool of the web tier has a size of 40 connections.

## Pool of the batch tier

The pool of the batch tier has a size of 7 connections.
"""
QUESTION = "What is the size of the pool?"


async def ask(knowledge: Knowledge) -> dict[str, Any]:
    answer: dict[str, Any] = dict(await AnswerFromGlobalKB(knowledge.answering, ADMIN)(QUESTION))
    return answer


@pytest.mark.long
async def test_a_reranker_orders_blocks_and_an_answer_without_it_says_so(opens: Opens) -> None:
    def prefer_batch(_: str, texts: list[str]) -> list[float]:
        return [float("batch" in text) for text in texts]

    with serving(RerankServer(scores=prefer_batch)) as server:
        settings: dict[str, Any] = {
            "reranker_model": "some-model",
            "reranker_base_url": server.url,
            "reranker_timeout_seconds": 1.0,
        }
        async with opens(**settings) as knowledge:
            await add(knowledge, "pools.md", POOLS.encode())
            told = await ask(knowledge)
            assert told["degraded"] is None
            assert "7 connections" in told["answer"].split("\n")[0]
            assert server.asked[0][1]["query"] == QUESTION
            server.scores = lambda _, texts: [float("web" in text) for text in texts]
            await add(knowledge, "other.md", b"# Other\n\nNothing.\n")  # else the answer is a cached one
            assert "40 connections" in (await ask(knowledge))["answer"].split("\n")[0]
            server.status = 503
            await add(knowledge, "other.md", b"# Other\n\nNothing at all.\n")
            without = await ask(knowledge)
            assert without["degraded"] == "the reranker answers with status 503"
            assert "connections" in without["answer"]
            server.status = 200
            assert (await ask(knowledge))["degraded"] is None  # an answer without it is not cached
