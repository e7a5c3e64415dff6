"""What runs by the clock for documents, over all workspaces."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hardwon.models.access import Scope
from jobs.table import JOBS, run_job
from knowledge.access.principals import ANYONE, Principal, Trust
from tests.conftest import Opens
from tests.support.documents import GUIDE, add, find, put, writable
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

OPERATOR = Principal(trust=Trust.KEY, scopes=frozenset({Scope.ADMIN}), workspace=None, key_id="0" * 12)


async def test_what_was_left_is_indexed_in_every_workspace(opens: Opens) -> None:
    """A0-70."""
    async with opens() as knowledge:
        other = knowledge.in_workspace("other")
        await put(knowledge, "a.md", GUIDE)
        await put(other, "b.md", GUIDE)
        assert await run_job(knowledge, "index", once_per_slot=True) == 2
        assert await run_job(knowledge, "index", once_per_slot=True) is None
        assert {passage.uri for passage in (await find(other, "ERR-4521")).passages} == {"b.md"}


@pytest.mark.long
@pytest.mark.own_stores
@pytest.mark.parametrize("principal", [OPERATOR, ANYONE], ids=lambda principal: principal.trust)
async def test_whoever_may_run_jobs_may_run_each_of_them(opens: Opens, principal: Principal) -> None:
    """At a server, by `python -m jobs` with HARDWON_API_URL: those of documents were nobody's to ask for."""
    async with opens() as knowledge:
        await put(knowledge, "a.md", GUIDE)
        await put(knowledge.in_workspace("other"), "b.md", GUIDE)
        acting = knowledge.for_principal(principal)
        done = {job: await run_job(acting, job, once_per_slot=True) for job in JOBS}
    assert done == {job: 2 if job == "index" else 0 for job in JOBS}


async def test_closed_cases_are_swept_and_the_index_is_put_right(opens: Opens) -> None:
    """A0-74: every six hours."""
    assert (JOBS["sweep_cases"].slot, JOBS["sweep_cases"].cron["hour"]) == (timedelta(hours=6), "*/6")
    async with opens() as knowledge:
        await add(knowledge, "a.md", GUIDE, "case", "42")
        document = await add(knowledge, "b.md", GUIDE)
        await knowledge.documents.library.delete(await writable(knowledge), [document.document_id])
        room = await knowledge.documents.indexing.active_space()
        points = await knowledge.passages.count(room.space, knowledge.workspace)
        assert await run_job(knowledge, "sweep_cases", once_per_slot=False) == 0, "no case is closed"
        assert await run_job(knowledge, "reconcile", once_per_slot=False) == 1
        assert await knowledge.passages.count(room.space, knowledge.workspace) == points // 2
        await knowledge.kb.close_case("42")
        assert await run_job(knowledge, "reconcile", once_per_slot=False) == 1
        assert await knowledge.passages.count(room.space, knowledge.workspace) == 0
