"""Learning from the tools of the OpenAI Agents SDK.

from hardwon.integrations.openai_agents import watch

agent = watch(Agent(name="dev", tools=[run_tests, write_file]))
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from agents import Agent, AgentHooks, FunctionTool, RunConfig, RunContextWrapper, get_current_trace
from agents.run_config import ToolErrorFormatterArgs
from agents.tool import set_function_tool_failure_error_function
from agents.tool_context import ToolContext

from hardwon.integrations.recorder import AgentGuard, RunRecorder, failed_call, finished_call, parse_arguments
from hardwon.models.ids import DEFAULT_WORKSPACE
from hardwon.models.runs import ToolCall, ToolOutcome

FRAMEWORK = "openai-agents"
_Agent = TypeVar("_Agent", bound=Agent[Any])


def watch(
    agent: _Agent,
    *,
    session: str | None = None,
    project: str | None = None,
    workspace: str = DEFAULT_WORKSPACE,
    checks: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    recorder: RunRecorder | None = None,
) -> _Agent:
    """Learn from an agent's function tools, and from those of the agents that it hands off to; return the agent.

    A tool's failure is learned with the words of its exception, which the SDK shows to nobody; what the model reads is
    as before, and ends with what is known of such a failure. What `RunState.reject` turned down is a rejection, with
    its `rejection_message`. `session`: by default the group of the run's configuration, else its trace.
    `project`, `workspace`, `checks`, `settings`: see `RunRecorder`. `recorder`: one that several agents share.
    """
    recorder = recorder or RunRecorder(
        FRAMEWORK, project=project, workspace=workspace, checks=checks, settings=settings
    )
    watcher = _Watcher(recorder, session)
    agents: list[Agent[Any]] = [agent]
    for each in agents:
        each.tools = [watcher.wrap_tool(tool) if isinstance(tool, FunctionTool) else tool for tool in each.tools]
        each.hooks = _RejectionHooks(watcher, each.hooks)
        agents += [to for to in each.handoffs if isinstance(to, Agent) and not any(to is known for known in agents)]
    return agent


class _Watcher:
    """Tells the calls of tools."""

    def __init__(self, recorder: RunRecorder, session: str | None) -> None:
        self.recorder = recorder
        self._session = session
        self._default_session = str(uuid4())
        self.failed: set[str] = set()
        """The calls under way that failed, and whose failure the model reads as a result."""

    def session(self, context: RunContextWrapper[Any]) -> str:
        """Return the session of a run: what `watch` was told, the group of traces, the trace, else this process."""
        config = getattr(context, "run_config", None)
        trace = get_current_trace()
        return (
            self._session
            or getattr(config, "group_id", None)
            or (getattr(trace, "group_id", None) if trace is not None else None)
            or (trace.trace_id if trace is not None and trace.trace_id != "no-op" else None)
            or self._default_session
        )

    def wrap_tool(self, tool: FunctionTool) -> FunctionTool:
        """Return a copy of a tool whose calls are told."""
        if isinstance(tool.on_invoke_tool, _Invoker):
            return tool
        wrapped = copy(tool)
        wrapped.on_invoke_tool = _Invoker(self, wrapped.on_invoke_tool)
        formatter = wrapped._failure_error_function  # noqa: SLF001 - nothing public tells it from the default
        if formatter is not None:
            set_function_tool_failure_error_function(wrapped, self._wrap_formatter(formatter))
        return wrapped

    def _wrap_formatter(self, formatter: Any) -> Any:
        async def format_error(context: RunContextWrapper[Any], error: Exception) -> Any:
            shown = formatter(context, error)
            shown = await shown if inspect.isawaitable(shown) else shown
            return await self.note_failure(context, error, shown)

        return format_error

    async def note_failure(self, context: RunContextWrapper[Any], error: BaseException, shown: Any) -> Any:
        """Tell a call that failed; return what the model reads of it, with what is known of such a failure."""
        if not isinstance(context, ToolContext):
            return shown
        self.failed.add(context.tool_call_id)
        known = ""
        with AgentGuard("call_not_recorded", framework=FRAMEWORK):
            call = self.add_failure(context, context.tool_arguments, error)
            known = await self.recorder.find_context_async(self.session(context), call)
        return f"{shown}\n\n{known}" if known and isinstance(shown, str) else shown

    def add_failure(self, context: ToolContext[Any], arguments: str, error: BaseException) -> ToolCall:
        """Tell a call that raised, and return it."""
        call = failed_call(context.tool_call_id, context.tool_name, arguments, error)
        self.recorder.add(self.session(context), call)
        return call


class _Invoker:
    """The invoker of a tool, which tells what came of its calls; in everything else it is the SDK's own."""

    def __init__(self, watcher: _Watcher, invoke: Any) -> None:
        self._watcher = watcher
        self._invoke = invoke
        with suppress(TypeError, ValueError):
            self.__signature__ = inspect.signature(invoke)  # by which the SDK chooses what it passes

    def __getattr__(self, name: str) -> Any:
        """Return what the SDK keeps at its invoker."""
        if name in {"_watcher", "_invoke"}:
            raise AttributeError(name)
        value = getattr(self._invoke, name)
        if name == "__agents_bind_function_tool__":
            return lambda tool: _Invoker(self._watcher, value(tool))
        return value

    async def __call__(self, context: Any, arguments: str) -> Any:
        """Run the tool."""
        if not isinstance(context, ToolContext):  # a tool that asks for less is not told of its call
            return await self._invoke(context, arguments)
        watcher, config = self._watcher, context.run_config
        watcher.recorder.start()
        context.run_config = self._with_formatter(context)
        try:
            result = await self._invoke(context, arguments)
        except Exception as error:
            with AgentGuard("call_not_recorded", framework=FRAMEWORK):
                watcher.add_failure(context, arguments, error)
            raise
        finally:
            context.run_config = config
        if context.tool_call_id in watcher.failed:
            watcher.failed.discard(context.tool_call_id)
        else:
            with AgentGuard("call_not_recorded", framework=FRAMEWORK):
                call = finished_call(context.tool_call_id, context.tool_name, arguments, result)
                watcher.recorder.add(watcher.session(context), call)
        return result

    def _with_formatter(self, context: ToolContext[Any]) -> RunConfig:
        """Return the run's configuration with a formatter that sees the error of a tool without one of its own.

        To set such a tool's `failure_error_function` would put the error's words into traces, which leave the machine.
        """
        config = context.run_config or RunConfig()
        formatter = config.tool_error_formatter

        async def format_error(told: ToolErrorFormatterArgs[Any]) -> str | None:
            shown = formatter(told) if formatter is not None else None
            shown = await shown if inspect.isawaitable(shown) else shown
            if told.kind != "tool_exception" or told.error is None:
                return shown
            message = shown if isinstance(shown, str) else told.default_message
            known = await self._watcher.note_failure(context, told.error, message)
            return shown if known == message else str(known)

        return replace(config, tool_error_formatter=format_error)


class _RejectionHooks(AgentHooks[Any]):
    """Hooks that tell the calls which were rejected, before the next request to the model; others' hooks go on."""

    def __init__(self, watcher: _Watcher, hooks: Any) -> None:
        self._watcher = watcher
        self._hooks = hooks

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """Tell the calls that were rejected since the last request."""
        with AgentGuard("rejections_not_told", framework=FRAMEWORK):  # such as in another version of the SDK
            self._note_rejections(context, input_items)
        if self._hooks is not None:
            await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    def _note_rejections(self, context: RunContextWrapper[Any], items: Sequence[Any]) -> None:
        session = self._watcher.session(context)
        for item in items:
            if not isinstance(item, Mapping) or item.get("type") != "function_call":
                continue
            call_id, name = str(item.get("call_id")), str(item.get("name"))
            if self._watcher.recorder.knows(session, call_id) or context.is_tool_approved(name, call_id) is not False:
                continue
            denied = ToolCall(
                id=call_id,
                tool=name,
                arguments=parse_arguments(item.get("arguments")),
                outcome=ToolOutcome.DENIED,
                text=context.get_rejection_message(name, call_id) or "",
                by_person=True,
            )
            self._watcher.recorder.add(session, denied)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Go on with others' hooks."""
        if self._hooks is not None:
            await self._hooks.on_llm_end(context, agent, response)

    async def on_start(self, context: Any, agent: Any) -> None:
        """Go on with others' hooks."""
        if self._hooks is not None:
            await self._hooks.on_start(context, agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        """Go on with others' hooks."""
        if self._hooks is not None:
            await self._hooks.on_end(context, agent, output)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        """Go on with others' hooks."""
        if self._hooks is not None:
            await self._hooks.on_handoff(context, agent, source)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Go on with others' hooks."""
        if self._hooks is not None:
            await self._hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Go on with others' hooks."""
        if self._hooks is not None:
            await self._hooks.on_tool_end(context, agent, tool, result)
