"""The route of runs: tool calls that a program tells of its agents, paired as transcripts are."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, FastAPI, Request

from hardwon.client.runs import RemoteRuns
from hardwon.models.entries import CaptureOutcome, CaptureResult
from hardwon.models.runs import LearnedRun, ToolCall
from knowledge.wiring.open import Knowledge
from orchestrator.http.middleware.authentication import is_local_caller
from orchestrator.http.operation_route import CallerKnowledge
from orchestrator.http.table_routes import add_rows
from orchestrator.importers.sessions.checks import split_named
from orchestrator.importers.sessions.lessons.caller_services import CallerServices
from orchestrator.importers.sessions.lessons.learner import SessionLearner, SessionReader
from orchestrator.importers.sessions.lessons.read_marks import open_marks
from orchestrator.importers.sessions.programs.program_runs import make_session


@dataclass(frozen=True, slots=True)
class _CallerRuns:
    """Learning from runs as the caller may; one run after the other, since all of them write the same marks."""

    knowledge: Knowledge
    learning: CallerServices
    lock: asyncio.Lock
    is_local: bool

    @property
    def _marks_name(self) -> str:
        """The name of the caller's own marks: no key settles, or hides, the lessons of another one's runs."""
        principal = self.knowledge.principal
        key_id = principal.first_key or principal.key_id
        return self.knowledge.workspace if key_id is None else f"{self.knowledge.workspace} runs {key_id}"

    async def learn(
        self,
        *,
        framework: str,
        session_id: str,
        calls: list[ToolCall],
        folder: str | None = None,
        project_id: str | None = None,
        checks: list[str] | None = None,
        contexts: list[str] | None = None,
    ) -> LearnedRun:
        settings = self.knowledge.settings
        named = [*split_named(settings.check_commands), *(checks or ())]
        session = make_session(framework, session_id, calls, folder=folder, contexts=contexts or ())
        reader = SessionReader(project=project_id, named=named, opens_folders=self.is_local)
        results: list[CaptureResult] = []
        lessons = await asyncio.to_thread(reader.find_lessons, session)
        async with self.lock:
            with open_marks(settings.home, self._marks_name, for_writing=True) as marks:
                learner = SessionLearner(
                    knowledge=self.learning, marks=marks, tell=results.append, left_out=reader.left_out
                )
                await learner.learn(lessons)
        outcomes = Counter(each.outcome for each in results)
        return LearnedRun(
            captured=outcomes[CaptureOutcome.ACCEPTED],
            known=outcomes[CaptureOutcome.DUPLICATE],
            left_out=dict(reader.left_out),
        )


async def _runs(knowledge: CallerKnowledge, request: Request) -> _CallerRuns:
    app = request.app
    workspace = app.state.knowledge.in_workspace(knowledge.workspace)
    learning = CallerServices(workspace, knowledge.principal)
    return _CallerRuns(knowledge, learning, app.state.runs, is_local_caller(request.scope))


def add_runs(app: FastAPI) -> None:
    """Add the route of runs to an app."""
    app.state.runs = asyncio.Lock()
    add_rows(app, RemoteRuns, dependency=Annotated[_CallerRuns, Depends(_runs)])
