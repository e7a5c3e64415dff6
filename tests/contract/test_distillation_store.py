"""The contract of DistillationStore: what is due, what is shown, what has to go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.engine.database import transaction
from knowledge.memory.rules.retention import add_years
from knowledge.models import Distillation, DistilledText, Entry, EntryId, PatternId
from knowledge.ports import DistillationCandidate, Stores
from tests.support.entries import NOON, failure, rejection, stored
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import Store, learn, numbered

pytestmark = OF_ONE_LOOP

MODEL = "some-model"
DAY = timedelta(days=1)
WRITTEN = DistilledText(
    title="Missing prices break the cart",
    problem="A total is made of prices of which some are missing",
    when_to_try="When a sum meets a missing value",
    when_not_to_try="",
    model=MODEL,
    written_at=NOON,
)


def told(number: int, **changes: Any) -> Entry:
    """Return an entry of its own task; all share their words unless told otherwise."""
    return stored(failure(**{"task_id": f"T-{number}"} | changes), numbered(number))


async def learned(stores: Stores, count: int = 3, *, first: int = 1, **changes: Any) -> PatternId:
    """Embed as many entries of one pattern, numbered from `first`."""
    return await learn(stores, *(told(number, **changes) for number in range(first, first + count)))


def answer(pattern_id: PatternId, *numbers: int, evidence: int = 3, **changes: Any) -> Distillation:
    """Return what a model wrote, made of the entries with these numbers."""
    defaults: dict[str, Any] = {
        "pattern_id": pattern_id,
        "entry_ids": tuple(map(numbered, numbers or (1, 2, 3))),
        "evidence": evidence,
        "model": MODEL,
        "answered_at": NOON,
        "distilled": WRITTEN,
    }
    return Distillation(**defaults | changes)


def refusal(pattern_id: PatternId, **changes: Any) -> Distillation:
    return answer(pattern_id, distilled=None, refused="title: names 'X1'", **changes)


async def due(stores: Stores, *, now: datetime = NOON, model: str = MODEL) -> list[DistillationCandidate]:
    return await stores.distillations.due(model, now=now, least=3, grown=2)


async def shown(stores: Stores, pattern_id: PatternId, now: datetime = NOON) -> DistilledText | None:
    """Return what a query shows of a model's words."""
    return (await stores.patterns.get(pattern_id, now=now)).distilled


async def test_a_pattern_is_due_from_three_embedded_entries_on(stores: Stores) -> None:
    pattern_id = await learned(stores, 2)
    await stores.entries.add([told(9)])  # staged only
    assert await due(stores) == []
    await learned(stores, 1, first=3)
    assert await due(stores) == [DistillationCandidate(pattern_id=pattern_id, evidence=4)]


async def test_patterns_with_most_evidence_come_first_and_only_of_ones_own_workspace(store: Store) -> None:
    few = await learned(store.of("default"), 3, failure_description="Another thing broke")
    many = await learned(store.of("default"), 4, first=4)
    await learned(store.of("other"), 3, first=20)
    found = await due(store.of("default"))
    assert [(each.pattern_id, each.evidence) for each in found] == [(many, 4), (few, 3)]


async def test_one_distils_the_patterns_of_a_workspace_at_a_time(stores: Stores) -> None:
    store = stores.distillations
    async with store.lock_distilling() as first, store.lock_distilling() as second:
        assert (first, second) == (True, False)
    async with store.lock_distilling() as again:
        assert again


@pytest.mark.long
async def test_many_workspaces_that_distil_at_once_leave_connections_to_others(store: Store) -> None:
    """A model takes minutes: twenty of them kept every connection of a server, and no capture got through."""

    async def distil(workspace: str) -> None:
        async with store.of(workspace).distillations.lock_distilling():
            await asyncio.sleep(3600)

    at_work = [asyncio.create_task(distil(f"w{number}")) for number in range(40)]
    try:
        await asyncio.sleep(1)
        async with asyncio.timeout(5):
            await learned(store.of("default"))
    finally:
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)


async def test_what_is_kept_is_shown_beside_the_words_and_no_longer_due(stores: Stores) -> None:
    pattern_id = await learned(stores)
    assert await shown(stores, pattern_id) is None
    assert await stores.distillations.keep(answer(pattern_id))
    assert await shown(stores, pattern_id) == WRITTEN
    assert await due(stores) == []
    assert await due(stores, model="another-model") == [], "what was written stays, whichever model is asked now"


async def test_it_is_due_again_once_the_evidence_has_doubled_and_is_then_replaced(stores: Stores) -> None:
    pattern_id = await learned(stores)
    await stores.distillations.keep(answer(pattern_id))
    await learned(stores, 2, first=4)
    assert await due(stores) == []
    await learned(stores, 1, first=6)
    assert await due(stores) == [DistillationCandidate(pattern_id=pattern_id, evidence=6)]
    later = replace(WRITTEN, title="Anything missing breaks a sum")
    assert await stores.distillations.keep(answer(pattern_id, 1, 2, 3, 4, evidence=6, distilled=later))
    assert await shown(stores, pattern_id) == later
    assert await due(stores) == []
    await stores.entries.delete(numbered(4))
    assert await shown(stores, pattern_id) is None, "it was made of the entries of the later answer"


async def test_a_later_answer_that_is_refused_leaves_what_was_written_and_is_not_asked_for_again(
    stores: Stores,
) -> None:
    pattern_id = await learned(stores)
    await stores.distillations.keep(answer(pattern_id))
    await learned(stores, 3, first=4)
    assert await stores.distillations.keep(refusal(pattern_id, evidence=6))
    assert await shown(stores, pattern_id) == WRITTEN
    assert await due(stores, model="another-model") == []
    await learned(stores, 5, first=7)
    assert await due(stores) == []
    await learned(stores, 1, first=12)
    assert [each.evidence for each in await due(stores)] == [12]


async def test_a_refusal_takes_the_place_of_what_has_expired(stores: Stores) -> None:
    pattern_id = await learned(stores, 1)
    for number in (2, 3, 4):
        await learn(stores, told(number), at=NOON + number * DAY)
    await stores.distillations.keep(answer(pattern_id, 1, evidence=4))
    end = add_years(NOON, 1)
    assert await stores.distillations.keep(refusal(pattern_id, entry_ids=(numbered(2), numbered(3)), answered_at=end))
    assert await shown(stores, pattern_id) is None
    assert await due(stores, now=end) == []


async def test_what_was_refused_is_not_shown_and_asked_again_of_another_model_only(stores: Stores) -> None:
    pattern_id = await learned(stores)
    assert await stores.distillations.keep(refusal(pattern_id))
    assert await shown(stores, pattern_id) is None
    assert await due(stores) == []
    assert len(await due(stores, model="another-model")) == 1


async def test_nothing_is_kept_of_an_entry_of_another_pattern_or_workspace(store: Store) -> None:
    pattern_id = await learned(store.of("default"))
    await learned(store.of("default"), 1, first=8, failure_description="Another thing broke")
    assert not await store.of("default").distillations.keep(answer(pattern_id, 1, 2, 8))
    assert not await store.of("other").distillations.keep(answer(pattern_id))
    assert await shown(store.of("default"), pattern_id) is None


async def test_material_is_what_is_trusted_most_then_the_latest(stores: Stores) -> None:
    pattern_id = await learn(stores, told(1), told(2, verified_by=None))
    await learn(stores, told(3), at=NOON + DAY)
    await stores.entries.add([told(4)])  # staged only
    found = await stores.distillations.material(pattern_id, now=NOON, limit=3)
    assert [entry.entry_id for entry in found] == [numbered(3), numbered(1), numbered(2)]
    assert len(await stores.distillations.material(pattern_id, now=NOON, limit=2)) == 2
    over = add_years(NOON, 1)
    assert [each.entry_id for each in await stores.distillations.material(pattern_id, now=over, limit=3)] == [
        numbered(3)
    ]


# whoever deletes


@pytest.fixture
def runs(empty_engine: AsyncEngine) -> Any:
    """Run a statement as another process would, and return which patterns have a distillation then."""

    async def run(statement: str) -> list[Any]:
        async with transaction(empty_engine) as connection:
            await connection.execute(sa.text(statement))
            return list((await connection.execute(sa.text("SELECT pattern_id FROM distillations"))).scalars())

    return run


ONE, ANOTHER = f"WHERE id = '{numbered(2)}'", f"WHERE id = '{numbered(4)}'"
TO_THE_OTHER = "(SELECT id FROM patterns WHERE id <> pattern_id)"


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        (f"DELETE FROM knowledge_staging {ONE}", 0),
        (f"DELETE FROM knowledge_staging {ANOTHER}", 1),
        ("DELETE FROM projects", 0),
        (f"UPDATE knowledge_staging SET pattern_id = {TO_THE_OTHER} {ONE}", 0),
        (f"UPDATE knowledge_staging SET pattern_id = pattern_id, attempts = 9 {ONE}", 1),
    ],
)
async def test_it_goes_with_an_entry_whoever_deletes_or_moves_that(
    stores: Stores, statement: str, left: int, runs: Any
) -> None:
    """A process of the release before knows nothing of distillations."""
    pattern_id = await learned(stores, 4)
    await learn(stores, stored(rejection(), EntryId(uuid4())))
    await stores.distillations.keep(answer(pattern_id, evidence=4))
    assert await runs(statement) == [pattern_id] * left
