"""The map of patterns: places that neighbours share, groups with names, and patterns that leave it when they go."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hardwon.errors import AccessDenied, InvalidInput
from hardwon.models.maps import PatternMap
from jobs.scheduler import run_scheduler
from jobs.table import run_job
from knowledge.access.principals import Principal, Scope, Trust
from knowledge.models import NewEntry
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.clients import client_of, http_of
from tests.support.entries import failure, learn
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP
_SUBJECTS = {
    "postgres": "deadlock accounts transaction postgres lock",
    "frontend": "react component render cursor list",
    "build": "docker image compiler wheel runner",
}


def lessons(number: int = 24) -> list[NewEntry]:
    """Return failures of three subjects, each in its own words."""
    return [
        failure(
            failure_description=f"{words} number {place} {subject}",
            solution_steps=f"mend the {words.split()[place % 5]} of part {place}",
            technology=subject,
            task_id=f"{subject}-{place}",
        )
        for place in range(number // 3)
        for subject, words in _SUBJECTS.items()
    ]


@pytest.mark.long
async def test_the_map_has_a_place_for_each_pattern_and_groups_named_by_their_words(knowledge: Knowledge) -> None:
    await learn(knowledge, *lessons())
    assert await knowledge.maps.show() == PatternMap()
    assert await knowledge.maps.project() == 24
    shown = await knowledge.maps.show()
    assert shown.made_at == knowledge.stores.clock.now()
    assert (shown.total, len(shown.marks), sum(group.patterns for group in shown.groups)) == (24, 24, 24)
    assert all(0 <= mark.x <= 1 and 0 <= mark.y <= 1 for mark in shown.marks)
    assert all(group.terms for group in shown.groups)
    listed = {pattern.pattern_id for pattern in await knowledge.lists.patterns(limit=30)}
    assert {mark.pattern_id for mark in shown.marks} == listed

    one = await knowledge.maps.show(group=0, limit=2)
    assert (one.groups, [mark.group for mark in one.marks]) == (shown.groups, [0, 0])


async def test_it_is_made_again_only_where_points_changed_and_comes_out_the_same(knowledge: Knowledge) -> None:
    await learn(knowledge, *lessons())
    await knowledge.maps.project()
    before = await knowledge.maps.show()
    assert await knowledge.maps.project() == 0, "nothing changed"

    other = knowledge.in_workspace(f"{knowledge.workspace}-again")
    await learn(other, *reversed(lessons()))
    await other.maps.project()
    again = await other.maps.show()
    assert {mark.problem: (mark.x, mark.y) for mark in again.marks} == {
        mark.problem: (mark.x, mark.y) for mark in before.marks
    }

    await learn(knowledge, failure(failure_description="A thing of its own", task_id="own"))
    assert await knowledge.maps.project() == 25


async def test_a_deleted_or_expired_pattern_leaves_the_map_at_once(knowledge: Knowledge, clock: SetClock) -> None:
    await learn(knowledge, *lessons())
    await knowledge.maps.project()
    gone = (await knowledge.maps.show()).marks[3].pattern_id
    await knowledge.capture.delete_pattern(gone)
    shown = await knowledge.maps.show()
    assert (shown.total, gone in {mark.pattern_id for mark in shown.marks}) == (23, False)

    clock.move(timedelta(days=366 * 10))
    assert not (await knowledge.maps.show()).marks
    assert await knowledge.maps.project() == 0
    assert (await knowledge.maps.show()).groups == ()


@pytest.mark.long
async def test_a_checkpoint_is_followed_by_the_map_in_the_background(knowledge: Knowledge) -> None:
    async with run_scheduler(knowledge), asyncio.timeout(30):
        await learn(knowledge, *lessons())
        while (await knowledge.maps.show()).total < 24:  # noqa: ASYNC110 - the job signals nobody
            await asyncio.sleep(0.1)


async def test_the_job_makes_the_maps_of_all_workspaces(knowledge: Knowledge) -> None:
    other = knowledge.in_workspace(f"{knowledge.workspace}-other")
    await learn(knowledge, *lessons(12))
    await learn(other, *lessons(9))
    done = await run_job(knowledge, "project_map", once_per_slot=False)
    assert done is not None
    assert done >= 21
    assert ((await knowledge.maps.show()).total, (await other.maps.show()).total) == (12, 9)


async def test_bad_input_is_refused_and_the_client_reads_the_same(knowledge: Knowledge) -> None:
    await learn(knowledge, *lessons())
    await knowledge.maps.project()
    with pytest.raises(InvalidInput, match=r"^limit:"):
        await knowledge.maps.show(limit=0)
    with pytest.raises(InvalidInput, match=r"^group:"):
        await knowledge.maps.show(group=99)
    async with client_of(knowledge) as client, http_of(knowledge) as http:
        assert await client.maps.show(group=1) == await knowledge.maps.show(group=1)
        for query in ({"limit": 0}, {"group": "x"}, {"kind": "fix"}):
            refused = await http.get("/v1/map", params=query)
            assert (refused.status_code, refused.json()["field"]) == (422, *query)


async def test_a_foreign_key_sees_nothing_and_no_key_makes_a_map_without_the_right(knowledge: Knowledge) -> None:
    await learn(knowledge, *lessons())
    await knowledge.maps.project()
    reader = Principal(
        trust=Trust.KEY, scopes=frozenset({Scope.QUERY}), key_id="a1b2c3d4e5f6", workspace=knowledge.workspace
    )
    assert (await knowledge.for_principal(reader).maps.show()).total == 24
    with pytest.raises(AccessDenied):
        await knowledge.for_principal(reader).maps.project()
    agent = Principal(
        trust=Trust.KEY, scopes=frozenset({Scope.CAPTURE}), key_id="b1b2c3d4e5f6", workspace=knowledge.workspace
    )
    with pytest.raises(AccessDenied):
        await knowledge.for_principal(agent).maps.show()
    elsewhere = knowledge.in_workspace(f"{knowledge.workspace}-elsewhere")
    assert await elsewhere.maps.show() == PatternMap()
