"""A context is asked for through the door on TCP while Postgres says nothing, so that nobody knows whose a key is."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from hardwon.models.access import Scope
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge
from orchestrator.http.app import make_app
from orchestrator.mcp.http import serve_mcp
from tests.support.clients import auth_of, http_of
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import over_tcp, socket_of
from tests.support.relay import Relay, Wire

HELD = {"task": {"description": "Sum up a cart", "project_id": "shop", "task_id": "T-1"}, "agent_type": "backend"}
PATIENCE = 0.3


@pytest.mark.long
@pytest.mark.parametrize(("wire", "keyed"), [(Wire.HANG, True), (Wire.REFUSE, False)])
async def test_g11_a_context_over_http_is_the_basic_one_in_time_while_postgres_is_silent(
    settings: KnowledgeSettings, postgres_dsn: str, database_url: str, wire: Wire, *, keyed: bool
) -> None:
    """Whose key it is was asked before the deadline began: 12 seconds, and no context then."""
    with Relay(str(socket_of(postgres_dsn))) as relay:
        address = SecretStr(over_tcp(database_url, relay.port))
        through = settings.model_copy(update={"database_url": address, "query_deadline_ms": 1000 * PATIENCE})
        async with open_knowledge(through, embedder=HashingEmbedder()) as knowledge:
            now = [0.0]
            served = replace(knowledge, authenticator=replace(knowledge.authenticator, seconds=lambda: now[0]))
            secret = (await knowledge.keys.create([Scope.QUERY], workspace="default")).secret if keyed else None
            app = make_app(knowledge, auth=auth_of(served, host="127.0.0.1", context_timeout_seconds=PATIENCE))
            headers = {"Host": "127.0.0.1"} | ({"Authorization": f"Bearer {secret}"} if secret else {})
            async with serve_mcp(app), http_of(app, headers=headers) as http:

                async def over_mcp(name: str, arguments: dict[str, Any]) -> Any:
                    told = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
                    body = {**told, "params": {"name": name, "arguments": arguments}}
                    accepted = {"Accept": "application/json, text/event-stream"}
                    return (await http.post("/mcp", json=body, headers=accepted, timeout=60)).json()["result"]

                asked = {"task_description": "Sum up a cart", "agent_type": "backend"}
                assert (await http.post("/v1/contexts", json=HELD)).json()["degraded"] is None
                assert not (await over_mcp("build_context", asked)).get("isError")
                relay.be(wire)
                now[0] += 60  # what is remembered of keys is over
                for _ in range(4):
                    began = time.perf_counter()
                    answer = await http.post("/v1/contexts", json=HELD)
                    took = time.perf_counter() - began
                    assert (answer.status_code, answer.json()["text"]) == (200, "Task: Sum up a cart")
                    assert answer.json()["degraded"]
                    assert took < PATIENCE + 0.3, "beside other tests"
                context = (await over_mcp("build_context", asked))["structuredContent"]
                assert (context["text"], bool(context["degraded"])) == ("Task: Sum up a cart", True)
                refused = await over_mcp("query_for_task", {"task_description": "Sum up a cart"})
                assert refused["isError"], "nothing is done for whom nobody knows to be who they were"
                stranger = {"Authorization": f"Bearer hw_{'0' * 12}_{'a' * 43}"}
                assert (await http.post("/v1/contexts", json=HELD, headers=stranger)).status_code == 503
                relay.be(Wire.SOUND)
                for _ in range(100):
                    if not (await http.post("/v1/contexts", json=HELD)).json()["degraded"]:
                        break
                    await asyncio.sleep(0.2)
                else:
                    pytest.fail("it is back, and nothing is asked")
                if secret:
                    await knowledge.keys.revoke(secret.split("_")[1])
                    now[0] += 60
                    assert (await http.post("/v1/contexts", json=HELD)).status_code == 401


@pytest.mark.long
async def test_the_operators_key_is_let_in_while_nobody_can_say_whose_others_are(
    settings: KnowledgeSettings, postgres_dsn: str, database_url: str
) -> None:
    """It is in no store: after three others that waited in vain it was answered with a 503."""
    operator = "an-operators-key-of-more-than-thirty-two-characters"
    with Relay(str(socket_of(postgres_dsn))) as relay:
        address = SecretStr(over_tcp(database_url, relay.port))
        through = settings.model_copy(update={"database_url": address, "query_deadline_ms": 1000 * PATIENCE})
        async with open_knowledge(through, embedder=HashingEmbedder()) as knowledge:
            doorway = auth_of(knowledge, operator_key=operator, context_timeout_seconds=PATIENCE)
            async with http_of(make_app(knowledge, auth=doorway)) as http:

                async def asked_with(key: str) -> int:
                    headers = {"Authorization": f"Bearer {key}"}
                    return (await http.post("/v1/contexts", json=HELD, headers=headers)).status_code

                relay.be(Wire.HANG)
                strangers = [f"hw_{number:012x}_{'a' * 43}" for number in range(4)]
                assert [await asked_with(key) for key in strangers] == [503] * 4
                assert await asked_with(operator) == 200
