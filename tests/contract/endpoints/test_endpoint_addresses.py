"""Addresses as they are written: of endpoints, and of Qdrant behind a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing

import pytest
from pydantic import SecretStr

from hardwon.errors import EmbedderUnavailable
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.llm.chat import OpenAIChat
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.adapters.qdrant.cluster.nodes import with_port
from tests.support.openai_server import OpenAIServer, Status

ONCE = RetryPolicy(attempts=1, timeout_seconds=2)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.mark.parametrize(
    ("end", "query"),
    [
        ("", ""),
        ("/", ""),
        ("/\n", ""),
        ("{path}", ""),
        ("?api-version=2024-10-21", "?api-version=2024-10-21"),
        ("/?api-version=2024-10-21&tier=a%20b", "?api-version=2024-10-21&tier=a+b"),
        ("{path}?api-version=2024-10-21", "?api-version=2024-10-21"),
    ],
    ids=str,
)
async def test_what_follows_a_question_mark_follows_the_path_of_each_request(
    server: OpenAIServer, end: str, query: str
) -> None:
    key = SecretStr(f" {server.key}\n")
    address = server.base_url + end.format(path="/embeddings")
    async with aclosing(OpenAIEmbedder("some-model", base_url=address, api_key=key, retry=ONCE)) as embedder:
        await embedder.embed(["a text"], "query")
    address = server.base_url + end.format(path="/chat/completions")
    async with aclosing(OpenAIChat("some-model", base_url=address, api_key=key, retry=ONCE)) as chat:
        await chat.answer("rules", "a text")
    assert {target.replace("%20", "+") for target in server.targets} == {
        f"/v1/embeddings{query}",
        f"/v1/chat/completions{query}",
    }
    assert {head.get("api-key") for head in server.heads} == {server.key if "api-version" in query else None}


async def test_a_key_in_the_address_is_in_no_message(server: OpenAIServer) -> None:
    server.always = Status(500)
    address = server.base_url.replace("//", "//user:hush@") + "?key=hush"
    async with aclosing(OpenAIEmbedder("some-model", base_url=address, retry=ONCE, dimensions=64)) as embedder:
        with pytest.raises(EmbedderUnavailable) as caught:
            await embedder.embed(["a text"], "query")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("http://qdrant", "http://qdrant:6333"),
        ("http://qdrant:7000/", "http://qdrant:7000"),
        ("http://[::1]", "http://[::1]:6333"),
        ("http://gateway/qdrant", "http://gateway:80/qdrant"),
        ("https://vectors.example.org", "https://vectors.example.org:443"),
        ("https://vectors.example.org/prefix/", "https://vectors.example.org:443/prefix"),
        ("https://vectors.example.org:6333/prefix", "https://vectors.example.org:6333/prefix"),
        (" https://vectors.example.org/prefix\n", "https://vectors.example.org:443/prefix"),
        ("https://ab-12.eu-central.aws.cloud.qdrant.io", "https://ab-12.eu-central.aws.cloud.qdrant.io:6333"),
        ("https://ab-12.aws.cloud.qdrant.io:443", "https://ab-12.aws.cloud.qdrant.io:443"),
        ("https://cloud.qdrant.io.example.org", "https://cloud.qdrant.io.example.org:443"),
    ],
)
def test_qdrants_port_is_the_one_behind_which_it_is(address: str, meant: str) -> None:
    assert with_port(address) == meant
