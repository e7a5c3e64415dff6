"""A disk that fills up under the stores (G21): run in a mount namespace of its own, with a small disk at HOME.

`python -m tests.faults.full_disk HOME index|postgres [DSN]` prints one JSON document: what failed and how, and what is
there after room was made.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
import structlog
from pydantic import SecretStr
from sqlalchemy.exc import DBAPIError

from hardwon.errors import HardwonError, Unavailable
from knowledge.models import EntryId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.http.app import make_app
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure

ROOT = Path(__file__).resolve().parents[2]
MB = 1_000_000
SECONDS_TO_COME_BACK = 60


def on_small_disk(home: Path, megabytes: int, *asked: str) -> dict[str, Any] | None:
    """Run this module on a disk of that size at `home`; return what it says, None where nobody may mount one."""
    inside = f'mount -t tmpfs -o size={megabytes}m,mode=755 none {home} && exec "$@"'
    mounting = ["unshare", "-m", "sh", "-c", inside, "sh"]
    if subprocess.run([*mounting, "true"], check=False, capture_output=True).returncode != 0:
        return None
    command = [*mounting, sys.executable, "-m", "tests.faults.full_disk", str(home), *asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


class Disk:
    """A disk, and a file that fills it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._filler = home / "filler"

    def leave(self, free: int) -> None:
        """Fill it, but for so many bytes."""
        with self._filler.open("ab") as filler:
            wanted = shutil.disk_usage(self._home).free - free
            os.posix_fallocate(filler.fileno(), filler.tell(), max(1, wanted))

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


async def _status(knowledge: Knowledge, path: str, body: dict[str, object]) -> tuple[int, str]:
    """Return what the HTTP API answers."""
    transport = httpx.ASGITransport(app=make_app(knowledge))
    async with httpx.AsyncClient(transport=transport, base_url="http://hardwon", timeout=60) as client:
        answer = await client.post(path, json=body)
        return answer.status_code, str(answer.json().get("detail", ""))


async def index_fills_up(settings: KnowledgeSettings) -> dict[str, Any]:
    """Fill the disk under the engine's directory between checkpoints."""
    disk = Disk(settings.home)
    async with _opened(settings) as knowledge:
        before = await _capture(knowledge, 5)
        await knowledge.checkpoints.process_all()
        disk.leave(100 * MB)
        during = await _capture(knowledge, 5)  # needs Postgres alone
        error = await _error_of(knowledge)
        status, detail = await _status(knowledge, "/v1/checkpoints", {"checkpoint_type": "manual"})
        found = await knowledge.queries.query_for_failure("case 1 broke", min_relevance=0)
        disk.make_room()
        report = await knowledge.checkpoints.process_all()
        verified = await knowledge.upkeep.verify()
    return {
        "error": error,
        "status": status,
        "detail": detail,
        "found_meanwhile": len(found),
        "embedded_after": report.embedded,
        "lost": await _lost(settings, before + during),
        "sound": verified.sound,
    }


async def postgres_fills_up(settings: KnowledgeSettings) -> dict[str, Any]:
    """Fill the disk under the embedded Postgres: first no table can grow, then the log of its writes cannot."""
    disk = Disk(settings.home)
    told: dict[str, Any] = {}
    async with _opened(settings) as knowledge:
        kept = await _capture(knowledge, 5)
        await knowledge.checkpoints.process_all()
        disk.leave(MB)
        told["errors"] = await _capture_until_it_fails(knowledge, kept)
        told["status"], told["detail"] = await _status(knowledge, "/v1/entries", _body(0))
        disk.make_room()
        told["seconds"] = await _until_it_works(knowledge, kept)
        disk.leave(MB)
        with suppress(DBAPIError):  # as if the segment were full; a new one takes 16 MB: Postgres ends itself
            async with knowledge.engine.connect() as connection:
                await connection.execute(sa.text("SELECT pg_switch_wal()"))
        told["log_errors"] = await _capture_until_it_fails(knowledge, kept, wait_seconds=1.0)
        disk.make_room()
        told["log_seconds"] = await _until_it_works(knowledge, kept)
        await knowledge.checkpoints.process_all()
        told["sound"] = (await knowledge.upkeep.verify()).sound
    return told | {"kept": len(kept), "lost": await _lost(settings, kept)}


async def _capture_until_it_fails(knowledge: Knowledge, kept: list[EntryId], *, wait_seconds: float = 0.0) -> list[str]:
    errors: list[str] = []
    for number in range(400):
        try:
            kept += await _capture(knowledge, 1, size=60_000, first=100 + number)
        except HardwonError as error:
            errors.append(f"{type(error).__name__}: {error}")
            if len(errors) >= 4:
                break
            await asyncio.sleep(wait_seconds)
    return errors


async def _until_it_works(knowledge: Knowledge, kept: list[EntryId]) -> float:
    began = asyncio.get_running_loop().time()
    while True:
        try:
            kept += await _capture(knowledge, 1, first=10_000)
        except Unavailable:
            if asyncio.get_running_loop().time() - began > SECONDS_TO_COME_BACK:
                raise
            await asyncio.sleep(0.5)
        else:
            return asyncio.get_running_loop().time() - began


def _body(number: int) -> dict[str, object]:
    return {
        "entry_type": "failure_solution",
        "project_id": "web-shop",
        "agent_type": "backend",
        "failure_description": f"case over http {number} broke",
        "solution_steps": _large(number, 60_000),
        "success_verified": True,
    }


def _large(number: int, size: int) -> str:
    """Return a text that does not compress."""
    return os.urandom(size // 2).hex() + str(number)


async def _capture(knowledge: Knowledge, number: int, *, size: int = 10, first: int = 0) -> list[EntryId]:
    return [
        await knowledge.capture.capture(
            failure(
                failure_description=f"case {at} broke",
                solution_steps=_large(at, size),
                run_id=os.urandom(8).hex(),
            )
        )
        for at in range(first, first + number)
    ]


async def _error_of(knowledge: Knowledge) -> str:
    try:
        await knowledge.checkpoints.process_all()
    except HardwonError as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def _lost(settings: KnowledgeSettings, kept: list[EntryId]) -> int:
    """Open the stores again, as another process would; return how many acknowledged entries are not embedded."""
    async with _opened(settings) as knowledge:
        return sum([str((await knowledge.capture.get(entry_id)).status) != "embedded" for entry_id in kept])


@asynccontextmanager
async def _opened(settings: KnowledgeSettings) -> AsyncIterator[Knowledge]:
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        yield knowledge


def main() -> None:
    """Do it, and say what came of it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    home, part, *dsn = sys.argv[1:]
    settings = KnowledgeSettings(home=Path(home), database_url=SecretStr(dsn[0]) if dsn else None)
    told = asyncio.run({"index": index_fills_up, "postgres": postgres_fills_up}[part](settings))
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main()
