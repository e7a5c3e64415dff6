"""Runs of agents over HTTP: a program tells the tool calls of its agents, and the server learns from them."""

from __future__ import annotations

import builtins
from typing import Annotated

from pydantic import Field

from hardwon.client.operations import Operation, Service
from hardwon.models.runs import LearnedRun, ToolCall

RUNS_PATH = "/v1/runs"


class RemoteRuns(Service, name="runs", tag="entries", scopes=("capture",)):
    """Learning from runs over HTTP."""

    @Operation("POST", RUNS_PATH, operation_id="learn_run", problems=(409,))
    async def learn(
        self,
        *,
        framework: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,30}$", description="Such as langgraph.")],
        session_id: Annotated[str, Field(min_length=1, max_length=200, description="The conversation or thread.")],
        calls: Annotated[
            builtins.list[ToolCall], Field(max_length=1000, description="All its tool calls so far, in order.")
        ],
        folder: Annotated[str | None, Field(description="Where the program works; paths are relative to it.")] = None,
        project_id: Annotated[
            str | None,
            Field(description="By default that of the folder: with a key, the folder's name; else its repository's."),
        ] = None,
        checks: Annotated[
            builtins.list[str] | None, Field(max_length=100, description="Names of tools that check something.")
        ] = None,
        contexts: Annotated[
            builtins.list[str] | None, Field(max_length=100, description="Contexts that the agent was handed.")
        ] = None,
    ) -> LearnedRun:
        """Learn from the tool calls of a run: checks that failed and what mended them, and what a person turned down.

        The same call, told again, is learned once.
        """
