"""Answers that are kept for a while: their quotes go with what they quote, and no answer is lost or late for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from hardwon.errors import StorageUnavailable
from jobs.table import run_job
from knowledge.adapters.postgres.document_tables import answer_cache
from knowledge.documents.answering.profiles import GlobalKBConfig
from knowledge.documents.models import PartitionVersion
from knowledge.wiring.open import Knowledge
from orchestrator.qa.document_qa_tool import DocumentQATool
from tests.acceptance.documents.test_document_tools import BASES, WHERE, ask, tool
from tests.conftest import Opens, SetClock
from tests.support.documents import ADMIN, GUIDE, add, readable
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

HOUR = timedelta(hours=1)


async def kept(knowledge: Knowledge) -> list[str]:
    """Return the answers of a workspace that lie in Postgres, found or not."""
    async with knowledge.engine.connect() as connection:
        ours = sa.select(answer_cache.c.answer).where(answer_cache.c.workspace == knowledge.workspace)
        return list((await connection.execute(ours)).scalars())


async def asked(knowledge: Knowledge, kb: str) -> str | None:
    """Add a document to a base and have a question answered from it; return the scope id."""
    ((_, scope_id, place),) = [base for base in BASES if base[0] == kb]
    await add(knowledge, "runbook.md", GUIDE, kb, scope_id)
    assert (await ask(tool(knowledge, place), scope_id, WHERE))["status"] == "answered"
    (answer,) = await kept(knowledge)
    assert "ERR-4521" in answer
    return scope_id


async def delete(knowledge: Knowledge, kb: str, scope_id: str | None) -> None:
    documents = await knowledge.kb.list_documents(kb, scope_id)
    assert await knowledge.kb.delete(kb, scope_id, [each.document_id for each in documents]) == 1


async def replace_it(knowledge: Knowledge, kb: str, scope_id: str | None) -> None:
    await add(knowledge, "runbook.md", b"# Tulips\n\nTulips are planted in autumn.\n", kb, scope_id)


async def close(knowledge: Knowledge, _: str, scope_id: str | None) -> None:
    assert await knowledge.kb.close_case(scope_id or "") == 1


async def delete_user(knowledge: Knowledge, _: str, scope_id: str | None) -> None:
    assert await knowledge.kb.delete_user(scope_id or "") == 1


async def revoke(knowledge: Knowledge, kb: str, scope_id: str | None) -> None:
    await knowledge.documents.library.grant(ADMIN, kb, scope_id or "", "ann")
    assert await kept(knowledge), "whoever comes takes nothing away"
    assert await knowledge.kb.revoke(kb, scope_id or "", "ann")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kb", "end"),
    [
        ("global", delete),
        ("team", delete),
        ("global", replace_it),
        ("case", close),
        ("user", delete_user),
        ("team", revoke),
    ],
)
async def test_answers_go_at_once_with_what_they_quote(
    knowledge: Knowledge, kb: str, end: Callable[[Knowledge, str, str | None], Awaitable[None]]
) -> None:
    """For a week the text of a deleted document lay in Postgres: nothing found it, and nothing deleted it."""
    scope_id = await asked(knowledge, kb)
    others = [PartitionVersion(partition="user_bob_kb", version=0)]
    await knowledge.answering.cache.put("other", "of another base", others, lifetime=HOUR)
    await end(knowledge, kb, scope_id)
    assert await kept(knowledge) == ["of another base"]


async def test_an_answer_that_was_written_while_its_document_was_deleted_is_not_kept(knowledge: Knowledge) -> None:
    await asked(knowledge, "global")
    versions = await knowledge.documents.quotes.versions(await readable(knowledge))
    await delete(knowledge, "global", None)
    await knowledge.answering.cache.put("late", "quotes ERR-4521", versions, lifetime=HOUR)
    assert await kept(knowledge) == []


async def test_an_answer_waits_for_no_change_of_its_base(knowledge: Knowledge) -> None:
    """While a large document is shown its partition is locked for seconds: the answer is given, and not kept."""
    await asked(knowledge, "global")
    cache, versions = knowledge.answering.cache, await knowledge.documents.quotes.versions(await readable(knowledge))
    async with knowledge.engine.begin() as connection:
        await connection.execute(sa.text("SELECT 1 FROM kb_partitions WHERE partition = 'global_kb' FOR UPDATE"))
        async with asyncio.timeout(10):
            await cache.put("another", "a", versions, lifetime=HOUR)
    assert await cache.get("another") is None
    await cache.put("another", "a", versions, lifetime=HOUR)
    assert await cache.get("another") == "a"


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_job_deletes_answers_past_their_time_in_every_workspace(knowledge: Knowledge, clock: SetClock) -> None:
    """Where nobody asks any more, no new answer sweeps them out."""
    await asked(knowledge, "case")
    other = knowledge.in_workspace("other")
    await add(other, "runbook.md", GUIDE)
    versions = await other.documents.quotes.versions(await readable(other))
    await other.answering.cache.put("theirs", "lasts", versions, lifetime=2 * HOUR)
    await run_job(knowledge, "reconcile", once_per_slot=False)
    assert (len(await kept(knowledge)), await kept(other)) == (1, ["lasts"])
    clock.move(HOUR + timedelta(seconds=1))
    await run_job(knowledge, "reconcile", once_per_slot=False)
    assert (await kept(knowledge), await kept(other)) == ([], ["lasts"])


async def test_answers_that_are_kept_side_by_side_wait_for_each_other_in_no_circle(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """Each swept out what is over, and two of them held what the other swept: Postgres broke one of them off."""
    cache = knowledge.answering.cache
    for number in range(10):
        await asyncio.gather(*(cache.put(f"{key}", "a" * 2000, (), lifetime=HOUR) for key in range(12)))
        assert await cache.get("11") is not None, number
        clock.move(2 * HOUR)
    assert await cache.get("11") is None


class Full:
    """A cache that Postgres takes nothing of."""

    async def get(self, key: str) -> str | None:
        return None

    async def put(self, key: str, answer: str, versions: Sequence[PartitionVersion], *, lifetime: timedelta) -> None:
        raise StorageUnavailable("the disk is full")

    async def purge(self) -> int:
        return 0


async def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    knowledge: Knowledge, caplog: pytest.LogCaptureFixture
) -> None:
    """It was paid for, and was lost to an outage of what nobody asked for."""
    await add(knowledge, "runbook.md", GUIDE)
    answerer = replace(knowledge.answering.answerer, cache=Full())
    full = replace(knowledge, answering=replace(knowledge.answering, answerer=answerer))
    answer = await ask(tool(full, 2), None, WHERE)
    assert (answer["status"], answer["cached"]) == ("answered", False)
    assert "ERR-4521" in answer["answer"]
    assert "answer_not_kept" in caplog.text
    assert "ERR-4521" not in caplog.text


async def test_other_settings_give_no_answer_that_was_found_by_those_before(opens: Opens) -> None:
    """For a week a lowered threshold changed nothing at the questions that it was lowered for."""
    async with opens() as knowledge:
        await asked(knowledge, "global")
    for changed in (
        {"kb_max_docs": 3},
        {"kb_min_relevance": 0.2},
        {"kb_relevance": "hybrid"},
        {"kb_weights": {"word_in_title": 0.4}},
        {},
    ):
        async with opens(**changed) as knowledge:
            assert (await ask(tool(knowledge, 2), None, WHERE))["cached"] is not bool(changed), changed


async def test_an_answer_from_three_passages_is_not_given_where_five_are_asked_for(knowledge: Knowledge) -> None:
    await add(knowledge, "runbook.md", GUIDE)
    scope = await readable(knowledge)
    core = DocumentQATool(knowledge.answering, GlobalKBConfig())
    cached = [(await core.answer(WHERE, scope, k)).cached for k in (3, 5, 3, 5)]
    assert cached == [False, False, True, True]


@pytest.mark.long
@pytest.mark.own_stores
async def test_an_answer_that_outlived_a_change_of_its_base_is_not_given(knowledge: Knowledge) -> None:
    """What a change deletes may come back, as out of a copy of the table: its key is of the version before."""
    await asked(knowledge, "global")
    async with knowledge.engine.connect() as connection:
        before = [row._asdict() for row in await connection.execute(sa.select(answer_cache))]
    await add(knowledge, "tulips.md", b"# Tulips\n\nTulips are planted in autumn.\n")
    async with knowledge.engine.begin() as connection:
        await connection.execute(sa.insert(answer_cache), before)
    assert not (await ask(tool(knowledge, 2), None, WHERE))["cached"]


async def test_changes_of_two_bases_that_answers_rest_on_together_wait_in_no_circle(knowledge: Knowledge) -> None:
    versions = [PartitionVersion(partition=name, version=0) for name in ("user_ann_kb", "user_bob_kb")]
    for number in range(40):
        await knowledge.answering.cache.put(f"{number}", "a", versions, lifetime=HOUR)
    await asyncio.gather(*(add(knowledge, "runbook.md", GUIDE, "user", name) for name in ("ann", "bob")))
    assert await kept(knowledge) == []
