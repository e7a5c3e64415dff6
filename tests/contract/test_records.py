"""The contracts of CheckpointStore, ContextStore and JobStore."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from hardwon.errors import NotFound
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.adapters.postgres.memory.contexts import PostgresContexts
from knowledge.adapters.postgres.memory.records import CHOICE
from knowledge.memory.rules.retention import add_years
from knowledge.models import (
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    Context,
    ContextId,
    DeadEntry,
    EntryStatus,
    Outcome,
    PatternId,
    Task,
    WorkspaceStats,
)
from knowledge.ports import CANCELLED, JobStore, Stores
from knowledge.retrieval.calibration import default_calibration
from tests.support.entries import NOON, choice_of, failure, pattern, stored
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import SPACE, Store, claim_all, learn, numbered

pytestmark = OF_ONE_LOOP

HOUR = timedelta(hours=1)
SLOT = datetime(2026, 1, 16, 3, tzinfo=UTC)


# checkpoints


@pytest.mark.parametrize("checkpoint_type", list(CheckpointType))
@pytest.mark.parametrize("project_id", ["web-shop", None])
async def test_a_checkpoint_is_on_record_from_its_start(
    stores: Stores, checkpoint_type: CheckpointType, project_id: str | None
) -> None:
    report = await stores.checkpoints.start(project_id, checkpoint_type, NOON)
    assert report == CheckpointReport(
        checkpoint_id=report.checkpoint_id, project_id=project_id, checkpoint_type=checkpoint_type, started_at=NOON
    )
    assert await stores.checkpoints.get(report.checkpoint_id) == report


async def test_what_a_checkpoint_did_comes_back_as_it_was_reported(stores: Stores) -> None:
    started = await stores.checkpoints.start("web-shop", CheckpointType.MANUAL, NOON)
    done = replace(
        started,
        finished_at=NOON + HOUR,
        embedded=5,
        founded=2,
        joined=3,
        abandoned=4,
        dead=2,
        truncated=1,
        dead_entries=(DeadEntry(entry_id=numbered(1), reason="too long"), DeadEntry(entry_id=numbered(2), reason="ü")),
        error="Postgres went away",
    )
    await stores.checkpoints.finish(done)
    assert await stores.checkpoints.get(started.checkpoint_id) == done


async def test_a_checkpoint_of_another_workspace_is_neither_found_nor_changed(store: Store) -> None:
    """D44."""
    ours, theirs = store.of("ours").checkpoints, store.of("theirs").checkpoints
    report = await ours.start(None, CheckpointType.MANUAL, NOON)
    await theirs.finish(replace(report, embedded=9))
    assert await ours.get(report.checkpoint_id) == report
    for checkpoints, checkpoint_id in ((theirs, report.checkpoint_id), (ours, CheckpointId(uuid4()))):
        with pytest.raises(NotFound):
            await checkpoints.get(checkpoint_id)


async def test_checkpoints_of_long_ago_go_slice_by_slice_and_those_of_others_stay(store: Store) -> None:
    """A row for each checkpoint stayed for good."""
    ours, theirs = store.of("ours").checkpoints, store.of("theirs").checkpoints
    old = [await of.start("p", CheckpointType.MANUAL, NOON) for of in (ours, ours, ours, theirs)]
    young = await ours.start("p", CheckpointType.MANUAL, NOON + HOUR)
    assert [await ours.prune(NOON + HOUR, limit=2) for _ in range(3)] == [2, 1, 0]
    assert await ours.get(young.checkpoint_id) == young
    assert await theirs.get(old[-1].checkpoint_id) == old[-1]
    assert (await ours.stats()).checkpoints == 1


# counts


async def test_an_empty_workspace_has_nothing_to_count(stores: Stores) -> None:
    assert await stores.checkpoints.stats() == WorkspaceStats(
        workspace="default",
        projects=0,
        entries={},
        patterns=0,
        points=None,
        checkpoints=0,
        oldest_staged_at=None,
        last_checkpoint_at=None,
        next_expiry_at=None,
        vector_bytes=0,
        embedding_model=None,
        dims=None,
    )


async def test_the_counts_are_of_the_workspace_alone(store: Store) -> None:
    """D44."""
    stores, others = store.of("default"), store.of("others")
    await stores.spaces.bind(SPACE, mean_terms=20.0, calibration=default_calibration(SPACE.model))
    await learn(others, stored(failure(project_id="x"), numbered(90)))
    await others.checkpoints.finish(
        replace(await others.checkpoints.start(None, CheckpointType.MANUAL, NOON), finished_at=NOON + 9 * HOUR)
    )
    told = [stored(failure(project_id="a", task_id=str(n), task_description="Sum"), numbered(n)) for n in range(3)]
    await learn(stores, *told)
    await stores.entries.add([stored(failure(project_id="a", task_id="dead"), numbered(10))])
    claim = await claim_all(stores)
    await stores.entries.bury(claim.token, numbered(10), "refused")
    staged = [stored(failure(project_id="b", task_id=str(n)), numbered(20 + n)) for n in range(2)]
    opened = replace(stored(failure(project_id="c", solution_steps=None), numbered(30)), status=EntryStatus.OPEN)
    await stores.entries.add([replace(staged[0], captured_at=NOON + HOUR), staged[1], opened])
    report = await stores.checkpoints.start("a", CheckpointType.MANUAL, NOON)
    await stores.checkpoints.finish(replace(report, finished_at=NOON + HOUR))
    await stores.checkpoints.start("b", CheckpointType.MANUAL, NOON + 2 * HOUR)

    assert await stores.checkpoints.stats() == WorkspaceStats(
        workspace="default",
        projects=3,
        entries={"embedded": 3, "dead": 1, "staged": 2, "open": 1},
        patterns=1,
        points=None,
        checkpoints=2,
        oldest_staged_at=NOON,
        last_checkpoint_at=NOON + HOUR,
        next_expiry_at=add_years(NOON, 1),
        vector_bytes=2 * SPACE.dims * 2,
        embedding_model=SPACE.model,
        dims=SPACE.dims,
        dead_entries=(DeadEntry(entry_id=numbered(10), reason="refused"),),
    )


async def test_a_project_that_holds_no_entry_any_more_is_not_counted(stores: Stores) -> None:
    kept, gone = (stored(failure(project_id=name), numbered(n)) for n, name in enumerate("ab", 1))
    await stores.entries.add([kept, gone])
    assert (await stores.checkpoints.stats()).projects == 2
    await stores.entries.delete(gone.entry_id)
    assert (await stores.checkpoints.stats()).projects == 1


# contexts


async def hand_out(
    stores: Stores,
    number: int,
    patterns: Iterable[PatternId],
    *,
    run_id: str | None = None,
    at: datetime = NOON,
    task_id: str | None = "T-1",
) -> ContextId:
    """Record a context of that number for a task of the web shop."""
    shown = tuple(pattern(pattern_id=each) for each in patterns)
    context = Context(context_id=ContextId(numbered(number)), text="[...]", patterns=shown)
    task = Task(description="Fix", project_id="web-shop", task_id=task_id, run_id=run_id)
    await stores.contexts.record(context, task, "backend", at)
    return context.context_id


def outcome(context_id: ContextId, pattern_id: PatternId, **told: Any) -> Outcome:
    usual: dict[str, Any] = {"project_id": "web-shop", "task_id": "T-1", "run_id": "", "worked": True}
    return Outcome(context_id=context_id, pattern_id=pattern_id, **usual | told)


async def test_a_context_is_kept_with_its_task_and_the_patterns_in_it(store: Store) -> None:
    shown = (pattern(), pattern())
    context = Context(context_id=ContextId(uuid4()), text="[...]", patterns=shown, reason="spoke")
    task = Task(description="Fix the cart", type="bugfix", project_id="web-shop", task_id="T-1", run_id="3")
    choice = choice_of((shown[0].pattern_id, "a", -2.0), (shown[1].pattern_id, "b", -1.0))
    await store.of("ours").contexts.record(context, task, "backend", NOON, choice)
    empty = Context(context_id=ContextId(uuid4()), text="", degraded="the index does not answer")
    await store.of("theirs").contexts.record(empty, Task(description="Anything"), "frontend", NOON)
    recorded = {row["id"]: row for row in await store.recorded()}
    assert recorded == {
        context.context_id: {
            "id": context.context_id,
            "workspace": "ours",
            "project_id": "web-shop",
            "task_id": "T-1",
            "run_id": "3",
            "agent_type": "backend",
            "pattern_ids": [each.pattern_id for each in shown],
            "entry_ids": [entry_id for each in shown for entry_id in each.entry_ids],
            "created_at": NOON,
            "reason": "spoke",
            "situation_key": choice.situation,
            "point_id": choice.candidates[1].point_id,
            "choice": CHOICE.dump_python(choice, mode="json"),
            "near": None,
        },
        empty.context_id: {
            "id": empty.context_id,
            "workspace": "theirs",
            "project_id": None,
            "task_id": None,
            "run_id": None,
            "agent_type": "frontend",
            "pattern_ids": [],
            "entry_ids": [],
            "created_at": NOON,
            "reason": None,
            "situation_key": None,
            "point_id": None,
            "choice": None,
            "near": None,
        },
    }


async def test_what_is_untold_of_a_run_is_what_was_handed_out_since_anything_was_told(store: Store) -> None:
    ours = store.of("ours")
    known = [
        await learn(ours, stored(failure(failure_description=text), numbered(n))) for n, text in ((1, "a"), (2, "b"))
    ]

    async def untold(run_id: str | None = "1") -> list[tuple[ContextId, tuple[PatternId, ...]]]:
        found = await ours.contexts.contexts_to_report("web-shop", "T-1", run_id)
        return [(each.context_id, each.pattern_ids) for each in found]

    first = await hand_out(ours, 11, known, run_id="1")
    await hand_out(ours, 12, known, run_id="1", task_id="T-2")
    other = await hand_out(ours, 13, known, run_id="2", at=NOON - HOUR)
    assert await untold() == [(first, tuple(known))]
    assert await untold(None) == [(first, tuple(known)), (other, tuple(known))]

    failed = outcome(first, known[0], run_id="1", worked=False)
    await ours.contexts.record_outcomes([failed], NOON + HOUR)
    assert await untold() == [(first, (known[1],))]
    second = await hand_out(ours, 14, known, run_id="1", at=NOON + 2 * HOUR)
    assert await untold() == [(second, tuple(known)), (first, (known[1],))]
    await ours.contexts.record_outcomes(
        [replace(failed, context_id=second, pattern_id=each) for each in known], NOON + 3 * HOUR
    )
    assert await untold() == []
    await ours.contexts.record_outcomes(
        [replace(failed, context_id=second, pattern_id=known[1], worked=True)], NOON + 4 * HOUR
    )
    (worked, again) = await ours.contexts.contexts_to_report("web-shop", "T-1", "1")
    assert (worked.context_id, worked.pattern_ids, worked.worked) == (second, (), (known[1],))
    assert (again.context_id, again.worked) == (first, (known[1],))
    assert await untold("2") == [(other, tuple(known))]
    assert await store.of("theirs").contexts.contexts_to_report("web-shop", "T-1", "1") == []


async def test_of_a_task_that_is_run_again_and_again_the_latest_contexts_are_looked_at(store: Store) -> None:
    ours = store.of("ours")
    known = await learn(ours, stored(failure(), numbered(1)))
    for number in range(11, 15):
        await hand_out(ours, number, [known], run_id=str(number), at=NOON + number * HOUR)
    latest = [ContextId(numbered(number)) for number in (14, 13)]
    for ask in (ours.contexts.contexts_of_run, ours.contexts.contexts_to_report):
        assert [each.context_id for each in await ask("web-shop", "T-1", None, limit=2)] == latest


async def test_a_task_with_a_long_history_is_told_of_in_time(stores: Stores) -> None:
    """Each outcome was met with each context: 8,000 took 20 s, and a hook waits for 5."""
    known = await learn(stores, stored(failure(), numbered(1)))
    contexts, day = stores.contexts, timedelta(days=1)
    for number in range(11, 13):
        await hand_out(stores, number, [known], run_id=str(number), task_id="nightly", at=NOON - day)
    if isinstance(contexts, PostgresContexts):
        async with transaction(contexts._engine) as connection:
            await connection.execute(sa.text(HISTORY), {"number": 8000, "pattern": known, "at": NOON - 2 * day})
    async with asyncio.timeout(5):
        found = await contexts.contexts_to_report("web-shop", "nightly", None)
    assert [each.context_id for each in found if each.pattern_ids] == [ContextId(numbered(n)) for n in (11, 12)]


HISTORY = """
    WITH handed_out AS (
        INSERT INTO contexts (id, workspace, project_id, task_id, run_id, pattern_ids, created_at)
        SELECT gen_random_uuid(), 'default', 'web-shop', 'nightly', 'r' || n, ARRAY[CAST(:pattern AS uuid)],
            CAST(:at AS timestamptz) - n * interval '1 minute'
        FROM generate_series(1, :number) AS n RETURNING id, run_id, created_at
    )
    INSERT INTO outcomes (id, workspace, context_id, pattern_id, project_id, task_id, run_id, worked, recorded_at)
    SELECT gen_random_uuid(), 'default', id, :pattern, 'web-shop', 'nightly', run_id, true, created_at + interval '10 s'
    FROM handed_out
"""


@pytest.mark.parametrize("worked", [False, True])
async def test_what_is_told_in_another_run_is_told_where_one_of_the_two_names_none(
    store: Store, *, worked: bool
) -> None:
    ours = store.of("ours")
    known = await learn(ours, stored(failure(), numbered(1)))
    first, *_ = [
        await hand_out(ours, number, [known], run_id=run) for number, run in ((11, None), (12, "1"), (13, "2"))
    ]
    await ours.contexts.record_outcomes([outcome(first, known, run_id="3", worked=worked)], NOON + HOUR)

    async def left(run_id: str | None) -> set[ContextId]:
        found = await ours.contexts.contexts_to_report("web-shop", "T-1", run_id)
        return {each.context_id for each in found if each.pattern_ids}

    assert await left(None) == set()
    assert await left("1") == {ContextId(numbered(12))}, "handed out for no run, it is of the third"
    assert await left("3") == set()


async def test_what_a_task_was_tried_with_and_failed_is_known_of_all_its_runs(store: Store) -> None:
    ours = store.of("ours")
    known = [await learn(ours, stored(failure(solution_steps=f"mend {n}"), numbered(n))) for n in (1, 2, 3)]
    context = await hand_out(ours, 11, known, task_id=None)
    told = [(0, "1", False), (1, "1", False), (1, "2", True), (2, "1", True)]
    for number, run_id, worked in told:
        heard = outcome(context, known[number], run_id=run_id, worked=worked)
        await ours.contexts.record_outcomes([heard], NOON + HOUR)
    assert await ours.contexts.find_failed_patterns("web-shop", "T-1", known) == {known[0]}
    assert await ours.contexts.find_failed_patterns("web-shop", "T-1", known[1:]) == set()
    assert await ours.contexts.find_failed_patterns("web-shop", "T-2", known) == set()
    assert await store.of("theirs").contexts.find_failed_patterns("web-shop", "T-1", known) == set()


async def test_an_outcome_takes_the_place_of_the_entry_that_told_of_it_or_of_none(store: Store) -> None:
    """G2: an entry that repeats what was handed out never counts beside its outcome."""
    ours = store.of("ours")
    known = await learn(ours, stored(failure(), numbered(1)))
    echo = stored(failure(task_id="T-2"), numbered(2))
    await ours.entries.add([echo])
    worked = outcome(await hand_out(ours, 11, [known], task_id="T-2"), known, task_id="T-2")
    of_none = replace(worked, pattern_id=PatternId(numbered(3)))
    with pytest.raises(NotFound, match="there is no pattern"):
        await ours.contexts.record_outcomes([of_none], NOON, instead_of=echo.entry_id)
    assert (await ours.entries.get(echo.entry_id)).status is EntryStatus.STAGED
    for _ in range(2):  # told several times at once
        await ours.contexts.record_outcomes([worked], NOON, instead_of=echo.entry_id)
    with pytest.raises(NotFound, match="there is no entry"):
        await ours.entries.get(echo.entry_id)
    assert (await ours.patterns.get(known, now=NOON)).success_count == 2
    assert await ours.contexts.pattern_reported_by(echo.entry_id) == known
    assert await ours.contexts.pattern_reported_by(numbered(1)) is None
    assert await store.of("theirs").contexts.pattern_reported_by(echo.entry_id) is None


async def test_an_outcome_is_not_taken_over_by_a_key_of_lower_trust_that_tells_the_same(store: Store) -> None:
    """T2: what it tells counts once, and is gone when it is revoked; another outcome is news, whoever tells it."""
    ours = store.of("ours")
    known = await learn(ours, stored(failure(), numbered(1)))
    context = await hand_out(ours, 11, [known], task_id=None)

    async def tell(task_id: str, *, worked: bool, key_id: str | None = None) -> None:
        by = {"recorded_by": key_id, "low_trust": key_id is not None}
        await ours.contexts.record_outcomes([outcome(context, known, task_id=task_id, worked=worked, **by)], NOON)

    async def record() -> tuple[int, int]:
        found = await ours.patterns.get(known, now=NOON)
        return found.success_count, found.attempt_count

    for task in ("T-2", "T-3"):
        await tell(task, worked=True)
        await tell(task, worked=True, key_id="agent")
    assert await record() == (3, 3)
    for task in ("T-4", "T-5"):
        await tell(task, worked=True, key_id="agent")
    assert await record() == (4, 4), "one of a key"
    await tell("T-5", worked=True)
    assert await record() == (5, 5), "what was trusted less is told by whom is trusted"
    await tell("T-3", worked=False, key_id="other")
    assert await record() == (4, 5)


# jobs


async def winners(
    jobs: JobStore,
    takeover_after: timedelta = HOUR,
    *,
    slot: datetime = SLOT,
    job: str = "prune",
    retry_after: timedelta = HOUR,
) -> int:
    """Let eight replicas begin at once; return how many may run."""
    limits = {"takeover_after": takeover_after, "retry_after": retry_after}
    begun = await asyncio.gather(*(jobs.begin(job, slot, tries=3, **limits) for _ in range(8)))
    return sum(tried is not None for tried in begun)


async def test_of_eight_replicas_one_runs_a_slot(store: Store) -> None:
    assert await winners(store.jobs) == 1
    assert await winners(store.jobs) == 0
    assert await winners(store.jobs, slot=SLOT + 24 * HOUR) == 1, "the next day's"
    assert await winners(store.jobs, job="sweep") == 1, "another job's"


async def test_a_slot_that_was_run_is_never_run_again(store: Store) -> None:
    assert await winners(store.jobs) == 1
    await store.jobs.finish("prune", SLOT, 1, None)
    await asyncio.sleep(0.02)
    assert await winners(store.jobs, timedelta(milliseconds=1), retry_after=timedelta(0)) == 0


async def test_a_run_that_died_is_taken_over_by_one_after_its_time(store: Store) -> None:
    assert await winners(store.jobs) == 1
    await asyncio.sleep(1)
    assert await winners(store.jobs, retry_after=timedelta(0)) == 0, "it may be alive"
    assert await winners(store.jobs, timedelta(seconds=1)) == 1
    await store.jobs.finish("prune", SLOT, 2, None)
    assert await winners(store.jobs, timedelta(0)) == 0


@pytest.mark.long
async def test_a_run_that_gives_signs_of_life_is_not_taken_over_however_long_it_takes(store: Store) -> None:
    assert await winners(store.jobs) == 1
    await asyncio.sleep(0.6)
    await store.jobs.heartbeat("prune", SLOT, 1)
    await asyncio.sleep(0.6)
    assert await winners(store.jobs, timedelta(seconds=1)) == 0
    await asyncio.sleep(0.6)
    assert await winners(store.jobs, timedelta(seconds=1)) == 1


@pytest.mark.long
async def test_a_run_that_was_taken_over_says_nothing_of_the_one_that_did(store: Store) -> None:
    """It was on record as finished while the other was at work, and that one's failure had the slot run again."""
    dead_after = timedelta(seconds=0.5)
    assert await winners(store.jobs) == 1
    await asyncio.sleep(0.6)
    assert await winners(store.jobs, dead_after) == 1
    await asyncio.sleep(0.6)
    await store.jobs.heartbeat("prune", SLOT, 1)
    await store.jobs.finish("prune", SLOT, 1, None)
    assert await winners(store.jobs, dead_after) == 1, "the second one was at work, and died"
    await store.jobs.finish("prune", SLOT, 3, None)
    await store.jobs.finish("prune", SLOT, 2, "late")
    assert await winners(store.jobs, timedelta(0), retry_after=timedelta(0)) == 0


@pytest.mark.long
async def test_a_run_that_failed_is_repeated_by_one_after_waits_that_double_and_not_for_ever(store: Store) -> None:
    wait = timedelta(seconds=0.4)
    assert await winners(store.jobs) == 1
    await store.jobs.finish("prune", SLOT, 1, "ValueError()")
    assert await winners(store.jobs, retry_after=wait) == 0, "not yet"
    await asyncio.sleep(0.4)
    assert await winners(store.jobs, retry_after=wait) == 1, "the second try"
    await asyncio.sleep(0.02)
    assert await winners(store.jobs, retry_after=timedelta(0)) == 0, "it runs"
    await store.jobs.finish("prune", SLOT, 2, "ValueError()")
    await asyncio.sleep(0.4)
    assert await winners(store.jobs, retry_after=wait) == 0, "the next wait is twice as long"
    await asyncio.sleep(0.4)
    assert await winners(store.jobs, retry_after=wait) == 1, "the third try"
    await store.jobs.finish("prune", SLOT, 3, "ValueError()")
    await asyncio.sleep(0.02)
    assert await winners(store.jobs, retry_after=timedelta(0)) == 0, "three are enough"


async def test_runs_of_long_ago_are_no_longer_on_record(store: Store) -> None:
    """A job of every ten minutes left 53,000 rows a year, for good."""
    for days in (0, 1, 91):
        slot = SLOT + timedelta(days=days)
        assert await winners(store.jobs, slot=slot) == 1
        await store.jobs.finish("prune", slot, 1, None)
    assert await winners(store.jobs, slot=SLOT) == 1, "as if it had never been run"
    assert await winners(store.jobs, slot=SLOT + timedelta(days=1)) == 0, "ninety days before"


async def test_a_run_that_was_cancelled_may_begin_again_at_once(store: Store) -> None:
    assert await winners(store.jobs) == 1
    await store.jobs.finish("prune", SLOT, 1, CANCELLED)
    assert await winners(store.jobs) == 1
    await store.jobs.finish("prune", SLOT, 2, None)
    assert await winners(store.jobs) == 0


async def test_the_workspaces_are_those_that_hold_anything_ascending(store: Store) -> None:
    assert await store.jobs.workspaces() == []
    for workspace in ("zebra", "default", "apple"):
        for project in "ab":
            await store.of(workspace).entries.add([stored(failure(project_id=project))])
    assert await store.jobs.workspaces() == ["apple", "default", "zebra"]
    assert await store.jobs.workspaces(after="apple", limit=1) == ["default"]
    assert await store.jobs.workspaces(after="zebra") == []
    assert [await store.jobs.holds_anything(name) for name in ("apple", "appel")] == [True, False]


async def test_jobs_also_tend_workspaces_that_hold_nothing_but_what_has_yet_to_go(store: Store) -> None:
    assert await store.jobs.workspaces_with_work() == []
    await store.of("checked").checkpoints.start("web-shop", CheckpointType.MANUAL, NOON)
    for number in (11, 12):
        shown = Context(context_id=ContextId(numbered(number)), text="[...]", patterns=(pattern(),))
        await store.of("shown").contexts.record(shown, Task(description="Fix"), "backend", NOON)
    await learn(store.of("deleted"), stored(failure()))
    entries = store.of("deleted").entries
    await entries.delete_all(await entries.ids_of_project("web-shop", limit=9))
    await entries.forget_project("web-shop")
    await store.of("default").entries.add([stored(failure())])
    assert await store.jobs.workspaces_with_work() == ["checked", "default", "deleted", "shown"]
    assert await store.jobs.workspaces() == ["default"]


async def test_what_waits_for_a_checkpoint_is_counted_over_all_workspaces(store: Store) -> None:
    assert await store.jobs.count_staged() == 0
    for workspace in ("zebra", "default"):
        waits = replace(stored(failure(solution_steps=None, success_verified=False)), status=EntryStatus.OPEN)
        await store.of(workspace).entries.add([stored(failure()), waits])
    assert await store.jobs.count_staged() == 2
