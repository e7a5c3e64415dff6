"""Messages by webhook: to a real server on loopback that fails first, signed, once for each thing, without texts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from hardwon.errors import WebhookUnavailable
from jobs.table import run_job
from jobs.webhooks import GIVE_UP_AFTER
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory_tables import knowledge_staging, webhook_events
from knowledge.models import Context, ContextId, Pattern, Task
from knowledge.runtime.instrumentation import observe
from knowledge.wiring.open import Knowledge
from orchestrator.observability.metrics import Metrics
from tests.conftest import Opens, SetClock
from tests.support.entries import failure, learn, rejection

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))


@dataclass(slots=True)
class Receiver:
    """A server that answers with `statuses`, then with 204, and keeps what it got."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(kept.statuses.pop(0) if kept.statuses else 204)
            self.send_header("location", kept.url)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    yield kept
    server.shutdown()
    server.server_close()


@pytest.fixture
async def telling(opens: Opens, receiver: Receiver) -> Any:
    """Services that tell the receiver."""
    async with opens(webhook_url=receiver.url, webhook_secret=SecretStr(SECRET), webhook_inside=True) as opened:
        yield opened


async def tell(knowledge: Knowledge) -> int | None:
    return await run_job(knowledge, "webhook", once_per_slot=False)


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """As Standard Webhooks says, written from its text."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split(" ")


@pytest.mark.long
async def test_what_waits_is_told_once_after_a_failure_and_signed(
    telling: Knowledge, receiver: Receiver, clock: SetClock
) -> None:
    open_ids = [
        await telling.capture.capture(
            failure(solution_steps=None, success_verified=False, verified_by=None, task_id=f"W-{number}")
        )
        for number in range(2)
    ]
    await learn(telling, rejection())
    receiver.statuses[:] = [503, 302]
    metrics = Metrics()
    with observe(metrics):
        for _ in range(2):
            with pytest.raises(WebhookUnavailable, match=r"is not delivered: status (503|302)"):
                await tell(telling)
            with pytest.raises(WebhookUnavailable):
                await tell(telling)  # not due yet
            clock.move(timedelta(minutes=2))
        assert len(receiver.got) == 2, "and a redirect is not followed"
        assert await tell(telling) == 1
        assert await tell(telling) == 0
    assert {body for _, body in receiver.got} == {receiver.got[0][1]}
    assert {headers["webhook-id"] for headers, _ in receiver.got} == {receiver.got[0][0]["webhook-id"]}
    assert all(is_signed(*each) for each in receiver.got)
    told = receiver.bodies()[-1]
    assert told["type"] == "waiting"
    assert told["data"] == {"workspace": "default", "count": 2, "ids": sorted(map(str, open_ids))}
    assert "TypeError" not in receiver.got[-1][1].decode()
    for result, number in (("delivered", 1), ("failed", 2), ("given_up", 0)):
        assert metrics.webhooks.labels(result)._value.get() == number, result


@pytest.mark.long
async def test_what_waits_again_and_what_comes_later_is_told_again(telling: Knowledge, receiver: Receiver) -> None:
    await telling.capture.capture(failure(solution_steps=None, success_verified=False, verified_by=None))
    assert await tell(telling) == 1
    async with autocommit(telling.engine) as connection:
        await connection.execute(sa.update(knowledge_staging).values(status="abandoned"))
    assert await tell(telling) == 0
    async with autocommit(telling.engine) as connection:
        assert await connection.scalar(sa.select(sa.func.count()).select_from(webhook_events)) == 0
        refused = {"status": "dead", "dead_reason": "refused", "solution_steps": "x", "success_verified": True}
        await connection.execute(sa.update(knowledge_staging).values(refused))
    assert await tell(telling) == 1
    assert [body["type"] for body in receiver.bodies()] == ["waiting", "dead"]
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 2


@pytest.mark.long
async def test_a_pattern_that_sinks_is_told_and_again_after_it_worked(
    telling: Knowledge, receiver: Receiver, clock: SetClock
) -> None:
    await learn(telling, failure())
    (pattern,) = await telling.lists.patterns()

    async def report(*, worked: bool) -> None:
        clock.move(timedelta(minutes=1))
        await _report(telling, pattern, worked=worked)

    await report(worked=False)
    assert await tell(telling) == 1
    await report(worked=False)
    assert await tell(telling) == 0
    await report(worked=True)
    assert await tell(telling) == 0
    await report(worked=False)
    assert await tell(telling) == 1
    ids = [str(pattern.pattern_id)]
    assert [body["data"]["ids"] for body in receiver.bodies()] == [ids, ids]
    assert {body["type"] for body in receiver.bodies()} == {"sinking"}


async def _report(knowledge: Knowledge, pattern: Pattern, *, worked: bool) -> None:
    context = Context(context_id=ContextId(uuid4()), text="", patterns=(pattern,))
    task = Task(description="x", project_id="p", task_id=str(uuid4()))
    await knowledge.contexts.record(context, task, "coder")
    await knowledge.outcomes.record_outcome(
        context.context_id, pattern.pattern_id, worked=worked, project_id="p", task_id=task.task_id
    )


@pytest.mark.long
async def test_a_message_is_given_up_after_a_day(telling: Knowledge, receiver: Receiver, clock: SetClock) -> None:
    receiver.statuses[:] = [500] * 3
    await telling.capture.capture(failure(solution_steps=None, success_verified=False, verified_by=None))
    with pytest.raises(WebhookUnavailable):
        await tell(telling)
    clock.move(GIVE_UP_AFTER)
    assert await tell(telling) == 0
    clock.move(GIVE_UP_AFTER)
    assert await tell(telling) == 0
    assert len(receiver.got) == 2


@pytest.mark.long
async def test_an_internal_address_is_refused_and_none_is_told_nothing(opens: Opens, receiver: Receiver) -> None:
    async with opens() as opened:
        await opened.capture.capture(failure(solution_steps=None, success_verified=False, verified_by=None))
        assert await tell(opened) == 0
    async with opens(webhook_url=receiver.url, webhook_secret=SecretStr(SECRET)) as opened:
        with pytest.raises(WebhookUnavailable, match="HARDWON_WEBHOOK_INSIDE"):
            await tell(opened)
    assert receiver.got == []
