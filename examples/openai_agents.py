"""The hooks around an agent of the OpenAI Agents SDK: two projects, and the second gets what the first one learned.

    pip install openai-agents
    OPENAI_API_KEY=sk-... HARDWON_HOME=./try .venv/bin/python examples/openai_agents.py

Any endpoint that speaks OpenAI's protocol will do: OPENAI_BASE_URL names it, MODEL the model. With OPENAI_API_KEY set,
hardwon embeds by OpenAI as well, unless HARDWON_EMBEDDING_MODEL=all-MiniLM-L6-v2 keeps that on this machine. The agent
is a model; what fails, fails really, in a Python of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

import hardwon
from hardwon import Task

INSTRUCTIONS = "You write Python for a task. Answer with the whole code, and with what it does in a sentence."


class Attempt(BaseModel):
    """What the agent answers."""

    code: str
    steps: str


def coder(context: str) -> Agent[None]:
    """Return an agent that was told what is known of its task: the context goes into its instructions."""
    model = OpenAIChatCompletionsModel(model=os.environ.get("MODEL", "gpt-4.1-mini"), openai_client=AsyncOpenAI())
    return Agent(name="coder", model=model, instructions=f"{INSTRUCTIONS}\n\n{context}", output_type=Attempt)


async def orchestrate(hooks: hardwon.Hooks, task: Task, check: str) -> str:
    """Have an agent do a task, attempt after attempt; return the context it was given."""
    run: dict[str, Any] = {"project_id": task.project_id, "task_id": task.task_id, "run_id": task.run_id}
    context = await hooks.task_started(task, "coder")
    agent, said = coder(context.text), ""
    for number in (1, 2, 3):
        asked = f"{task.description}\n\nIt must pass: {check}"
        asked += f"\n\nYour last attempt failed:\n{said}" if said else ""
        attempt = (await Runner.run(agent, asked)).final_output_as(Attempt)
        said = await run_python(f"{attempt.code}\n{check}")
        print(f"{task.project_id}: attempt {number} {'fails' if said else 'passes'}")
        if not said:
            await hooks.task_solved(**run, solution_steps=attempt.steps, verified_by=check)
            break
        await hooks.task_failed(
            **run,
            agent_type="coder",
            task_type=task.type,
            technology=task.technology,
            task_description=task.description,
            failure_description=said.strip().splitlines()[-1],
            error_message=said,
        )
    return context.text


async def run_python(code: str) -> str:
    """Run code; return what it said when it failed, nothing when it passed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", code, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    return said.decode() if process.returncode else ""


def task(project: str, description: str) -> Task:
    """Return a task of a project."""
    return Task(
        description=description, type="feature", technology="python", project_id=project, task_id="T-1", run_id="1"
    )


async def main() -> None:
    """Let two projects do alike tasks, one after the other."""
    set_tracing_disabled(True)  # else the SDK sends what was said to OpenAI, whoever's model it was
    shop = task("web-shop", "Write total(prices): sum up the prices of a cart; some prices are missing")
    books = task("book-keeping", "Write total(prices): sum up the prices of an invoice; prices may be missing")
    async with hardwon.connect() as knowledge, hardwon.Hooks(knowledge) as hooks:
        await orchestrate(hooks, shop, "assert total([2, None, 3]) == 5")
        await hooks.phase_completed("web-shop")
        await hooks.wait_for_checkpoints()  # only here: the second project starts at once
        told = await orchestrate(hooks, books, "assert total([None, 7]) == 7")
        await hooks.project_completed("book-keeping")
    print(f"\nWhat the agent of book-keeping was told:\n\n{told}")


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("OPENAI_API_KEY is not set: this example asks a model (the first lines of the file say how)")
    asyncio.run(main())
