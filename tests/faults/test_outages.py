"""Outages, in the short form; `python -m tests.faults --only G5` and `--only G11` are the long ones."""

from __future__ import annotations

import random
import statistics
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from hardwon.errors import StorageRejected
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import Opens
from tests.faults.outages import TASK, Stage, asked_while, asked_while_open, embedder_outage, staged
from tests.support.embedders import HashingEmbedder
from tests.support.entries import capture, failure
from tests.support.postgres import socket_of
from tests.support.qdrant_over_edge import QdrantProcess
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
