"""When the client asks a server again that could not do what it was asked."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from hardwon.client import transport
from hardwon.errors import StorageUnavailable
from orchestrator.client import KnowledgeClient

SILENT = {"title": "StorageUnavailable", "status": 503, "detail": "Postgres is silent", "retry_after_seconds": 0.01}


@pytest.mark.parametrize(("seconds", "times"), [(0.0, 3), (0.2, 1)])
async def test_a_store_that_was_waited_for_long_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, seconds: float, times: int
) -> None:
    """Each would take as long: a command that could end in 10 s ended in 75."""
    monkeypatch.setattr(transport, "_SLOW_SECONDS", 0.1)
    asked = 0

    async def answer(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        await asyncio.sleep(seconds)
        headers = {"Content-Type": transport.PROBLEM, "Retry-After": "0"}
        return (
            httpx.Response(200, json=["default"]) if asked == 3 else httpx.Response(503, json=SILENT, headers=headers)
        )

    async with KnowledgeClient("http://hardwon", transport=httpx.MockTransport(answer)) as client:
        if seconds:
            with pytest.raises(StorageUnavailable, match="Postgres is silent"):
                await client.workspaces()
        else:
            assert await client.workspaces() == ["default"]
    assert asked == times
