"""The route that answers the hooks of coding agents: their own JSON in, their own JSON out."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cachetools import LRUCache
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from hardwon.context.context_blocks import find_block
from hardwon.errors import InvalidInput
from hardwon.models.tasks import Task
from orchestrator.agent_hooks.hook_tools import TOOLS
from orchestrator.agent_hooks.questions import (
    HookQuestion,
    make_answer,
    read_failure,
    read_prompt,
    session_of,
)
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.http.middleware.authentication import is_local_caller
from orchestrator.http.operation_route import CallerKnowledge, performs
from orchestrator.importers.fields import key
from orchestrator.importers.repository import open_repository
from orchestrator.importers.sessions.checks import read_check, split_named
from orchestrator.importers.sessions.lessons.entries import name_of_folder, task_id_of

DEADLINE = timedelta(milliseconds=250)
"""Longest time for a context of a hook, which itself waits for 300 ms; ours."""
_MAX_MOMENTS = 10_000
_MAX_FOLDER_CHARS = 4096
_PROMPTS = frozenset({"UserPromptSubmit", "BeforeAgent", "userPromptSubmitted"})
_SUB_AGENTS = frozenset({"SubagentStart", "subagentStart"})


@dataclass(frozen=True, slots=True)
class _Handed:
    """A record of what was handed out: the moments that were answered, and the last block of each session.

    The block is for the session's sub-agents.
    """

    moments: LRUCache[bytes, bool] = field(default_factory=lambda: LRUCache(_MAX_MOMENTS))
    blocks: LRUCache[tuple[str, str, str], str] = field(default_factory=lambda: LRUCache(_MAX_MOMENTS))

    def is_first(self, workspace: str, tool: str, session: str, moment: str) -> bool:
        """Return whether a moment of a session was not there before, and note it."""
        moment_key = self.key_of(workspace, tool, session, moment)
        if moment_key in self.moments:
            return False
        self.moments[moment_key] = True
        return True

    def forget(self, workspace: str, tool: str, session: str, moment: str) -> None:
        """Forget a moment, so that it is the first again."""
        self.moments.pop(self.key_of(workspace, tool, session, moment), None)

    @staticmethod
    def key_of(*parts: str) -> bytes:
        """Return the key of a moment: its hash, for the text of a prompt is as long as its caller likes."""
        return sha256(json.dumps(parts).encode()).digest()


def add_hook_contexts(app: FastAPI) -> None:
    """Add the route to an app."""
    handed = _Handed()

    @app.post("/v1/hooks/{tool}/{event}", include_in_schema=False)
    @performs("contexts.record", problems=(409,))
    async def answer_hook(
        tool: str, event: str, payload: dict[str, Any], knowledge: CallerKnowledge, request: Request
    ) -> Response:
        """Return the context for a hook's moment, as its tool reads it; nothing where there is none."""
        block = None
        if tool in TOOLS:
            moments = _Moments(handed, knowledge.workspace, tool, opens_folders=is_local_caller(request.scope))
            if event in _SUB_AGENTS:
                block = moments.block_for_sub_agent(payload)
            else:
                question = read_prompt(payload) if event in _PROMPTS else read_failure(tool, payload)
                checks = split_named(app.state.knowledge.settings.check_commands)
                builder = app.state.contexts.make(knowledge, knowledge.workspace, DEADLINE)
                block = None if question is None else await moments.find_block(question, builder, checks)
        return Response(status_code=204) if block is None else JSONResponse(make_answer(tool, event, block))


@dataclass(frozen=True, slots=True)
class _Moments:
    """The moments of a tool in a workspace: each is answered once, and the same patterns once a session."""

    handed: _Handed
    workspace: str
    tool: str
    opens_folders: bool

    async def find_block(
        self, question: HookQuestion, builder: OrchestratorContextBuilder, checks: Sequence[str]
    ) -> str | None:
        """Return the block of patterns for a question; None where there is none, or it was handed out before.

        `checks`: the beginnings of commands that a setting makes checks.
        """
        if not self._is_first(question.session, question.once):
            return None
        task = await _as_task(question, checks, opens_folder=self.opens_folders)
        context = await builder.build_context_for_task(task, "coder")
        if context.degraded is not None and not context.patterns:
            self.handed.forget(self.workspace, self.tool, question.session, question.once)  # it may ask again
        block = find_block(context.text) if context.patterns else None
        shown = ",".join(sorted(str(pattern.pattern_id) for pattern in context.patterns))
        if block is None or not self._is_first(question.session, f"patterns {shown}"):
            return None
        self.handed.blocks[self.workspace, self.tool, question.session] = block
        return block

    def block_for_sub_agent(self, payload: Mapping[str, Any]) -> str | None:
        """Return the last block of the session, for a sub-agent that begins: its hook does not say what it is to do."""
        session = session_of(payload)
        agent = next((payload[name] for name in ("agent_id", "agentId", "agentName") if name in payload), "")
        block = self.handed.blocks.get((self.workspace, self.tool, session))
        return block if block is not None and self._is_first(session, f"agent {agent}") else None

    def _is_first(self, session: str, moment: str) -> bool:
        return self.handed.is_first(self.workspace, self.tool, session, moment)


async def _as_task(question: HookQuestion, checks: Sequence[str], *, opens_folder: bool) -> Task:
    """Return a question as the task that the session's lesson will be of: the check that failed, in the same words."""
    check = read_check(question.command, named=checks, root=question.folder)
    facts = {} if question.error is None else {"error": question.error}
    return Task(
        description=question.text,
        type="bugfix" if question.error is not None else None,
        project_id=await _project(question.folder, opens_folder=opens_folder),
        task_id=None if check is None else task_id_of(check.key, question.folder),
        run_id=question.session or None,
        facts=facts,
    )


async def _project(folder: str | None, *, opens_folder: bool) -> str | None:
    """Return the project of a folder; of a caller from afar it is the folder's name, as for what its run teaches."""
    if not folder:
        return None
    folder = folder[-_MAX_FOLDER_CHARS:]
    return await asyncio.to_thread(_project_of_repository, folder) if opens_folder else name_of_folder(folder)


@lru_cache(maxsize=1000)
def _project_of_repository(folder: str) -> str | None:
    """Return the project of a folder of this machine; a folder that is not there is of another one."""
    if not os.path.isabs(folder):  # noqa: PTH117 - it is a text of a caller
        return None
    try:
        return open_repository(Path(folder)).project_id
    except (InvalidInput, OSError, ValueError):  # no path that any machine could have
        return key(Path(folder).name) or None
