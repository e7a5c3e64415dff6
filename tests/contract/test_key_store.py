"""The contract of KeyStore: keys are found, listed, replaced, revoked and pruned."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.models.access import ApiKey, Scope
from knowledge.access.keys import KeyHash, KeyStore
from knowledge.adapters.postgres.admin.access import PostgresKeys
from tests.support.entries import NOON
from tests.support.sharing import OF_ONE_LOOP

pytestmark = OF_ONE_LOOP

HASH = KeyHash(digest=b"\0" * 32, pepper="ours")
DAY = timedelta(days=1)


@pytest.fixture
def keys(empty_engine: AsyncEngine) -> KeyStore:
    return PostgresKeys(empty_engine)


def key(number: int, workspace: str | None = "ours", **told: object) -> ApiKey:
    made = {"name": "n", "scopes": (Scope.CAPTURE,), "created_at": NOON} | told
    return ApiKey(key_id=f"{number:012x}", workspace=workspace, **made)  # type: ignore[arg-type]


async def kept(keys: KeyStore, number: int) -> ApiKey:
    found = await keys.find(f"{number:012x}")
    assert found is not None
    return found[0]


async def test_a_key_is_found_as_it_was_made(keys: KeyStore) -> None:
    made = key(1, None, scopes=tuple(Scope), expires_at=NOON + DAY, name=None)
    assert not await keys.has_any()
    await keys.add(made, HASH)
    assert await keys.find(made.key_id) == (made, HASH)
    assert await keys.find("f" * 12) is None
    assert await keys.has_any()


async def test_several_keys_are_found_at_once_and_those_that_there_are_not_are_left_out(keys: KeyStore) -> None:
    for number in (1, 2, 3):
        await keys.add(key(number), HASH)
    assert await keys.find_all([key(number).key_id for number in (3, 4, 1)]) == {
        key(number).key_id: (key(number), HASH) for number in (1, 3)
    }
    assert await keys.find_all([]) == {}


async def test_keys_are_listed_page_by_page_in_the_order_of_their_ids(keys: KeyStore) -> None:
    for number in (3, 1, 2, 5):
        await keys.add(key(number), HASH)
    await keys.add(key(4, "theirs"), HASH)
    await keys.add(key(6, None), HASH)
    assert await keys.list("ours", after=None, limit=2) == [key(1), key(2)]
    assert await keys.list("ours", after=key(2).key_id, limit=9) == [key(3), key(5)]
    assert len(await keys.list(None, after=None, limit=9)) == 6


async def test_a_replaced_key_ends_at_the_earlier_of_two_moments(keys: KeyStore) -> None:
    await keys.add(key(1), HASH)
    await keys.add(key(2, expires_at=NOON + DAY), HASH)
    for number in (1, 2):
        assert await keys.replace(f"{number:012x}", key(number + 6), HASH, expires_at=NOON + 2 * DAY)
    assert [(await kept(keys, number)).expires_at for number in (1, 2)] == [NOON + 2 * DAY, NOON + DAY]
    assert (await kept(keys, 1)).replaced_by == key(7).key_id
    assert await kept(keys, 7) == key(7)


async def test_the_chain_of_a_key_is_all_that_rotations_made_of_the_first(keys: KeyStore) -> None:
    first = key(1).key_id
    chain = [key(1), key(2, first_key=first), key(3, first_key=first)]
    for each in (*chain, key(4, created_at=NOON + DAY)):
        await keys.add(each, HASH)
    assert await kept(keys, 3) == chain[2]
    for each in chain:
        assert await keys.chain(each.key_id) == tuple(one.key_id for one in chain)
    assert await keys.chain(key(4).key_id) == (key(4).key_id,)
    assert await keys.chain("agent") == ("agent",)
    await keys.revoke(first, NOON)
    assert await keys.prune(NOON + DAY) == 1
    for each in chain:
        assert await keys.chain(each.key_id) == tuple(one.key_id for one in chain), "the first may be gone"


async def test_of_eight_that_replace_a_key_at_once_one_does(keys: KeyStore) -> None:
    """Each other one would open, and be known to nobody as what took its place."""
    await keys.add(key(1), HASH)
    each = [keys.replace(key(1).key_id, key(number), HASH, expires_at=NOON + DAY) for number in range(2, 10)]
    assert sum(await asyncio.gather(*each)) == 1
    assert {found.key_id for found in await keys.list(None, after=None, limit=9)} == {
        key(1).key_id, (await kept(keys, 1)).replaced_by
    }  # fmt: skip


async def test_a_key_is_revoked_once_and_its_last_use_never_moves_back(keys: KeyStore) -> None:
    await keys.add(key(1), HASH)
    for hours in (1, 2):
        await keys.revoke(key(1).key_id, NOON + timedelta(hours=hours))
    for hours in (5, 3):
        await keys.touch(key(1).key_id, NOON + timedelta(hours=hours))
    found = await kept(keys, 1)
    assert found.revoked_at == NOON + timedelta(hours=1)
    assert found.last_used_at == NOON + timedelta(hours=5)


async def test_live_keys_of_another_pepper_are_counted(keys: KeyStore) -> None:
    assert await keys.count_with_other_pepper("ours", NOON) == 0
    others = replace(HASH, pepper="lost")
    for number, hashed in enumerate((HASH, others, others, others, others)):
        await keys.add(key(number, expires_at=NOON + number * DAY if number > 2 else None), hashed)
    await keys.revoke(key(1).key_id, NOON)
    assert await keys.count_with_other_pepper("ours", NOON + 3 * DAY) == 2
    assert await keys.count_with_other_pepper("lost", NOON + 3 * DAY) == 1


async def test_keys_that_ended_long_ago_go_and_the_last_one_made_stays(keys: KeyStore) -> None:
    """Without any the store would count as one that never had a key, and is open to its own machine."""
    await keys.add(key(1), HASH)
    await keys.add(key(2, expires_at=NOON + DAY), HASH)
    await keys.add(key(3, expires_at=NOON + 3 * DAY), HASH)
    await keys.add(key(4, expires_at=NOON + 9 * DAY), HASH)
    await keys.add(key(5, created_at=NOON + DAY, expires_at=NOON + DAY), HASH)
    for number in (1, 4):
        await keys.revoke(key(number).key_id, NOON + number * DAY)
    assert await keys.prune(NOON + 3 * DAY) == 2
    assert [each.key_id[-1] for each in await keys.list(None, after=None, limit=9)] == ["3", "4", "5"]
    assert await keys.prune(NOON + 30 * DAY) == 2
    assert await keys.prune(NOON + 30 * DAY) == 0
    assert await keys.has_any()
