"""Outages, in the short form; `python -m tests.faults --only G5` and `--only G11` are the long ones."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from hardwon.errors import IndexUnavailable, StorageRejected
from hardwon.models.patterns import KNOWN_ONLY, FoundPatterns
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.adapters.postgres.memory.points import PostgresPoints
from knowledge.adapters.postgres.memory.records import PostgresRecords
from knowledge.models import (
    Context,
    EmbeddingSpace,
    EntryStatus,
    KnownPlaces,
    NewEntry,
    Pattern,
    PointId,
    Provenance,
    Reason,
    StoredPoint,
    Task,
)
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.context.builders import ContextBuilders
from tests.conftest import Opens, SetClock
from tests.faults.outages import TASK, Stage, asked_while, asked_while_open, embedder_outage, staged
from tests.support.clients import client_of
from tests.support.embedders import HashingEmbedder
from tests.support.entries import capture, failure, learn
from tests.support.postgres import socket_of
from tests.support.qdrant_over_edge import Faults, QdrantProcess
from tests.support.relay import Wire

QUICK = RetryPolicy(
    attempts=4, timeout_seconds=0.5, first_delay_seconds=0.02, longest_delay_seconds=0.2, patience_seconds=2
)


@pytest.mark.harness
@pytest.mark.long
async def test_g5_all_is_embedded_soon_after_an_outage_of_the_embedder_and_nothing_is_given_up(
    settings: KnowledgeSettings,
) -> None:
    """G5: half of the calls fail for a while; the waits are a fortieth of those that are shipped."""
    outage = await embedder_outage(settings, random.Random(5), seconds=4.0, retry_after=0.3, retry=QUICK)
    assert (outage.embedded, outage.dead) == (outage.entries, 0), outage
    assert (outage.failed_calls > 3, outage.pauses > 0) == (True, True), outage
    assert outage.calls_too_early == 0, outage
    assert outage.recovered <= 30, outage


# what Postgres refuses

AT_THE_DECISION = "CREATE TRIGGER refuses BEFORE INSERT ON patterns FOR EACH ROW EXECUTE FUNCTION refuse()"
AT_THE_MARK = (
    "CREATE TRIGGER refuses BEFORE UPDATE ON knowledge_staging"
    " FOR EACH ROW WHEN (new.status = 'embedded') EXECUTE FUNCTION refuse()"
)
REFUSES = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM nextval('tried');
    RAISE EXCEPTION 'no %', new USING ERRCODE = '23514', CONSTRAINT = 'house_rule', TABLE = 'patterns';
END $$"""
SWALLOWS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN PERFORM nextval('tried'); RETURN NULL; END $$"""


async def forbid(knowledge: Knowledge, function: str, trigger: str) -> None:
    async with knowledge.engine.begin() as connection:
        for statement in ("CREATE SEQUENCE tried", function, trigger):  # a sequence counts what is rolled back, too
            await connection.execute(sa.text(statement))


async def tried(knowledge: Knowledge) -> int:
    async with knowledge.engine.connect() as connection:
        return int(await connection.scalar(sa.text("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tried")))


async def allow(knowledge: Knowledge) -> None:
    async with knowledge.engine.begin() as connection:
        await connection.execute(sa.text("DROP FUNCTION refuse CASCADE"))


@pytest.mark.long
@pytest.mark.parametrize("trigger", [AT_THE_DECISION, AT_THE_MARK])
async def test_g8_what_a_constraint_forbids_is_tried_once_a_checkpoint_and_kept(
    knowledge: Knowledge, embedder: HashingEmbedder, trigger: str
) -> None:
    """G8."""
    await forbid(knowledge, REFUSES, trigger)
    await capture(knowledge, failure())
    for number in (1, 2):
        with pytest.raises(StorageRejected, match=r"house_rule.*23514") as refused:
            await knowledge.checkpoints.process_all()
        assert "cart" not in str(refused.value), "it tells nothing that is stored"
        assert (await tried(knowledge), embedder.calls) == (number, number)
        assert dict((await knowledge.stats()).entries) == {"staged": 1}
    assert await knowledge.queries.query_for_failure("TypeError in the cart total", min_relevance=0) == []
    await allow(knowledge)
    assert (await knowledge.checkpoints.process_all()).embedded == 1
    assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_g8_an_entry_that_can_never_be_marked_ends_a_checkpoint_and_is_kept(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """G8: no error comes, and no mark; without an end it would be embedded for six hours."""
    await forbid(knowledge, SWALLOWS, AT_THE_MARK)
    await capture(knowledge, failure())
    with pytest.raises(StorageRejected, match="could not be marked"):
        await knowledge.checkpoints.process_all()
    assert await tried(knowledge) == embedder.calls <= 6
    assert dict((await knowledge.stats()).entries) == {"staged": 1}
    await allow(knowledge)
    assert (await knowledge.checkpoints.process_all()).embedded == 1
    assert (await knowledge.upkeep.verify()).sound


# a query while something is down


@pytest.fixture
async def stage(
    settings: KnowledgeSettings, database_url: str, postgres_dsn: str, tmp_path: Path
) -> AsyncIterator[Stage]:
    with QdrantProcess(tmp_path / "qdrant") as qdrant:
        async with staged(settings, database_url, socket_of(postgres_dsn), qdrant.port) as made:
            yield made


async def comes_back(stage: Stage) -> bool:
    """Ask until the knowledge is in the context again; the first call may have to connect anew."""
    for _ in range(20):
        back = await OrchestratorContextBuilder(stage.knowledge).build_context_for_task(TASK, "agent 0")
        if (back.text, back.degraded) == (stage.expected.text, None):
            return True
    return False


@pytest.mark.harness
@pytest.mark.long
async def test_g11_whatever_is_down_a_context_comes_in_time_with_the_reason(stage: Stage) -> None:
    """G11: refused, hanging or dripping, 200 of 200 within 300 ms + 50 ms; when it is back, so is the knowledge."""
    for part in stage.wires:
        for wire in (Wire.REFUSE, Wire.HANG, Wire.DRIP):
            calls = 24 if wire is Wire.REFUSE else 22
            found = await asked_while(stage, part, wire, calls=calls, at_once=4)
            assert (found.degraded, found.in_time) == (calls, calls), f"{part}, {wire}: {found}"
        assert await comes_back(stage), f"{part} is back, and what was learned is not"


@pytest.mark.long
async def test_g11_an_open_breaker_answers_within_5_ms(stage: Stage, opens: Opens) -> None:
    """G11: the median, as other tests run beside this one; the long form asks it of every call."""
    took = await asked_while_open(stage, calls=200)
    assert statistics.median(took) <= 0.005, f"{1000 * max(took):.1f} ms at most"


@pytest.mark.harness
@pytest.mark.long
@pytest.mark.parametrize("away", [0.01, 0.05])
async def test_g11_with_postgres_far_away_contexts_have_their_knowledge_again_after_it_stood_still(
    settings: KnowledgeSettings, database_url: str, postgres_dsn: str, tmp_path: Path, away: float
) -> None:
    """G11: a call that came too late took along the connection it had made, and so did each one after it."""
    with QdrantProcess(tmp_path / "qdrant") as qdrant:
        async with staged(settings, database_url, socket_of(postgres_dsn), qdrant.port, away=away) as stage:
            await asked_while(stage, "Postgres", Wire.HANG, calls=8, at_once=8)
            assert await comes_back(stage)


# the index is down: what is told word for word is answered from Postgres, and nothing is lost

ERROR = "FileNotFoundError: [Errno 2] No such file or directory: '/home/ann/shop/rates.yml' (pid 4711)"
AGAIN = "FileNotFoundError: [Errno 2] No such file or directory: '/srv/build-17/rates.yml' (pid 99)"
KNOWN = failure(
    task_id="T-1",
    task_description="Convert the prices of the cart to euros",
    failure_description="The cart shows no prices",
    error_message=ERROR,
    solution_steps="Copy rates.yml into the image",
)
OTHERS = [
    failure(
        task_id=f"T-{at}", failure_description=f"The {word} of the build is broken", solution_steps=f"Mend the {word}"
    )
    for at, word in enumerate(["disk", "lock", "proxy", "clock", "queue", "certificate"], 2)
]
CART_TASK = Task(description=KNOWN.task_description or "", type="bugfix", technology="python")
UNKNOWN = Task(description="Paint the shed green", type="bugfix")


@pytest.fixture
def qdrant(tmp_path: Path) -> Iterator[QdrantProcess]:
    with QdrantProcess(tmp_path / "qdrant") as process:
        yield process


@pytest.fixture
async def shop(opens: Opens, qdrant: QdrantProcess) -> AsyncIterator[Knowledge]:
    async with opens(qdrant_url=qdrant.url, query_deadline_ms=1500) as opened:
        await learn(opened, KNOWN, *OTHERS)
        yield opened


async def build(builder: OrchestratorContextBuilder, task: Task = CART_TASK) -> Context:
    return await builder.build_context_for_task(task, "backend")


def solutions(found: list[Pattern] | tuple[Pattern, ...]) -> list[str]:
    return [pattern.solution for pattern in found]


@pytest.mark.long
async def test_a_dead_index_leaves_what_is_told_word_for_word(shop: Knowledge, qdrant: QdrantProcess) -> None:
    queries = shop.queries
    before = await queries.query_for_failure("The cart shows no prices", ERROR, min_relevance=0.5)
    assert isinstance(before, FoundPatterns)
    assert (solutions(before), before.degraded) == ([KNOWN.solution_steps], None)
    qdrant.stop(kill=True)

    same = await queries.query_for_failure("The cart shows no prices", ERROR, min_relevance=0.5)
    assert solutions(same) == [KNOWN.solution_steps]
    assert same[0].relevance == pytest.approx(before[0].relevance, abs=0.01)
    assert isinstance(same, FoundPatterns)
    assert (same.degraded or "").startswith(KNOWN_ONLY)
    assert solutions(await queries.query_for_failure("Nobody sees a price", AGAIN, min_relevance=0.3)) == [
        KNOWN.solution_steps
    ], "the same error, from another machine"
    assert solutions(await queries.query_for_task(CART_TASK.description)) == [KNOWN.solution_steps], "the same task"
    with pytest.raises(IndexUnavailable, match="cannot be reached"):
        await queries.query_for_failure("Nobody sees a price", "PermissionError: [Errno 13] rates.yml is read-only")

    builder = OrchestratorContextBuilder(shop)
    for _ in range(8):  # with its breaker closed, then open
        context = await build(builder)
        assert solutions(context.patterns) == [KNOWN.solution_steps]
        assert (context.degraded or "").startswith(KNOWN_ONLY)
        silent = await build(builder, UNKNOWN)
        assert (silent.patterns, silent.reason) == ((), Reason.DEGRADED)
        assert "index" in (silent.degraded or "") or "Qdrant" in (silent.degraded or "")
    assert builder.index.is_open
    assert not builder.breaker.is_open, "Postgres answers"

    qdrant.start()
    builder = OrchestratorContextBuilder(shop)
    assert (solutions((await build(builder)).patterns), (await build(builder)).degraded) == (
        [KNOWN.solution_steps],
        None,
    )


@pytest.mark.long
@pytest.mark.parametrize(("at_once", "seconds"), [(1, 2), (40, 6)])
async def test_a_hanging_index_leaves_40_of_40_contexts_what_is_told_word_for_word_in_time(
    shop: Knowledge, qdrant: QdrantProcess, at_once: int, seconds: int
) -> None:
    """Forty at once take 0.4 s of a core after the first ones gave up; beside other tests that is more.

    Each has a builder of its own, as a server makes one for each request: the breakers are the workspace's.
    """
    builders = ContextBuilders()

    def make() -> OrchestratorContextBuilder:
        return builders.make(shop, "default", timedelta(seconds=seconds))

    assert (await build(make())).degraded is None
    qdrant.misbehave(Faults(kind="hang", seconds=20, path="/points"))
    found: list[Context] = []
    for _ in range(0, 40, at_once):
        began = time.monotonic()
        found += await asyncio.gather(*(build(make()) for _ in range(at_once)))
        assert time.monotonic() - began < seconds + 1
    assert [solutions(each.patterns) for each in found] == [[KNOWN.solution_steps]] * 40
    assert all(each.degraded for each in found), "beside other tests a text may be embedded late, too, and say that"
    assert make().index.is_open


@pytest.mark.long
async def test_a_slow_index_is_waited_for_where_nothing_is_known_word_for_word(
    shop: Knowledge, qdrant: QdrantProcess
) -> None:
    near = replace(CART_TASK, description=f"{CART_TASK.description} now")
    qdrant.misbehave(Faults(kind="slow", seconds=0.7, path="/points/query"))
    builder = OrchestratorContextBuilder(shop)
    known, unknown = await build(builder), await build(builder, near)
    assert (known.degraded or "").startswith(KNOWN_ONLY)
    assert (solutions(unknown.patterns), unknown.degraded) == ([KNOWN.solution_steps], None)


@pytest.mark.long
async def test_a_server_that_starts_without_its_index_says_over_http_what_it_answers_by(
    shop: Knowledge, qdrant: QdrantProcess, opens: Opens
) -> None:
    qdrant.stop(kill=True)
    async with opens(qdrant_url=qdrant.url) as knowledge, client_of(knowledge) as client:
        found = await client.queries.query_for_failure("The cart shows no prices", ERROR, min_relevance=0.5)
        assert isinstance(found, FoundPatterns)
        assert (solutions(found), (found.degraded or "")[: len(KNOWN_ONLY)]) == ([KNOWN.solution_steps], KNOWN_ONLY)
        context = await OrchestratorContextBuilder(client).build_context_for_task(CART_TASK, "backend")
        assert solutions(context.patterns) == [KNOWN.solution_steps]
        assert (context.degraded or "").startswith(KNOWN_ONLY)
        with pytest.raises(IndexUnavailable):
            await client.queries.query_for_task("Paint the shed green")


@pytest.mark.long
async def test_what_an_agents_key_told_is_known_word_for_word_too_after_what_is_trusted(
    shop: Knowledge, qdrant: QdrantProcess
) -> None:
    by_agent = replace(shop.capture, by=Provenance(key_id="agent", low_trust=True))
    await by_agent.capture_all([replace(KNOWN, solution_steps="Ask nobody", project_id="agents", task_id="A-1")])
    await shop.checkpoints.process_all()
    normal = await ask(shop)
    qdrant.stop(kill=True)
    assert solutions(await ask(shop)) == solutions(normal)[:2] == [KNOWN.solution_steps, "Ask nobody"]


async def ask(knowledge: Knowledge) -> list[Pattern]:
    try:
        return await knowledge.queries.query_for_failure("The cart shows no prices", ERROR, min_relevance=0)
    except IndexUnavailable:
        return []


@pytest.mark.long
async def test_what_expired_was_deleted_or_is_not_embedded_never_comes(
    shop: Knowledge, qdrant: QdrantProcess, clock: SetClock
) -> None:
    qdrant.stop(kill=True)
    assert len(await ask(shop)) == 1
    await capture(shop, replace(KNOWN, solution_steps="Wait for the night", task_id="T-9"))
    with pytest.raises(IndexUnavailable):
        await shop.checkpoints.process_all()
    assert solutions(await ask(shop)) == [KNOWN.solution_steps], "what is decided on is not embedded yet"
    clock.move(timedelta(days=366))
    assert await ask(shop) == []
    clock.move(timedelta(days=-366))
    async with shop.engine.begin() as connection:
        await connection.execute(sa.text("DELETE FROM knowledge_staging WHERE task_id = 'T-1'"))
    assert await ask(shop) == []


@pytest.mark.long
@pytest.mark.parametrize("broken", [(), ("keys",), ("points",), ("keys", "points")], ids="-".join)
async def test_another_workspace_never_comes_whichever_lookup_forgets_it(
    shop: Knowledge, qdrant: QdrantProcess, opens: Opens, monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...]
) -> None:
    """The keys, the points and the patterns are each asked for in one workspace: one of them is enough."""
    find_known, find_live = PostgresRecords.find_known, PostgresPoints.find_live
    ours_records, ours_points = shop.stores.records, shop.stores.points
    assert isinstance(ours_records, PostgresRecords)
    assert isinstance(ours_points, PostgresPoints)
    strangers: list[object] = []

    async def find_known_of_default(_: PostgresRecords, situation: str, error: str) -> KnownPlaces:
        found = await find_known(ours_records, situation, error)
        strangers.extend(found.points)
        return found

    async def find_live_of_default(
        _: PostgresPoints, space: EmbeddingSpace, point_ids: Sequence[PointId], *, now: datetime
    ) -> list[StoredPoint]:
        found = await find_live(ours_points, space, point_ids, now=now)
        strangers.extend(found)
        return found

    async with opens(workspace="other", qdrant_url=qdrant.url) as other:
        await learn(other, *OTHERS)
        qdrant.stop(kill=True)
        if "keys" in broken:
            monkeypatch.setattr(PostgresRecords, "find_known", find_known_of_default)
        if "points" in broken:
            monkeypatch.setattr(PostgresPoints, "find_live", find_live_of_default)
        assert await ask(other) == []
    assert bool(strangers) == ("keys" in broken), "the broken lookup gave another workspace's"


@pytest.mark.long
async def test_a_store_of_before_knows_errors_and_tasks_after_its_next_checkpoint(
    shop: Knowledge, qdrant: QdrantProcess
) -> None:
    async with shop.engine.begin() as connection:
        await connection.execute(sa.text("UPDATE records SET task_key = NULL, error_key = NULL"))
    await capture(shop, replace(KNOWN, failure_description="Another one", error_message=None, task_id="T-8"))
    await shop.checkpoints.process_all()
    qdrant.stop(kill=True)
    assert solutions(await shop.queries.query_for_failure("Nobody sees a price", AGAIN, min_relevance=0.3)) == [
        KNOWN.solution_steps
    ]
    assert await shop.stores.records.without_keys(10) == {}


# checkpoints

MORE: list[NewEntry] = [
    replace(KNOWN, failure_description=f"The {at}th cart is empty", solution_steps=f"Fill cart {at}", task_id=f"M-{at}")
    for at in range(6)
]


@pytest.mark.long
@pytest.mark.parametrize(
    "faults",
    [
        Faults(kind="unavailable"),
        Faults(kind="unavailable", path="/points", after=1),
        Faults(kind="unavailable", path="/points", after=2),
        Faults(kind="unfinished", path="/points"),
    ],
    ids=["before", "in the middle", "at the last batch", "written, and not said"],
)
async def test_a_checkpoint_without_an_index_marks_nothing_and_the_next_one_embeds_all(
    opens: Opens, qdrant: QdrantProcess, faults: Faults
) -> None:
    async with opens(qdrant_url=qdrant.url, checkpoint_batch=2) as knowledge:
        await learn(knowledge, *OTHERS)
        qdrant.misbehave(faults)
        await capture(knowledge, *MORE)
        with pytest.raises(IndexUnavailable):
            await knowledge.checkpoints.process_all()
        counts = (await knowledge.stats()).entries
        assert counts[EntryStatus.STAGED] + counts[EntryStatus.EMBEDDED] == len(OTHERS) + len(MORE)
        assert counts[EntryStatus.STAGED] > 0
        qdrant.misbehave(Faults())
        assert (await knowledge.upkeep.verify()).missing == 0, "what is marked, the index has"
        await capture(knowledge, replace(MORE[0], failure_description="Captured meanwhile", task_id="M-9"))
        report = await knowledge.checkpoints.process_all()
        assert report.embedded == counts[EntryStatus.STAGED] + 1
        assert (await knowledge.upkeep.verify()).sound
