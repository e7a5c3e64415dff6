"""`import hardwon`: what programs load, with and without an event loop, whatever their own packages are called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hardwon
from hardwon.errors import InvalidInput, NotFound, OwnerUnavailable
from knowledge.models import EntryId
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, entry

ROOT = Path(__file__).resolve().parents[3]
OURS = ("hardwon", "jobs", "knowledge", "migrations", "orchestrator")


def loaded_by(program: str) -> set[str]:
    """Return the top-level packages that a program has loaded in the end, without Python's own."""
    shows = f"{program}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", shows], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split()) - sys.stdlib_module_names


@pytest.mark.long
def test_an_import_loads_nothing_and_a_connection_httpx_and_pydantic_alone() -> None:
    assert loaded_by("import hardwon") <= {"hardwon", "_virtualenv", "sitecustomize"} | loaded_by("pass")
    client = loaded_by("import hardwon; hardwon.connect; hardwon.connect_sync; hardwon.Hooks; hardwon.Task")
    allowed = loaded_by("import httpx, pydantic; from pydantic import TypeAdapter; from typing_extensions import *")
    assert client - allowed <= {"hardwon", "annotated_types"}, "the last is pydantic's"


def test_every_public_name_is_there() -> None:
    assert {name for name in hardwon.__all__ if getattr(hardwon, name, None) is None} == set()
    assert hardwon.OrchestratorHooks is hardwon.Hooks
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        getattr(hardwon, "conect")  # noqa: B009 - a name that is not there


@pytest.fixture
def connection(beside: Commands) -> dict[str, str]:
    return {**beside.settings, "HARDWON_HOME": str(beside.home)}


@pytest.mark.long
def test_code_without_an_event_loop_has_every_service_in_any_thread(connection: dict[str, str]) -> None:
    with hardwon.connect_sync(workspace="sync", settings=connection) as knowledge:

        def capture(number: int) -> EntryId:
            new = hardwon.NewEntry(**entry(task_id=f"S-{number}"))  # type: ignore[arg-type] # the usual fields
            found: EntryId = knowledge.capture.capture(new)
            return found

        with ThreadPoolExecutor(4) as threads:
            assert len(set(threads.map(capture, range(8)))) == 8
        assert knowledge.checkpoints.process_all().embedded == 8
        assert knowledge.stats().entries == {"embedded": 8}
        assert len(b"".join(knowledge.archives.export_entries("sync")).splitlines()) == 8
        with pytest.raises(NotFound):
            knowledge.capture.get("00000000-0000-0000-0000-000000000001")
        hooks = knowledge.hooks()
        task = hardwon.Task(description="Sum up a cart", project_id="web-shop", task_id="H-1", run_id="1")
        assert hooks.task_started(task, "backend").text.startswith("Task: Sum up a cart")
        told = {"project_id": "web-shop", "task_id": "H-1", "run_id": "1"}
        assert hooks.task_failed(**told, agent_type="backend", failure_description="It raises").degraded is None
        assert "capture" in dir(knowledge)
        assert knowledge.in_workspace("other").stats().entries == {}
    with pytest.raises(OwnerUnavailable, match="within its `with` block"):
        knowledge.stats()


def test_a_worker_that_was_forked_is_told_to_connect_itself(connection: dict[str, str]) -> None:
    """It waited for a thread that only the parent has, without an end."""
    with hardwon.connect_sync(settings=connection) as knowledge:
        read, write = os.pipe()
        if (pid := os.fork()) == 0:
            try:
                knowledge.stats()
            except OwnerUnavailable as error:
                os.write(write, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        os.close(write)
        with os.fdopen(read) as told:
            assert "hardwon.connect_sync() in each worker" in told.read()


@pytest.mark.parametrize("deadline", ["60", None, True, float("nan"), 0, -1])
def test_a_deadline_that_is_none_is_refused_when_hooks_are_made(deadline: object) -> None:
    """Every event was lost, as a number of seconds was taken for a timedelta at the first one."""
    with pytest.raises(InvalidInput, match="deadline"):
        hardwon.Hooks(None, deadline=deadline)  # type: ignore[arg-type] # that is the point
    hardwon.Hooks(None, deadline=60)


USES_IT = """
import asyncio, json, jobs, knowledge, migrations, orchestrator
import hardwon

async def main():
    async with hardwon.connect() as memory, hardwon.Hooks(memory) as hooks:
        told = {"project_id": "shop", "task_id": "T-1", "run_id": "1"}
        context = await hooks.task_started(hardwon.Task(description="Sum up a cart", **told), "coder")
        failed = await hooks.task_failed(**told, agent_type="coder", failure_description="The sum raises TypeError")
        solved = await hooks.task_solved(**told, solution_steps="Take a missing price as zero", verified_by="pytest")
        await hooks.phase_completed("shop")
        await hooks.wait_for_checkpoints()
        entries = (await memory.stats()).entries
    own = [module.OWN for module in (jobs, knowledge, migrations, orchestrator)]
    degraded = [context.degraded, failed.degraded, solved.degraded]
    print(json.dumps({"degraded": degraded, "entries": entries, "own": own}))

asyncio.run(main())
"""


@pytest.mark.long
def test_a_project_with_packages_of_our_names_runs_hooks_cron_job_and_commands_of_the_wheel(
    tmp_path: Path, home: Path, database_url: str
) -> None:
    """Whichever package came first on the path was taken for ours, by the owner, too."""
    wheels, environment, project = tmp_path / "wheels", tmp_path / "venv", tmp_path / "project"
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(wheels),
        str(ROOT),
    ]
    subprocess.run(build, check=True)
    (wheel,) = wheels.iterdir()
    venv.create(environment)
    (site,) = environment.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "install", "-q"]
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    for name in OURS[1:]:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("OWN = True\n")
    (project / "program.py").write_text(USES_IT)
    with OpenAIServer(dims=64) as endpoint:
        settings = embedding_by(endpoint) | {
            "HARDWON_DATABASE_URL": database_url, "HARDWON_HOME": str(home), "PYTHONPATH": str(project),
        }  # fmt: skip
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

        def run(*command: str | Path) -> str:
            done = subprocess.run(
                command, cwd=project, env={**plain, **settings}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        told = json.loads(run(environment / "bin/python", "program.py"))
        assert told == {"degraded": [None] * 3, "entries": {"embedded": 1}, "own": [True] * 4}
        hardwon_command = environment / "bin/hardwon"
        assert json.loads(run(hardwon_command, "jobs", "run", "prune", "--json"))["job"] == "prune"
        assert json.loads(run(hardwon_command, "stats", "--json"))["entries"] == {"embedded": 1}
