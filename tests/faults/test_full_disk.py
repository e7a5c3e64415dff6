"""Full disks (G21): under the index, under Postgres, under the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.full_disk import on_small_disk
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by

IN_A_PROGRAM = """
import asyncio
from orchestrator import connect
from orchestrator.observability.logging import configure_logs
import logging

async def main():
    async with connect() as knowledge:
        for number in range(3):
            await knowledge.capture.capture_failure_solution(
                project_id="program", agent_type="coder", failure_description=f"case {number} broke",
                solution_steps="mend it", success_verified=True,
            )
        report = await knowledge.checkpoints.process_all()
        print(report.embedded, flush=True)

configure_logs(level=logging.DEBUG)
asyncio.run(main())
"""


@pytest.mark.long
def test_g21_a_full_disk_under_the_index_stops_checkpoints_alone_and_only_until_there_is_room(
    home: Path, database_url: str
) -> None:
    """G21: the engine would die of it (SIGBUS), so it is foreseen."""
    told = on_small_disk(home, 600, "index", database_url)
    if told is None:
        pytest.skip("may not mount here")
    assert told["error"].startswith("IndexUnavailable: ")
    assert f"{home / 'index'} has" in told["error"]
    assert "MB of disk left" in told["error"]
    assert (told["status"], told["found_meanwhile"]) == (503, 3), told
    assert (told["embedded_after"], told["lost"], told["sound"]) == (5, 0, True), told


@pytest.mark.long
@pytest.mark.timeout(200)
def test_g21_a_full_disk_under_postgres_is_named_and_loses_nothing_acknowledged(home: Path) -> None:
    """G21."""
    told = on_small_disk(home, 500, "postgres")
    if told is None:
        pytest.skip("may not mount here")
    assert told["errors"], told
    assert all("StorageUnavailable: there is no space left for Postgres" in error for error in told["errors"]), told
    assert all("StorageUnavailable" in error for error in told["log_errors"]), told
    assert f"there is no space left for Postgres in {home}" in told["log_errors"][-1], "it ended, and cannot start"
    assert told["status"] == 503, told
    assert (told["lost"], told["sound"]) == (0, True), told


@pytest.mark.long
def test_g21_a_full_disk_under_the_log_stops_no_work(home: Path, database_url: str) -> None:
    """G21: what would be logged is lost, and nothing else."""
    commands = Commands(home, {"HARDWON_DATABASE_URL": database_url})
    with OpenAIServer(dims=64) as server, Path("/dev/full").open("w") as full:
        environment = commands.environment(**embedding_by(server))
        done = subprocess.run(
            [sys.executable, "-c", IN_A_PROGRAM],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stdout == "3\n"
