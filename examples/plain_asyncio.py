"""An orchestrator in plain asyncio: two projects, and the second gets what the first one learned.

    HARDWON_HOME=./try .venv/bin/python examples/plain_asyncio.py

The agents are functions instead of models, so that it runs anywhere; what fails, fails really: an agent's code runs in
a Python of its own, and what that says is the failure. Run again, the first project knows it too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

import hardwon
from hardwon import Task

Agent = Callable[[str, str], tuple[str, str]]
"""From what an agent is told, and what came of its last attempt, to code and the steps that it took."""


@dataclass(frozen=True)
class Job:
    """A task of a project, with the check that its code must pass."""

    task: Task
    check: str


async def run_python(code: str) -> str:
    """Run code; return what it said when it failed, nothing when it passed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", code, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    return said.decode() if process.returncode else ""


async def orchestrate(hooks: hardwon.Hooks, job: Job, agent: Agent) -> str:
    """Have an agent do a job, attempt after attempt; return the context it was given."""
    task = job.task
    context = await hooks.task_started(task, "coder")
    if context.degraded:
        print(f"{task.project_id}: {context.degraded}")
    said = ""
    for attempt in (1, 2, 3):
        code, steps = agent(context.text, said)
        said = await run_python(f"{code}\n{job.check}")
        outcome = "fails" if said else "passes"
        print(f"{task.project_id}: attempt {attempt} {outcome}")
        if not said:
            await hooks.task_solved(
                project_id=task.project_id or "",
                task_id=task.task_id or "",
                run_id=task.run_id,
                solution_steps=steps,
                verified_by=job.check,
            )
            return context.text
        await hooks.task_failed(
            project_id=task.project_id or "",
            task_id=task.task_id or "",
            run_id=task.run_id,
            agent_type="coder",
            task_type=task.type,
            technology=task.technology,
            task_description=task.description,
            failure_description=said.strip().splitlines()[-1],
            error_message=said,
        )
    return context.text


NAIVE = "def total(prices): return sum(prices)"
MENDED = "def total(prices): return sum(price or 0 for price in prices)"
STEPS = "Treat a missing price (None) as zero: sum(price or 0 for price in prices)"


def agent(told: str, said: str) -> tuple[str, str]:
    """Write the naive code, unless the context or the last failure says better."""
    if "as zero" in told or "NoneType" in said:
        return MENDED, STEPS
    return NAIVE, "Add the prices up"


def job(project: str, description: str, check: str) -> Job:
    """Return a task of a project."""
    task = Task(
        description=description, type="feature", technology="python", project_id=project, task_id="T-1", run_id="1"
    )
    return Job(task, check)


async def main() -> None:
    """Let two projects do alike tasks, one after the other."""
    shop = job("web-shop", "Sum up the prices of a cart; some prices are missing", "assert total([2, None, 3]) == 5")
    books = job(
        "book-keeping", "Sum up the prices of an invoice; prices may be missing", "assert total([None, 7]) == 7"
    )
    async with hardwon.connect() as knowledge, hardwon.Hooks(knowledge) as hooks:
        await orchestrate(hooks, shop, agent)
        await hooks.phase_completed("web-shop")
        await hooks.wait_for_checkpoints()  # only here: the second project starts at once
        told = await orchestrate(hooks, books, agent)
        await hooks.project_completed("book-keeping")
    print(f"\nWhat the agent of book-keeping was told:\n\n{told}")


if __name__ == "__main__":
    asyncio.run(main())
