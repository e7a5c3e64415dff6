"""The hooks in a LangGraph: two projects, and the second gets what the first one learned.

    pip install langgraph
    HARDWON_HOME=./try .venv/bin/python examples/langgraph_loop.py

One node asks for the context, one is the agent, one runs the check and tells what came of it. The agent is a function
instead of a model, so that it runs anywhere; what fails, fails really, in a Python of its own.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

import hardwon
from hardwon import Task

NAIVE = "def total(prices): return sum(prices)"
MENDED = "def total(prices): return sum(price or 0 for price in prices)"
STEPS = "Treat a missing price (None) as zero: sum(price or 0 for price in prices)"


class State(TypedDict, total=False):
    """What goes from node to node."""

    task: Task
    check: str
    context: str
    code: str
    said: str
    attempt: int


def make_graph(hooks: hardwon.Hooks) -> Any:
    """Return the graph: start, then attempts until one passes the check."""

    async def start(state: State) -> State:
        context = await hooks.task_started(state["task"], "coder")
        return {"context": context.text, "attempt": 0, "said": ""}

    async def agent(state: State) -> State:
        knows = "as zero" in state["context"] or "NoneType" in state["said"]
        return {"code": MENDED if knows else NAIVE, "attempt": state["attempt"] + 1}

    async def verify(state: State) -> State:
        task = state["task"]
        run: dict[str, Any] = {
            "project_id": task.project_id or "",
            "task_id": task.task_id or "",
            "run_id": task.run_id or "",
        }
        said = await run_python(f"{state['code']}\n{state['check']}")
        print(f"{task.project_id}: attempt {state['attempt']} {'fails' if said else 'passes'}")
        if said:
            last_line = said.strip().splitlines()[-1]
            await hooks.task_failed(
                **run,
                agent_type="coder",
                task_type=task.type,
                technology=task.technology,
                task_description=task.description,
                failure_description=last_line,
                error_message=said,
            )
        else:
            await hooks.task_solved(**run, solution_steps=STEPS, verified_by=state["check"])
        return {"said": said}

    def again(state: State) -> str:
        return "agent" if state["said"] and state["attempt"] < 3 else END

    graph = StateGraph(State)
    for name, node in (("start", start), ("agent", agent), ("verify", verify)):
        graph.add_node(name, node)
    graph.add_edge(START, "start")
    graph.add_edge("start", "agent")
    graph.add_edge("agent", "verify")
    graph.add_conditional_edges("verify", again, ["agent", END])
    return graph.compile()


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
    shop = task("web-shop", "Sum up the prices of a cart; some prices are missing")
    books = task("book-keeping", "Sum up the prices of an invoice; prices may be missing")
    async with hardwon.connect() as knowledge, hardwon.Hooks(knowledge) as hooks:
        graph = make_graph(hooks)
        await graph.ainvoke({"task": shop, "check": "assert total([2, None, 3]) == 5"})
        await hooks.phase_completed("web-shop")
        await hooks.wait_for_checkpoints()  # only here: the second project starts at once
        ended = await graph.ainvoke({"task": books, "check": "assert total([None, 7]) == 7"})
        await hooks.project_completed("book-keeping")
    print(f"\nWhat the agent of book-keeping was told:\n\n{ended['context']}")


if __name__ == "__main__":
    asyncio.run(main())
