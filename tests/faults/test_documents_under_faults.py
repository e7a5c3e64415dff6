"""The short forms of `python -m tests.faults.documents`."""

from __future__ import annotations

import random

import pytest

from knowledge.settings import KnowledgeSettings
from tests.faults.documents import PLACES, ask_across_scopes, change_while_the_index_fails, kill_at, opened


@pytest.mark.harness
@pytest.mark.long
async def test_random_questions_across_scopes_show_nothing_foreign(settings: KnowledgeSettings) -> None:
    """A0-34, A0-40, A2-28, T26; 10,000 of them: `python -m tests.faults.documents scopes`."""
    async with opened(settings) as knowledge:
        shown, foreign = await ask_across_scopes(knowledge, 200, random.Random(7))
    assert foreign == 0
    assert shown > 50


@pytest.mark.harness
@pytest.mark.long
async def test_changes_while_the_index_fails_show_nothing_stale(settings: KnowledgeSettings) -> None:
    """A0-75, T27; more of them: `python -m tests.faults.documents failures`."""
    async with opened(settings) as knowledge:
        failed, stale = await change_while_the_index_fails(knowledge, 80, random.Random(7))
    assert stale == 0
    assert failed > 10


@pytest.mark.harness
@pytest.mark.long
@pytest.mark.parametrize(
    "place", [place for place in PLACES if "write" in place or "activate" in place or "upsert" in place]
)
async def test_an_update_killed_on_its_way_shows_the_old_or_the_new_document(
    settings: KnowledgeSettings, place: str
) -> None:
    """A0-75; all places: `python -m tests.faults.documents kills`."""
    assert await kill_at(settings, place) == []
