"""Backups: archives that were restored, verified and asked before they count; a half one never passes for whole."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from hardwon.errors import Conflict, InvalidInput, StoreAltered
from jobs.table import run_job
from knowledge.adapters.files.backup_files import find_backup, list_backups, own_folder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import backups
from knowledge.wiring.backups import back_up, backup_keys, put_aside, restore
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.support.embedders import HashingEmbedder
from tests.support.entries import approval, failure, learn

KEYS = SecretStr("k" * 40)
TOLD = [
    *(failure(task_id=f"T-{n}", failure_description=f"Disk {n} of the build is full, {n * 7} logs") for n in range(12)),
    approval(task_id="T-100"),
]  # fmt: skip


def count_archives(folder: Path) -> int:
    return len(list(folder.glob("*.backup")))


def embedder() -> HashingEmbedder:
    return HashingEmbedder(dims=64)


@pytest.fixture
def sealed(settings: KnowledgeSettings) -> KnowledgeSettings:
    return settings.model_copy(update={"seal_keys": KEYS})


@asynccontextmanager
async def opened(settings: KnowledgeSettings) -> AsyncIterator[Knowledge]:
    async with open_knowledge(settings, embedder=embedder()) as knowledge:
        yield knowledge


@asynccontextmanager
async def empty_store(tmp: Path) -> AsyncIterator[tuple[Knowledge, KnowledgeSettings]]:
    """Open a store of its own in a data directory."""
    own = KnowledgeSettings(home=tmp, seal_keys=KEYS, holdout=0)
    async with opened(own) as knowledge:
        yield knowledge, own


@pytest.mark.long
async def test_a_backup_is_tried_and_restores_what_was_learned(
    sealed: KnowledgeSettings, tmp_path: Path, home: Path
) -> None:
    async with opened(sealed) as knowledge:
        await learn(knowledge, *TOLD)
        made = await back_up(knowledge, sealed, tmp_path, keep=3, embedder=embedder())
        asked = TOLD[3].failure_description or ""
        before = await knowledge.queries.query_for_failure(asked, min_relevance=0)
        assert (made.record.rows["knowledge_staging"], made.record.answers) == (13, 10)
        assert made.path.stat().st_mode & 0o077 == 0
        assert [each.path for each in list_backups(tmp_path)] == [made.path]
        with pytest.raises(Conflict, match=r"holds something already.*not newer than the backup.*--replace"):
            await restore(knowledge, made, sealed)

    async with empty_store(home / "other") as (other, own):
        found = find_backup(tmp_path)
        found.check(backup_keys(own))
        report = await restore(other, found, own)
        assert report.embedded == 0
        after = await other.queries.query_for_failure(asked, min_relevance=0)
        assert [(each.pattern_id, each.success_count) for each in after] == [
            (each.pattern_id, each.success_count) for each in before
        ]
        assert (await other.upkeep.verify()).sound


@pytest.mark.long
async def test_only_the_latest_are_kept_and_leftovers_go(sealed: KnowledgeSettings, tmp_path: Path) -> None:
    (tmp_path / "hardwon-20200101T000000.000000Z.backup").write_bytes(b"half of an archive")
    (tmp_path / "notes.txt").write_text("of somebody else")
    async with opened(sealed) as knowledge:
        await learn(knowledge, *TOLD)
        made = [await back_up(knowledge, sealed, tmp_path, keep=2, embedder=embedder()) for _ in range(3)]
    assert [each.path for each in list_backups(tmp_path)] == [made[2].path, made[1].path]
    assert sorted(Path(name).suffix for name in os.listdir(tmp_path) if not name.startswith(".")) == [  # noqa: PTH208
        ".backup", ".backup", ".json", ".json", ".txt",
    ]  # fmt: skip


@pytest.mark.long
async def test_captures_during_a_backup_are_in_the_store_and_the_copy_is_of_one_moment(
    sealed: KnowledgeSettings, tmp_path: Path
) -> None:
    async with opened(sealed) as knowledge:
        await learn(knowledge, *TOLD)

        async def capture() -> None:
            for number in range(30):
                await knowledge.capture.capture_failure_solution(
                    project_id="other", failure_description=f"A new thing {number} fails", solution_steps="Mend it",
                    success_verified=True, task_id=f"N-{number}", agent_type="coder",
                )  # fmt: skip
                await asyncio.sleep(0.01)

        made, _ = await asyncio.gather(back_up(knowledge, sealed, tmp_path, keep=2, embedder=embedder()), capture())
        assert 13 <= made.record.rows["knowledge_staging"] <= 43
        assert sum((await knowledge.stats()).entries.values()) == 43


@pytest.mark.long
async def test_what_does_not_pass_its_trial_is_no_backup(
    sealed: KnowledgeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(sealed) as knowledge:
        await learn(knowledge, *TOLD)
        await back_up(knowledge, sealed, tmp_path, keep=1, embedder=embedder())
        (older,) = list_backups(tmp_path)

        async def answer_otherwise(*_: object, **__: object) -> list[backups.Answer]:
            return [backups.Answer("default", str(time.monotonic()), None)]

        ask, calls = backups._ask, 0

        async def ask_twice(stores: backups.Stores, texts: list[tuple[str, str]]) -> list[backups.Answer]:
            nonlocal calls
            calls += 1
            return await (ask if calls < 3 else answer_otherwise)(stores, texts)

        monkeypatch.setattr(backups, "_ask", ask_twice)
        with pytest.raises(StoreAltered, match="did not pass its trial and was removed"):
            await back_up(knowledge, sealed, tmp_path, keep=1, embedder=embedder())
    assert list_backups(tmp_path) == [older]
    assert count_archives(tmp_path) == 1


@pytest.mark.long
async def test_an_encrypted_backup_opens_with_its_identity_alone(
    sealed: KnowledgeSettings, tmp_path: Path, home: Path
) -> None:
    pyrage = pytest.importorskip("pyrage")
    for name in ("ours", "theirs"):
        (tmp_path / name).write_text(f"# made by a test\n{pyrage.x25519.Identity.generate()}\n")
    folder = tmp_path / "backups"
    locked = sealed.model_copy(update={"backup_identity": tmp_path / "ours"})
    async with opened(locked) as knowledge:
        await learn(knowledge, *TOLD)
        made = await back_up(knowledge, locked, folder, keep=1, embedder=embedder())
    content = made.path.read_bytes()
    assert made.record.is_encrypted
    assert content.startswith(b"age-encryption.org/v1")
    assert b"isk 3 of the build" not in content
    async with empty_store(home / "other") as (other, own):
        with pytest.raises(InvalidInput, match="is encrypted: set HARDWON_BACKUP_IDENTITY"):
            await restore(other, made, own)
        with pytest.raises(InvalidInput, match="does not open"):
            await restore(other, made, own.model_copy(update={"backup_identity": tmp_path / "theirs"}))
        assert not await other.workspaces()
        await restore(other, made, own.model_copy(update={"backup_identity": tmp_path / "ours"}))
        assert (await other.stats()).patterns == 13


@pytest.mark.long
async def test_bad_backups_are_named_before_anything_is_changed(sealed: KnowledgeSettings, tmp_path: Path) -> None:
    async with opened(sealed) as knowledge:
        await learn(knowledge, *TOLD)
        made = await back_up(knowledge, sealed, tmp_path, keep=1, embedder=embedder())
    keys, whole, record = backup_keys(sealed), made.path.read_bytes(), made.path.with_suffix(".json")
    told = record.read_text()

    made.path.write_bytes(whole[:-100])
    with pytest.raises(InvalidInput, match="is cut short or grown"):
        find_backup(tmp_path).check(keys)
    made.path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InvalidInput, match="is not as it was tried"):
        find_backup(tmp_path).check(keys)
    made.path.write_bytes(whole)
    find_backup(tmp_path).check(keys)

    for name, value in (("sha256", "0" * 64), ("size", 5), ("answers", 11), ("made_at", "2031-01-01T00:00:00+00:00")):
        record.write_text(json.dumps(json.loads(told) | {name: value}))
        with pytest.raises(InvalidInput, match="was edited"):
            find_backup(made.path).check(keys)
    record.write_text(told)
    with pytest.raises(InvalidInput, match="with a key that is not here"):
        find_backup(made.path).check(backup_keys(sealed.model_copy(update={"seal_keys": SecretStr("o" * 40)})))
    with pytest.raises(InvalidInput, match="holds no backup"):
        find_backup(tmp_path.parent)
    record.unlink()
    with pytest.raises(InvalidInput, match="has no record of a trial"):
        find_backup(made.path)
    assert list_backups(tmp_path) == []


@pytest.mark.long
async def test_the_present_stores_are_put_aside_whole(home: Path, tmp_path: Path) -> None:
    async with empty_store(home) as (knowledge, own):
        await learn(knowledge, *TOLD)
        made = await back_up(knowledge, own, tmp_path, keep=1, embedder=embedder())
        await learn(knowledge, failure(task_id="later", failure_description="A thing of later"))
        with pytest.raises(Conflict, match="newer than the backup"):
            await restore(knowledge, made, own)
    folder = await put_aside(own)
    async with opened(own) as again:
        assert not await again.workspaces()
        await restore(again, made, own)
        assert sum((await again.stats()).entries.values()) == 13
    async with opened(own.model_copy(update={"home": folder})) as before:
        assert sum((await before.stats()).entries.values()) == 14
    with pytest.raises(InvalidInput, match="make an empty database"):
        await put_aside(own.model_copy(update={"database_url": SecretStr("postgresql://nowhere/x")}))


@pytest.mark.long
async def test_the_job_makes_one_where_a_folder_is_named_and_one_at_a_time(
    sealed: KnowledgeSettings, tmp_path: Path
) -> None:
    planned = sealed.model_copy(update={"backup_dir": tmp_path / "daily", "embedding_model": "all-MiniLM-L6-v2"})
    async with open_knowledge(sealed) as knowledge:
        assert await run_job(knowledge, "backup", once_per_slot=False) == 0
    async with open_knowledge(planned) as knowledge:
        await learn(knowledge, *TOLD)
        assert await run_job(knowledge, "backup", once_per_slot=False) == 1
        with own_folder(tmp_path / "daily"), pytest.raises(Conflict, match="another process makes a backup"):
            await run_job(knowledge, "backup", once_per_slot=False)
    assert len(list_backups(tmp_path / "daily")) == 1


_MAKE = """
import asyncio, sys
from pathlib import Path
from pydantic import SecretStr
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.backups import back_up
from knowledge.wiring.open import open_knowledge
from tests.support.embedders import HashingEmbedder

async def main():
    url, keys = SecretStr(sys.argv[3]), SecretStr("k" * 40)
    settings = KnowledgeSettings(home=Path(sys.argv[1]), database_url=url, seal_keys=keys)
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        print("open", flush=True)
        await back_up(knowledge, settings, Path(sys.argv[2]), keep=2, embedder=HashingEmbedder(dims=64))

asyncio.run(main())
"""


@pytest.mark.long
async def test_a_killed_backup_is_none_and_the_one_of_before_stays(
    sealed: KnowledgeSettings, tmp_path: Path, database_url: str
) -> None:
    async with opened(sealed) as knowledge:
        await learn(knowledge, *TOLD)
        await back_up(knowledge, sealed, tmp_path, keep=2, embedder=embedder())
    keys = backup_keys(sealed)
    kills = int(os.environ.get("HARDWON_TEST_KILLS", "12"))
    for number in range(kills):
        command = [sys.executable, "-c", _MAKE, str(sealed.home), str(tmp_path), database_url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)  # noqa: ASYNC220 - killed below
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        time.sleep(0.3 * number % 5)  # noqa: ASYNC251 - a moment of the backup
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        whole = list_backups(tmp_path)
        assert whole
        for each in whole:
            each.check(keys)
    async with opened(sealed) as knowledge:
        await back_up(knowledge, sealed, tmp_path, keep=2, embedder=embedder())
    assert count_archives(tmp_path) == len(list_backups(tmp_path)) == 2
