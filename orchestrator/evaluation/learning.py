"""Evaluation of learning: a stream of tasks with known verdicts, solved with memory, without, and with BM25 memory.

Each task is asked about, tried with the first pattern's action or else the agent's own, its outcome is reported, and
its failure is captured with what solved it or with what an expert says. A checkpoint follows every ten tasks.
"""

from __future__ import annotations

import errno
import http
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hardwon.errors import InvalidInput
from knowledge.models import ContextId, Embeddings, EmbeddingSpace, PatternId, Task
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.evaluation.bm25_memory import Bm25Memory
from orchestrator.evaluation.retrieval import read_jsonl, throwaway_knowledge
from orchestrator.observability.progress import Stages

AGENTS: Final = {"weak": "base", "able": "able"}
"""The agents, with the field of an order that holds what each does alone."""
CHECKPOINT_EVERY: Final = 10
FOREIGN_FAILURES: Final = 150
DRIFT_AT: Final = 120
"""Place in a stream from which `solved_by_after_drift` holds."""
_NO_ACTION: Final = ""
_PROJECT, _AGENT_TYPE = "stream", "coder"
_RESAMPLES = 2_000
_UNHURRIED: Final = {"query_deadline_ms": 600_000, "holdout": 0.0}
"""Verdicts are known, so nothing is held out to measure the lift, and no answer is late on a busy machine."""
_WORDINGS = ("Run `{}`, then try again.", "`{}` did it.", "What worked here: `{}`.")
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its 95 % interval, by a bootstrap over tasks."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRow:
    """One memory with one agent, over all seeds.

    `solved`: share of tasks solved; `lift`: less the share that the agent solves alone; `harm`: share of tasks that it
    would have solved alone and did not; `used`: share with advice. `over_bm25`: difference to BM25 memory, None for
    itself. `quarters`: `solved` by quarter of the streams.
    """

    agent: str
    memory: str
    solved: float
    lift: Interval
    harm: float
    used: float
    over_bm25: Interval | None
    quarters: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningReport:
    """The rows, and per agent the difference that reported outcomes make."""

    tasks: int
    seeds: tuple[int, ...]
    rows: tuple[LearningRow, ...]
    outcomes_help: Mapping[str, Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StreamTask:
    situation: str
    solved_by: frozenset[str]
    solved_by_after_drift: frozenset[str]
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    at: int
    task_id: str
    alone: Mapping[str, str]
    advice: str


@dataclass(slots=True)
class _Run:
    """Results of each task of a run."""

    solved: list[bool] = field(default_factory=list)
    alone: list[bool] = field(default_factory=list)
    used: list[bool] = field(default_factory=list)

    def add(self, *, solved: bool, alone: bool, used: bool) -> None:
        self.solved.append(solved)
        self.alone.append(alone)
        self.used.append(used)


class _CachedEmbedder(Embedder):
    """The bundled model, which embeds each text once for all runs."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._vectors: dict[tuple[str, str], npt.NDArray[np.float32]] = {}

    @property
    def efficient_batch_size(self) -> int | None:
        return self._inner.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        return await self._inner.space()

    async def aclose(self) -> None:
        """Leave the embedder open: it belongs to the caller."""

    async def embed(self, texts: Sequence[str], kind: Any) -> Embeddings:
        missing = [text for text in dict.fromkeys(texts) if (kind, text) not in self._vectors]
        if missing:
            made = await self._inner.embed(missing, kind)
            self._vectors |= zip([(kind, text) for text in missing], made.vectors, strict=True)
        return Embeddings(vectors=np.stack([self._vectors[kind, text] for text in texts]), tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    tasks: Mapping[str, _StreamTask]
    orders: Mapping[int, Sequence[_Order]]
    wording: Callable[[_StreamTask, str, random.Random], str]

    def solves(self, order: _Order, action: str) -> bool:
        task = self.tasks[order.task_id]
        return action in (task.solved_by_after_drift if order.at >= DRIFT_AT else task.solved_by)


async def evaluate_learning(
    folder: Path,
    settings: KnowledgeSettings,
    *,
    packages: Path | None = None,
    seeds: Sequence[int] | None = None,
    agents: Sequence[str] = tuple(AGENTS),
    progress: Stages | None = None,
) -> LearningReport:
    """Replay a folder's streams through the services, with and without reported outcomes, and through BM25 memory.

    `packages`: where the lines of code stand that tasks name by file and row. Raises InvalidInput for a folder of
    another form, an unknown seed or missing code.
    """
    progress = progress or Stages()
    settings = settings.model_copy(update=_UNHURRIED)
    stream = _read_stream(folder, packages, seeds)
    rows: list[LearningRow] = []
    helped: dict[str, Interval] = {}
    async with throwaway_knowledge(settings) as first:
        embedder = _CachedEmbedder(first.stores.embedder)
        for agent in agents:
            runs: dict[str, list[_Run]] = {"bm25": [_replay_bm25(stream, seed, agent) for seed in stream.orders]}
            for memory, with_outcomes in (("hardwon", True), ("hardwon, no outcomes", False)):
                asking = progress.stage(f"{agent} agent, {memory}")
                done = []
                for number, seed in enumerate(stream.orders, 1):
                    async with throwaway_knowledge(settings, embedder) as knowledge:
                        done.append(await _replay(knowledge, stream, seed, agent, with_outcomes=with_outcomes))
                    if asking:
                        asking(number, len(stream.orders))
                runs[memory] = done
            bm25 = _joined(runs["bm25"])
            for memory, done in runs.items():
                rows.append(_to_row(agent, memory, _joined(done), None if memory == "bm25" else bm25))
            on, off = (_joined(runs[memory]) for memory in ("hardwon", "hardwon, no outcomes"))
            helped[agent] = _bootstrap(_array(on.solved) - _array(off.solved))
    total = sum(len(orders) for orders in stream.orders.values())
    return LearningReport(tasks=total, seeds=tuple(stream.orders), rows=tuple(rows), outcomes_help=helped)


async def _replay(knowledge: Knowledge, stream: _Stream, seed: int, agent: str, *, with_outcomes: bool) -> _Run:
    rng = random.Random(seed)  # noqa: S311 - a replay, not a secret
    await _capture_foreign(knowledge)
    builder = OrchestratorContextBuilder(knowledge)
    actions: dict[str, str] = {}
    run = _Run()
    for order in stream.orders[seed]:
        task = stream.tasks[order.task_id]
        asked = Task(description=task.situation, project_id=_PROJECT, task_id=f"{seed}-{order.at}", run_id="1")
        context = await builder.build_context_for_task(asked, _AGENT_TYPE)
        advice = next((actions.get(pattern.solution) for pattern in context.patterns), None)
        alone = order.alone[agent]
        action = advice or alone
        solved = stream.solves(order, action)
        run.add(solved=solved, alone=stream.solves(order, alone), used=advice is not None)
        if with_outcomes and context.degraded is None:
            await _report(knowledge, context.context_id, [each.pattern_id for each in context.patterns], solved=solved)
        solution = stream.wording(task, action if solved else order.advice, rng)
        actions[solution] = action if solved else order.advice
        await knowledge.capture.capture_failure_solution(
            project_id=_PROJECT,
            agent_type=_AGENT_TYPE,
            failure_description=task.situation,
            solution_steps=solution,
            success_verified=True,
            verified_by="the verdict of the stream",
            task_id=f"{seed}-{order.at}",
            run_id="1",
        )
        if order.at % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
            await knowledge.checkpoints.process_all()
    return run


async def _report(knowledge: Knowledge, context_id: ContextId, patterns: Sequence[PatternId], *, solved: bool) -> None:
    if patterns:
        await knowledge.outcomes.record_outcome(context_id, patterns[0], worked=solved)
    else:
        await knowledge.outcomes.record_unaided(context_id, worked=solved)


def _foreign_failures() -> list[str]:
    """Return failures of another kind: what the system says for its error numbers, and HTTP for its codes."""
    system = [f"The call failed with {errno.errorcode[number]}: {os.strerror(number)}" for number in errno.errorcode]
    web = [f"The server answered {code.value} {code.phrase}: {code.description}" for code in http.HTTPStatus]
    return [*system, *web][:FOREIGN_FAILURES]


async def _capture_foreign(knowledge: Knowledge) -> None:
    for number, text in enumerate(_foreign_failures()):
        await knowledge.capture.capture_failure_solution(
            project_id="foreign",
            agent_type=_AGENT_TYPE,
            failure_description=text,
            solution_steps=f"Handle case {number} where the call is made.",
            success_verified=True,
            verified_by="the caller's test",
        )
    await knowledge.checkpoints.process_all()


def _replay_bm25(stream: _Stream, seed: int, agent: str) -> _Run:
    memory, run = Bm25Memory(), _Run()
    for text in _foreign_failures():
        memory.add(text, _NO_ACTION)
    for order in stream.orders[seed]:
        task, alone = stream.tasks[order.task_id], order.alone[agent]
        advice = next(iter(memory.rank(task.situation, limit=1)), None) or None
        solved = stream.solves(order, advice or alone)
        run.add(solved=solved, alone=stream.solves(order, alone), used=advice is not None)
        memory.add(task.situation, (advice or alone) if solved else order.advice)
    return run


def _joined(runs: Sequence[_Run]) -> _Run:
    whole = _Run()
    for run in runs:
        whole.solved += run.solved
        whole.alone += run.alone
        whole.used += run.used
    return whole


def _array(flags: Sequence[bool]) -> npt.NDArray[np.float64]:
    return np.asarray(flags, dtype=np.float64)


def _to_row(agent: str, memory: str, run: _Run, bm25: _Run | None) -> LearningRow:
    solved, alone = _array(run.solved), _array(run.alone)
    return LearningRow(
        agent=agent,
        memory=memory,
        solved=_rounded(solved.mean()),
        lift=_bootstrap(solved - alone),
        harm=_rounded(((alone == 1) & (solved == 0)).mean()),
        used=_rounded(_array(run.used).mean()),
        over_bm25=None if bm25 is None else _bootstrap(solved - _array(bm25.solved)),
        quarters=tuple(_rounded(part.mean()) for part in np.array_split(solved, 4)),
    )


def _bootstrap(values: npt.NDArray[np.float64]) -> Interval:
    """Return the mean of a figure over tasks with its percentile interval (Efron 1979)."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (_RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(mean=_rounded(values.mean()), low=_rounded(low), high=_rounded(high))


def _rounded(value: Any) -> float:
    return round(float(value), 4)


def _read_stream(folder: Path, packages: Path | None, seeds: Sequence[int] | None) -> _Stream:
    tasks = {row["id"]: _to_task(row, folder, packages) for row in read_jsonl(folder / "tasks.jsonl", texts=["id"])}
    orders: dict[int, list[_Order]] = {}
    for row in read_jsonl(folder / "orders.jsonl", texts=["task"]):
        if row["task"] not in tasks or not {"seed", "at", "told", *AGENTS.values()} <= row.keys():
            raise InvalidInput(str(folder / "orders.jsonl"), "needs a known task, seed, at, told, base and able a line")
        alone = {agent: str(row[name]) for agent, name in AGENTS.items()}
        order = _Order(at=row["at"], task_id=row["task"], alone=alone, advice=str(row["told"]))
        orders.setdefault(row["seed"], []).append(order)
    unknown = sorted(set(seeds or ()) - orders.keys())
    if unknown or not orders:
        raise InvalidInput("seeds", f"has no order of seed {unknown[0] if unknown else 0}: {folder / 'orders.jsonl'}")
    chosen = {seed: sorted(orders[seed], key=lambda order: order.at) for seed in seeds or sorted(orders)}
    return _Stream(tasks=tasks, orders=chosen, wording=_read_wording(folder))


def _to_task(row: Mapping[str, Any], folder: Path, packages: Path | None) -> _StreamTask:
    solved_by = row.get("solved_by")
    if not isinstance(solved_by, list):
        raise InvalidInput(str(folder / "tasks.jsonl"), f"task {row['id']} needs a list solved_by")
    situation = row.get("situation") or _situation_in_code(row, folder, packages)
    later = row.get("solved_by_after_drift", solved_by)
    return _StreamTask(
        situation=situation,
        solved_by=frozenset(map(str, solved_by)),
        solved_by_after_drift=frozenset(map(str, later)),
        names=row.get("names", {}),
    )


def _situation_in_code(row: Mapping[str, Any], folder: Path, packages: Path | None) -> str:
    """Return a finding's message and the four lines of code around it."""
    if packages is None:
        raise InvalidInput("packages", f"is required for {folder}: its tasks name lines of installed packages")
    try:
        lines = (packages / row["file"]).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InvalidInput("packages", f"lacks {row['file']}: {error.strerror}") from error
    return "\n".join([row["message"], *lines[max(0, row["row"] - 2) : row["row"] + 2]])


def _read_wording(folder: Path) -> Callable[[_StreamTask, str, random.Random], str]:
    """Return how an action is told: of rules by their names, of commands with the task's own names."""
    if (folder / "rule_names.json").exists():
        names = json.loads((folder / "rule_names.json").read_text(encoding="utf-8"))

        def rule(task: _StreamTask, action: str, rng: random.Random) -> str:  # noqa: ARG001 - one form for all streams
            kind, _, code = action.partition(":")
            unsafe = " --unsafe-fixes" if kind == "unsafe" else ""
            command = f"`ruff check --select {code} --fix{unsafe}`"
            return f"{names.get(code, code)}: {command} removes the finding. action={action}"

        return rule
    commands = json.loads((folder / "actions.json").read_text(encoding="utf-8"))

    def command(task: _StreamTask, action: str, rng: random.Random) -> str:
        text = commands[int(action)]
        for name, value in task.names.items():
            text = text.replace(f"{{{name}}}", value)
        return rng.choice(_WORDINGS).format(text)

    return command
