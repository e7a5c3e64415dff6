"""Keys: made once, kept as a keyed hash, known again in constant time, rotated, revoked, expired."""

from __future__ import annotations

import asyncio
import hmac
import inspect
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import AccessDenied, InvalidInput, NotFound, StorageUnavailable
from hardwon.models.access import ApiKey, Scope
from knowledge.access import authentication
from knowledge.access.authentication import Authenticator
from knowledge.access.keys import KeyHash, KeyService, Pepper
from knowledge.access.principals import Principal, Trust
from knowledge.access.sessions import PageSessions
from knowledge.adapters.postgres.admin.access import PostgresKeys, PostgresSessions
from knowledge.text.redaction import redact
from tests.conftest import SetClock
from tests.support.cases import over
from tests.support.sharing import OF_ONE_LOOP, emptied_database, empty_engine, shared_engine

__all__ = ["emptied_database", "empty_engine", "shared_engine"]  # fixtures
pytestmark = OF_ONE_LOOP

PEPPER = Pepper(value=b"p" * 32, name="ours")
DAY = timedelta(days=1)


class CountingKeys(PostgresKeys):
    """Counts how often the store is asked for a key."""

    asked = 0

    async def find(self, key_id: str) -> tuple[ApiKey, KeyHash] | None:
        self.asked += 1
        return await super().find(key_id)


@dataclass
class Ring:
    """A store of keys, who makes them and who knows them again."""

    store: CountingKeys
    clock: SetClock
    seconds: float = 0.0
    doors: Authenticator = field(init=False)
    keys: KeyService = field(init=False)

    def __post_init__(self) -> None:
        self.doors = self.another_process()
        self.keys = KeyService(store=self.store, pepper=lambda: PEPPER, clock=self.clock, cache=self.doors)

    def another_process(self, pepper: Pepper = PEPPER) -> Authenticator:
        sessions = PageSessions(store=PostgresSessions(self.store._engine), clock=self.clock)
        return Authenticator(
            store=self.store,
            sessions=sessions,
            pepper=lambda: pepper,
            clock=self.clock,
            seconds=lambda: self.seconds,
        )


@pytest_asyncio.fixture(loop_scope="session")
async def ring(empty_engine: AsyncEngine, clock: SetClock) -> AsyncIterator[Ring]:
    ring = Ring(CountingKeys(empty_engine), clock)
    yield ring
    await ring.doors.aclose()


async def refused(doors: Authenticator, text: str) -> str:
    with pytest.raises(AccessDenied) as denied:
        await doors.principal(text)
    return str(denied.value)


async def test_a_key_makes_a_principal_of_its_scopes_and_workspace(ring: Ring) -> None:
    made = await ring.keys.create(["query", "capture"], workspace="ours", name="the orchestrator")
    principal = await ring.doors.principal(made.secret)
    assert principal == Principal(
        trust=Trust.KEY,
        scopes=frozenset({Scope.CAPTURE, Scope.QUERY}),
        workspace="ours",
        key_id=made.key.key_id,
        name="the orchestrator",
    )
    assert made.key.scopes == (Scope.CAPTURE, Scope.QUERY)
    assert made.secret.startswith(f"hw_{made.key.key_id}_")


async def test_t11_a_secret_is_kept_as_a_hash_that_needs_the_pepper(ring: Ring) -> None:
    """T11. The pepper is not in the store, and no representation of it shows it."""
    made = await ring.keys.create(["admin"], workspace=None)
    secret = made.secret.rpartition(made.key.key_id)[2][1:]
    kept = await ring.store.find(made.key.key_id)
    assert kept is not None
    assert kept[1].digest == hmac.digest(PEPPER.value, secret.encode(), "sha256")
    assert repr(PEPPER.value) not in repr(PEPPER)
    assert "is not valid" in await refused(ring.another_process(Pepper(value=b"q" * 32, name="theirs")), made.secret)


async def test_a_key_that_an_agent_writes_into_an_entry_is_taken_out(ring: Ring) -> None:
    made = await ring.keys.create(["admin"], workspace=None)
    told = f"it said 401 to {made.secret} and stopped"
    assert redact(told).text == "it said 401 to [redacted:platform-token] and stopped"


async def test_secrets_have_256_bits_and_are_compared_in_constant_time(ring: Ring) -> None:
    made = [await ring.keys.create(["capture"], workspace="w") for _ in range(20)]
    assert len({each.secret for each in made}) == 20
    assert all(len(each.secret.split("_", 2)[2]) == 43 for each in made), "32 bytes in base64"
    assert "hmac.compare_digest(" in inspect.getsource(authentication)


async def test_one_that_is_wrong_unknown_expired_or_revoked_is_told_the_same(ring: Ring) -> None:
    good = await ring.keys.create(["capture"], workspace="w", expires_in=DAY)
    gone = await ring.keys.create(["capture"], workspace="w")
    await ring.keys.revoke(gone.key.key_id)
    wrong = good.secret[:-1] + ("A" if good.secret[-1] != "A" else "B")
    told = {await refused(ring.doors, text) for text in (wrong, f"hw_{'0' * 12}_{'A' * 43}", "sesame", "", gone.secret)}
    await ring.doors.principal(good.secret)
    ring.clock.move(DAY)
    assert {await refused(ring.doors, good.secret)} | told == told
    assert len(told) == 1


async def test_a_remembered_key_asks_the_store_once_in_a_few_seconds(ring: Ring) -> None:
    made = await ring.keys.create(["capture"], workspace="w")
    for _ in range(50):
        await ring.doors.principal(made.secret)
    ring.seconds += 4.9
    await ring.doors.principal(made.secret)
    assert ring.store.asked == 1
    ring.seconds += 0.2
    await ring.doors.principal(made.secret)
    assert ring.store.asked == 2


async def test_a_key_that_let_somebody_in_is_recognised_until_it_is_seen_to_end(ring: Ring) -> None:
    made = await ring.keys.create(["query"], workspace="ours")
    elsewhere = ring.another_process()
    assert not elsewhere.find_expired(made.secret)
    await elsewhere.principal(made.secret)
    ring.seconds += 500
    assert elsewhere.find_expired(made.secret)
    assert not elsewhere.find_expired(f"hw_{made.key.key_id}_{'a' * 43}")
    assert not elsewhere.find_expired("a")
    await ring.keys.revoke(made.key.key_id)
    await refused(elsewhere, made.secret)
    assert not elsewhere.find_expired(made.secret)


async def test_a_key_that_is_revoked_while_the_store_is_asked_for_it_is_not_remembered(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opened for five seconds more, in the very process that had revoked it."""
    made, other = await ring.keys.create(["query"], workspace=None), await ring.keys.create(["query"], workspace=None)
    find, asked, answers = ring.store.find, asyncio.Event(), asyncio.Event()

    async def slow(key_id: str) -> tuple[ApiKey, KeyHash] | None:
        found = await find(key_id)
        asked.set()
        await answers.wait()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(ring.store, "find", slow)
        coming = asyncio.create_task(ring.doors.principal(made.secret))
        await asked.wait()
        ring.store.find = find  # type: ignore[method-assign] # for those who come after
        await ring.keys.revoke(made.key.key_id)
        answers.set()
        await coming
    assert ring.doors.find_cached(made.secret) is None
    with pytest.raises(AccessDenied):
        await ring.doors.principal(made.secret)
    await ring.doors.principal(other.secret)
    assert ring.doors.find_cached(other.secret) is not None


async def test_a_look_that_fails_is_told_to_whoever_waits_for_it_and_the_next_one_is_a_new_one(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await ring.keys.create(["capture"], workspace="w")
    find_all = ring.store.find_all

    async def down_once(key_ids: Collection[str]) -> dict[str, tuple[ApiKey, KeyHash]]:
        monkeypatch.setattr(ring.store, "find_all", find_all)
        raise StorageUnavailable("down")

    monkeypatch.setattr(ring.store, "find_all", down_once)
    ring.doors = ring.another_process()
    gone = asyncio.create_task(ring.doors.principal_of_new_key(made.secret))
    others = [asyncio.create_task(ring.doors.principal_of_new_key(made.secret)) for _ in range(2)]
    await asyncio.sleep(0)
    gone.cancel()
    told = await asyncio.gather(*others, return_exceptions=True)
    assert [type(each) for each in told] == [StorageUnavailable] * 2
    ring.doors = ring.another_process()
    assert (await ring.doors.principal_of_new_key(made.secret)).key_id == made.key.key_id
    await ring.doors.aclose()


async def test_a_first_key_that_is_made_while_the_store_is_asked_for_any_is_known_at_once(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ring.store.has_any

    async def late() -> bool:
        found = await there()
        await ring.keys.create(["query"], workspace=None)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(ring.store, "has_any", late)
        assert not await ring.doors.has_any_key()
    assert await ring.doors.has_any_key()


async def test_a_revoked_key_opens_nothing_here_at_once_and_elsewhere_within_five_seconds(ring: Ring) -> None:
    made = await ring.keys.create(["capture"], workspace="w")
    elsewhere = ring.another_process()
    await ring.doors.principal(made.secret)
    await elsewhere.principal(made.secret)
    await ring.keys.revoke(made.key.key_id)
    await refused(ring.doors, made.secret)
    ring.seconds += 5.1
    await refused(elsewhere, made.secret)


async def test_a_rotated_key_and_its_successor_both_open_until_the_overlap_is_over(ring: Ring) -> None:
    old = await ring.keys.create(["query"], workspace="w", name="n", expires_in=30 * DAY)
    ring.clock.move(10 * DAY)
    new = await ring.keys.rotate(old.key.key_id, overlap=DAY)
    assert (new.key.name, new.key.scopes, new.key.workspace) == ("n", (Scope.QUERY,), "w")
    assert new.key.expires_at == ring.clock.now() + 30 * DAY, "as long as the first one"
    assert (await ring.doors.principal(old.secret)).scopes == (await ring.doors.principal(new.secret)).scopes
    with pytest.raises(NotFound, match=f"successor {new.key.key_id}"):
        await ring.keys.rotate(old.key.key_id)
    ring.clock.move(DAY)
    await refused(ring.doors, old.secret)
    await ring.doors.principal(new.secret)
    with pytest.raises(NotFound, match="has ended"):
        await ring.keys.rotate(old.key.key_id)


async def test_an_overlap_never_lengthens_a_key(ring: Ring) -> None:
    old = await ring.keys.create(["query"], workspace="w", expires_in=DAY)
    await ring.keys.rotate(old.key.key_id, overlap=7 * DAY)
    ring.clock.move(DAY)
    await refused(ring.doors, old.secret)


async def test_the_last_use_is_noted_once_a_minute(ring: Ring) -> None:
    made = await ring.keys.create(["capture"], workspace="w")
    for seconds in (0, 30, 45):
        ring.clock.move(timedelta(seconds=seconds))
        await ring.doors.principal(made.secret)
        await asyncio.sleep(0)
        await ring.doors.aclose()
    (key,) = await ring.keys.list()
    assert key.last_used_at == ring.clock.now()
    assert key.last_used_at - key.created_at == timedelta(seconds=75)


async def test_who_has_a_key_of_one_workspace_sees_makes_and_ends_keys_of_that_one_only(ring: Ring) -> None:
    theirs = await ring.keys.create(["admin"], workspace="theirs")
    whole = await ring.keys.create(["admin"], workspace=None)
    ours = KeyService(store=ring.store, pepper=lambda: PEPPER, clock=ring.clock, cache=ring.doors, within="ours")
    made = await ours.create(["capture"], workspace="ours")
    assert await ours.list() == [made.key]
    for workspace in ("theirs", None):
        with pytest.raises(AccessDenied):
            await ours.create(["capture"], workspace=workspace)
    for other in (theirs, whole):
        for end in (ours.revoke, ours.rotate):
            with pytest.raises(NotFound):
                await end(other.key.key_id)
    with pytest.raises(AccessDenied):
        await ours.count_unusable()


async def test_keys_of_another_pepper_are_counted_and_without_a_key_no_pepper_is_made(ring: Ring) -> None:
    def no_pepper() -> Pepper:
        raise AssertionError("nothing is to be compared with it")

    assert await replace(ring.keys, pepper=no_pepper).count_unusable() == 0
    await ring.keys.create(["query"], workspace=None)
    assert await ring.keys.count_unusable() == 0
    other = replace(ring.keys, pepper=lambda: replace(PEPPER, name="another"))
    assert await other.count_unusable() == 1


@over(
    "wrong, field",
    [
        ({"scopes": []}, "scope"),
        ({"scopes": ["root"]}, "scope"),
        ({"workspace": " "}, "workspace"),
        ({"workspace": "w" * 201}, "workspace"),
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"expires_in": timedelta(0)}, "expires"),
        ({"expires_in": timedelta(days=40_000)}, "expires"),
    ],
)
async def test_a_wrong_wish_names_what_is_wrong_and_makes_nothing(
    ring: Ring, wrong: dict[str, object], field: str
) -> None:
    wish: dict[str, object] = {"scopes": ["capture"], "workspace": "w"} | wrong
    with pytest.raises(InvalidInput) as refused_wish:
        await ring.keys.create(**wish)  # type: ignore[arg-type]
    assert refused_wish.value.field == field
    assert await ring.keys.list() == []


async def test_whether_any_key_was_ever_made_is_known_at_once_here_and_within_seconds_elsewhere(ring: Ring) -> None:
    elsewhere = ring.another_process()
    assert not await ring.doors.has_any_key()
    assert not await elsewhere.has_any_key()
    made = await ring.keys.create(["admin"], workspace=None)
    assert await ring.doors.has_any_key()
    ring.seconds += 5.1
    assert await elsewhere.has_any_key()
    await ring.keys.revoke(made.key.key_id)
    assert await ring.doors.has_any_key(), "else ending the last key would open the door to everybody"


async def test_a_store_that_does_not_answer_lets_nobody_in_and_stops_nobody_known(ring: Ring) -> None:
    made = await ring.keys.create(["capture"], workspace="w")
    await ring.doors.principal(made.secret)

    async def broken(*_: object) -> None:
        raise StorageUnavailable("gone")

    ring.store.find = ring.store.touch = broken  # type: ignore[method-assign, assignment]
    ring.clock.move(timedelta(minutes=2))
    await ring.doors.principal(made.secret)
    await ring.doors.aclose()
    with pytest.raises(StorageUnavailable):
        await ring.doors.principal(f"hw_{'0' * 12}_{'A' * 43}")
