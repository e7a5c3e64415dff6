"""Learning from the tools of Pydantic AI: a capability.

from hardwon.integrations.pydantic_ai import Hardwon

agent = Agent(model, capabilities=[Hardwon()])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart

from hardwon.integrations.recorder import (
    AgentGuard,
    RunRecorder,
    failed_call,
    finished_call,
    parse_arguments,
    show_result,
)
from hardwon.models.ids import DEFAULT_WORKSPACE
from hardwon.models.runs import ToolCall, ToolOutcome

FRAMEWORK = "pydantic-ai"


@dataclass
class Hardwon(AbstractCapability[Any]):
    """Learns from an agent's tool calls, and tells it after a failure what is known of such.

    A call that was denied by the results of deferred tools, given to a later run, was turned down by a person; one that
    code denies within the run was not. `project`, `workspace`, `checks`, `settings`: see `RunRecorder`.
    """

    project: str | None = None
    workspace: str = DEFAULT_WORKSPACE
    checks: Sequence[str] = ()
    settings: Mapping[str, str] | None = None
    recorder: RunRecorder | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Make a recorder where none is given."""
        if self.recorder is None:
            self.recorder = RunRecorder(
                FRAMEWORK, project=self.project, workspace=self.workspace, checks=self.checks, settings=self.settings
            )

    @property
    def _recorder(self) -> RunRecorder:
        assert self.recorder is not None  # noqa: S101 - for the checker
        return self.recorder

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return nothing: a recorder is no part of a specification."""
        return None

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: Any,  # noqa: ARG002
        args: dict[str, Any],
        handler: Any,
    ) -> Any:
        """Run a tool, and tell what came of it."""
        self._recorder.start()
        session = _session(ctx)
        try:
            result = await handler(args)
        except (CallDeferred, ApprovalRequired, SkipToolExecution):
            raise
        except (ModelRetry, ToolFailed) as error:
            context = await self._fail(session, call, args, error.message)
            raise (type(error)(f"{error.message}\n\n{context}") if context else error) from error.__cause__
        except ToolRetryError as error:
            part = error.tool_retry
            context = await self._fail(session, call, args, show_result(part.content))
            raise (ToolRetryError(_with_context(part, context)) if context else error) from error.__cause__
        except ToolFailedError as error:
            part = error.tool_failed
            context = await self._fail(session, call, args, show_result(part.content))
            raise (ToolFailedError(_with_context(part, context)) if context else error) from error.__cause__
        except Exception as error:
            with AgentGuard("call_not_recorded", framework=FRAMEWORK):
                self._recorder.add(session, failed_call(call.tool_call_id, call.tool_name, args, error))
            raise
        self._recorder.add(session, finished_call(call.tool_call_id, call.tool_name, args, result))
        return result

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Tell the calls that were denied before this request."""
        with AgentGuard("rejections_not_told", framework=FRAMEWORK):  # such as in another version of the framework
            self._note_denials(ctx, request_context.messages)
        return request_context

    async def _fail(self, session: str, call: ToolCallPart, args: dict[str, Any], text: str) -> str:
        """Tell a failed call, and return the context for it."""
        failed = ToolCall(
            id=call.tool_call_id,
            tool=call.tool_name,
            arguments=parse_arguments(args),
            outcome=ToolOutcome.FAILED,
            text=text,
        )
        self._recorder.add(session, failed)
        return await self._recorder.find_context_async(session, failed)

    def _note_denials(self, ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> None:
        calls = {
            part.tool_call_id: (part, message.run_id)
            for message in messages
            if isinstance(message, ModelResponse)
            for part in message.parts
            if isinstance(part, ToolCallPart)
        }
        for message in messages:
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if not isinstance(part, ToolReturnPart) or part.outcome != "denied":
                    continue
                call, run_id = calls.get(part.tool_call_id, (None, None))
                if call is None or self._recorder.knows(_session(ctx), part.tool_call_id):
                    continue
                denied = ToolCall(
                    id=part.tool_call_id,
                    tool=part.tool_name,
                    arguments=parse_arguments(call.args),
                    outcome=ToolOutcome.DENIED,
                    text="" if part.content == _NO_REASON else show_result(part.content),
                    by_person=run_id is not None and run_id != message.run_id,
                )
                self._recorder.add(_session(ctx), denied)


_NO_REASON = "The tool call was denied."
"""The framework's words where whoever denied a call gave none."""


def _session(ctx: RunContext[Any]) -> str:
    return ctx.conversation_id or ctx.run_id or "unknown"


def _with_context(part: Any, context: str) -> Any:
    """Return a part of a message that ends with a context, where its content is text."""
    return replace(part, content=f"{part.content}\n\n{context}") if isinstance(part.content, str) else part
