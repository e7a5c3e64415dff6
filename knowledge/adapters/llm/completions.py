"""Requests for chat completions with the parameters that an endpoint takes; a failure is of the question or of all."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hardwon.errors import ChatRejected, QuestionRejected
from knowledge.adapters.llm.chat_replies import ChatCompletion, read_completion
from knowledge.adapters.llm.endpoint import Endpoint
from knowledge.adapters.llm.failures import RefusedError, UnansweredError
from knowledge.adapters.llm.parameters import Parameters

if TYPE_CHECKING:
    import openai

PATH = "/chat/completions"
_TOOLS = "tools"


class ToolParametersRefused(Exception):
    """The endpoint takes the request without tools only; its text is the reason."""


class Completions:
    """Asks one endpoint for completions. `parameters`: the optional ones; the accepted forms are remembered."""

    def __init__(self, endpoint: Endpoint, model: str, parameters: Parameters, *, settings: str) -> None:
        self.endpoint = endpoint
        self._model = model
        self._parameters = parameters
        self._settings = settings
        self._accepted_at = -math.inf

    async def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        used: Collection[str],
        fields: Callable[[Parameters], Mapping[str, Any]],
    ) -> ChatCompletion:
        """Return a completion. `fields` gives the `used` parameters as they are sent.

        Raises QuestionRejected if the endpoint fails at this question and answers others, ToolParametersRefused, or the
        errors of the endpoint.
        """
        parameters, reason = self._parameters, ""
        while True:
            if _TOOLS in used and parameters.form(_TOOLS) is None:
                raise ToolParametersRefused(reason)
            try:
                completion = await self._ask_with({**fields(parameters), "messages": list(messages)})
            except (RefusedError, UnansweredError) as failure:
                reason = failure.reason
                changed = await self._adapt(parameters, used, fields, failure)
                if changed is None:
                    raise self._refusal(failure) from None
                parameters = changed
            else:
                self._parameters = parameters
                return completion

    async def _adapt(
        self,
        parameters: Parameters,
        used: Collection[str],
        fields: Callable[[Parameters], Mapping[str, Any]],
        failure: RefusedError | UnansweredError,
    ) -> Parameters | None:
        """Return other parameters to try, None if the question is the reason; raise the failure if any question is."""
        if isinstance(failure, UnansweredError) and not failure.of_request:
            raise failure.error from failure.__cause__
        # the length of a question is counted with that of its answer
        nameable = [
            name for name in used if not (failure.about_size and failure.param is None and name == "max_tokens")
        ]
        if blamed := parameters.find_blamed(failure.reason, failure.param, nameable):
            return parameters.replace(blamed)
        recent = asyncio.get_running_loop().time() - self.endpoint.retry.refusal_seconds
        if isinstance(failure, RefusedError) and (failure.about_size or self._accepted_at > recent):
            return None

        async def accepts(tried: Parameters) -> bool:
            try:
                await self._ask_harmless(fields(tried))
            except (RefusedError, UnansweredError):
                return False
            return True

        try:
            await self._ask_harmless(fields(parameters))
        except (RefusedError, UnansweredError) as second:
            may_learn = isinstance(second, RefusedError) or (second.may_pass and second.has_reply)
            if may_learn and (learnt := await parameters.relearn(used, accepts)):
                return learnt
            self._raise_for_all(failure, second)
        return None

    def _raise_for_all(self, failure: RefusedError | UnansweredError, second: RefusedError | UnansweredError) -> None:
        if isinstance(second, RefusedError):
            raise ChatRejected(
                f"{self.endpoint.name} refuses any question ({second.reason}): correct {self._settings}."
            ) from None
        known = failure if isinstance(failure, UnansweredError) else second
        raise known.error from known.__cause__

    def _refusal(self, failure: RefusedError | UnansweredError) -> QuestionRejected:
        if isinstance(failure, RefusedError):
            return QuestionRejected(f"{self.endpoint.name} refuses this question: {failure.reason}.")
        return QuestionRejected(f"{self.endpoint.name} {failure.reason} for this question, and answers others.")

    async def _ask_harmless(self, fields: Mapping[str, Any]) -> None:
        """Ask a harmless question, a new one each time: a cache would answer it while the endpoint is down."""
        messages = [
            {"role": "system", "content": 'Reply with the JSON object {"ok": true}.'},
            {"role": "user", "content": f"Is this request answered? ({uuid4().hex[:8]})"},
        ]
        await self._ask_with({**fields, "messages": messages}, attempts=2)

    async def _ask_with(self, fields: Mapping[str, Any], *, attempts: int | None = None) -> ChatCompletion:
        async def send(client: openai.AsyncOpenAI, seconds: float) -> bytes:
            import httpx  # noqa: PLC0415 - loaded by now

            body = {"model": self._model, **fields}
            response = await client.post(PATH, cast_to=httpx.Response, body=body, options={"timeout": seconds})
            return response.content

        completion = await self.endpoint.ask(send, read_completion, attempts=attempts)
        self._accepted_at = asyncio.get_running_loop().time()
        return completion
