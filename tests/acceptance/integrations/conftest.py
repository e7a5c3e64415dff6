"""A server that frameworks' runs are told to, and the scripts that stand in for models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest

from hardwon.client.transport import WORKSPACE_HEADER
from tests.support.processes import Commands, until

FAILURE = (
    "FAIL: test_total (test_cart.CartTest)\n"
    "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'\n"
    "FAILED (errors=1)"
)


@dataclass(frozen=True)
class Server:
    """A running server, and a workspace of it: how an integration is led there, and what it has learned."""

    url: str
    workspace: str

    @property
    def options(self) -> dict[str, Any]:
        return {"settings": {"HARDWON_API_URL": self.url}, "workspace": self.workspace}

    def ask(self, verb: str, path: str, **more: Any) -> Any:
        headers = {WORKSPACE_HEADER: self.workspace}
        return httpx.request(verb, f"{self.url}{path}", headers=headers, timeout=60, **more).raise_for_status().json()

    def open_entries(self, project: str) -> list[dict[str, Any]]:
        return list(self.ask("GET", "/v1/unresolved", params={"project_id": project}))

    def learn(self) -> int:
        """Embed what is staged; return how many entries that were."""
        return int(self.ask("POST", "/v1/checkpoints", json={})["embedded"])

    def patterns(self) -> list[dict[str, Any]]:
        return list(self.ask("GET", "/v1/patterns")["patterns"])


@pytest.fixture(scope="module")
def address(of_module: Commands) -> Iterator[str]:
    with of_module.serving(HARDWON_HOLDOUT="0") as (_, url):  # else each fiftieth context is held out
        yield url


@pytest.fixture
def server(address: str, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr("hardwon.integrations.recorder.CONTEXT_SECONDS", 30.0)  # the machine may be busy
    return Server(address, f"w-{uuid4()}")


def settle(recorder: Any) -> None:
    """Wait until a recorder has told everything."""
    assert recorder.flush(60)


def connect(recorder: Any) -> None:
    """Wait until a recorder is connected, so that the first failure gets its context, too."""
    recorder.start()
    until(lambda: recorder._knowledge is not None)
