"""The events of tasks and gates over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

from pydantic_core import to_jsonable_python

from knowledge.memory.events import Kept, TaskEventService
from orchestrator.client.calls import Api

_Told = ParamSpec("_Told")
_InProcess = Callable[Concatenate[TaskEventService, _Told], Coroutine[Any, Any, Kept]]


def _over_http(path: str, method: _InProcess[_Told]) -> Callable[Concatenate[Any, _Told], Coroutine[Any, Any, Kept]]:
    """Return a method with the arguments of the one in process, all of them named, which are the request's body."""

    @functools.wraps(method)
    async def call(self: Any, /, *_: _Told.args, **told: _Told.kwargs) -> Kept:
        body = {name: to_jsonable_python(value) for name, value in told.items() if value is not None}
        api: Api = self.api
        return await api.call("POST", path, Kept, body=body)

    return call


@dataclass(frozen=True, slots=True)
class RemoteEvents:
    """`TaskEventService` over HTTP."""

    api: Api

    task_failed = _over_http("/v1/tasks:failed", TaskEventService.task_failed)
    task_solved = _over_http("/v1/tasks:solved", TaskEventService.task_solved)
    gate_decided = _over_http("/v1/gates:decided", TaskEventService.gate_decided)
