"""What the environment says of proxies and certificates: named where no client can be made with it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from hardwon.client.http_environment import check_http_environment
from hardwon.errors import InvalidSetting
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.qdrant.server import connect
from orchestrator.client import KnowledgeClient
from tests.support.cases import case_by_case

NOWHERE = "http://127.0.0.1:9"
UNUSABLE = [
    ("ALL_PROXY", "socks5://127.0.0.1:1080", "socksio"),
    ("HTTP_PROXY", "proxy:port", "HTTP_PROXY"),
    ("HTTPS_PROXY", "ftp://proxy:21", "HTTPS_PROXY"),
    ("HTTPS_PROXY", "http://user:hush/hush@proxy:1", "HTTPS_PROXY"),
    ("SSL_CERT_FILE", "/nowhere/certificates.pem", "SSL_CERT_FILE"),
]


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(("variable", "value", "said"), UNUSABLE, ids=lambda told: str(told)[:12])
async def test_what_no_client_can_use_is_named_by_each_of_them(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of a developer's own shell was a trace at the first call."""
    monkeypatch.setenv(variable, value)
    embedder = OpenAIEmbedder("some-model", base_url=f"{NOWHERE}/v1", api_key=SecretStr("k"), dimensions=8)
    with pytest.raises(InvalidSetting, match=said) as told:
        await embedder.embed(["a text"], "query")
    assert told.value.field == variable
    assert "hush" not in str(told.value)
    with pytest.raises(InvalidSetting, match=said):
        connect([NOWHERE])
    with pytest.raises(InvalidSetting, match=said):
        KnowledgeClient(NOWHERE)


@case_by_case
def test_what_a_client_can_use_passes(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    check_http_environment()
    httpx.AsyncClient()


@pytest.mark.parametrize("proxy", [False, True])
async def test_a_client_notices_that_a_machine_went_without_a_word_behind_a_proxy_too(
    monkeypatch: pytest.MonkeyPatch, *, proxy: bool
) -> None:
    """Long calls have no deadline: on a connection that was dead they waited for good."""
    asked, left = [], asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await reader.read()
        writer.close()
        left.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        here = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        if proxy:
            monkeypatch.setenv("HTTP_PROXY", here)
        async with KnowledgeClient("http://hardwon.test" if proxy else here) as client:
            response = await client._api.send("POST", "/v1/sweeps", timeout_seconds=None)
            connected = response.extensions["network_stream"].get_extra_info("socket")
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            if hasattr(socket, "TCP_KEEPIDLE"):
                assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        await left.wait()
    assert asked == [b"http://hardwon.test/v1/sweeps" if proxy else b"/v1/sweeps"]


def test_certificates_that_are_none_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("no certificate\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "empty.pem"))
    with pytest.raises(InvalidSetting, match="SSL_CERT_FILE"):
        check_http_environment()


def test_a_command_says_which_variable_it_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", "stats", "--json"],
        env={"PATH": "", "HARDWON_HOME": str(tmp_path), "HARDWON_API_URL": NOWHERE, "ALL_PROXY": "socks5://p:1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ALL_PROXY" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout or json.loads(done.stdout)
