"""A request that passes on an agent's word has that agent's rights and trust, whoever sends it."""

from __future__ import annotations

import httpx
import pytest

from hardwon.client.transport import REPORTER_HEADER
from tests.support.processes import entry

AGENT = {REPORTER_HEADER: "watch-1"}


async def test_what_an_agent_reports_is_of_low_trust_and_its_own(http: httpx.AsyncClient) -> None:
    created = await http.post("/v1/entries", json=entry(), headers=AGENT)
    assert created.status_code == 201
    stored = (await http.get(f"/v1/entries/{created.json()['entry_id']}")).json()
    assert (stored["low_trust"], stored["captured_by"], stored["agent_key"]) == (True, "agent:watch-1", "agent:watch-1")


async def test_a_reporter_may_capture_and_nothing_else(http: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/v1/stats"), ("GET", "/v1/unresolved"), ("POST", "/v1/prune"), ("GET", "/v1/keys")):
        answer = await http.request(method, path, headers=AGENT)
        assert answer.status_code == 403, path


@pytest.mark.parametrize("name", ["", " ", "a b", "x" * 81, "agent:watch", "é".encode().decode("latin-1")])
async def test_a_name_that_is_none_is_refused(http: httpx.AsyncClient, name: str) -> None:
    answer = await http.get("/v1/stats", headers={REPORTER_HEADER.encode(): name.encode("latin-1")})
    assert answer.status_code == 422
    assert "reporter" in answer.text
