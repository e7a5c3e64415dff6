"""Isolation of texts that an endpoint refuses, in whichever way it fails: one of them never holds up the others.

A failure does not tell if it is of a text or of the endpoint. A batch that fails is halved; a text that is left is
refused only if it fails again and again while the endpoint embeds a harmless text of the same length before, and a
short one after each time. An endpoint that is down, overloaded or limits the rate fails these as well.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from hardwon.errors import EmbedderUnavailable, HardwonError
from hardwon.text.truncation import truncate_middle
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.adapters.llm.failures import RefusedError, UnansweredError
from knowledge.adapters.llm.replies import Answer
from knowledge.models import Vector

BYTES_PER_TOKEN = 2
"""Real bug reports have at least 1.94 bytes per token of OpenAI's vocabulary, 4.25 in the median (measured)."""

MAX_INPUTS = 2048
ROUNDS = 6
"""Times in a row that a text fails alone, each followed at once by the success of a harmless text, until it is refused.
Ours: an endpoint that fails half of all calls at random makes one text in 30,000 look refused."""
_MAX_PASSES = 30
"""Times that suspects are sent again before the endpoint counts as unavailable: it fails too much to tell."""

_SHORTEST_BYTES = 64
"""A text this short is refused for another reason than its length."""
_SHORTEST_CONTEXT_BYTES = 256
"""No model takes fewer: where harmless texts this short fail as well, the endpoint is overloaded, not the text long."""
_WORD_BYTES = 24
"""Up to this length a harmless word shows as much as a harmless text of the same length."""
_LIMIT_SECONDS = 600.0
"""Time for which fewer texts are sent at a time after a failure that named no limit; ours."""


@dataclass(frozen=True, slots=True)
class Input:
    """A text as it is sent, and its position among those to embed."""

    position: int
    text: str
    truncated: bool = False

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return len(self.text.encode())

    @property
    def tokens(self) -> int:
        """Estimated tokens, rather too many."""
        return math.ceil(self.size / BYTES_PER_TOKEN)

    def truncate(self, most_bytes: int) -> Input:
        """Return it with its middle left out, unless it is short enough."""
        if self.size <= most_bytes:
            return self
        return Input(self.position, truncate_middle(self.text, most_bytes), truncated=True)


@dataclass(frozen=True, slots=True)
class Row:
    """The vector of a text."""

    vector: Vector
    truncated: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text is refused, for a reason in the endpoint's words, and not sent again until then."""

    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Done:
    """The rows and refusals of texts by their positions, and the tokens that they cost."""

    rows: dict[int, Row | Refusal]
    tokens: int = 0


@dataclass(slots=True)
class BatchLimit:
    """The number of texts that an endpoint takes at a time."""

    _inputs: int = MAX_INPUTS
    _until: float = math.inf

    def inputs(self) -> int:
        """Return the number for the next request."""
        return self._inputs if asyncio.get_running_loop().time() < self._until else MAX_INPUTS

    def learn(self, inputs: int, *, is_certain: bool) -> None:
        """Lower the limit; for a while only, unless the endpoint named one."""
        self._inputs = min(self.inputs(), inputs)
        self._until = math.inf if is_certain else asyncio.get_running_loop().time() + _LIMIT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A harmless text was embedded.

    `at_once`: by the first try, so the endpoint does not fail at random. `changed`: the parameters of a request had to
    be changed for it, so the texts may not be the reason.
    """

    at_once: bool
    changed: bool


class EmbeddingRequests(Protocol):
    """Requests to an endpoint."""

    name: str
    retry: RetryPolicy
    accepted_at: float
    """The time of the endpoint's last embedding."""

    async def ask(self, batch: Sequence[Input], *, attempts: int | None = None) -> Answer:
        """Embed a batch in one request. Raises RefusedError, UnansweredError, or what is true of any text."""

    async def check_harmless(self, failure: RefusedError | UnansweredError) -> Check:
        """Embed a harmless word; raise what the failure means for every text if that fails, too."""

    async def accepts(self, texts: int, size: int) -> bool:
        """Return whether the endpoint embeds so many harmless texts of so many bytes."""


Failure = RefusedError | UnansweredError


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A text that failed alone. `rounds`: how often in a row, with a harmless text's success at once after each."""

    input: Input
    failure: Failure
    rounds: int = 0


@dataclass(slots=True)
class _Found:
    rows: dict[int, Row | Refusal] = field(default_factory=dict)
    suspects: list[_Suspect] = field(default_factory=list)
    tokens: int = 0

    def add(self, other: _Found) -> _Found:
        self.rows |= other.rows
        self.suspects += other.suspects
        self.tokens += other.tokens
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """Embeds batches and names the refused texts. An endpoint that refuses any text raises that.

    `began`: an embedding after it shows that the endpoint takes texts. `rounds`: see `ROUNDS`; 0 where a refusal has no
    consequences.
    """

    requests: EmbeddingRequests
    limit: BatchLimit
    began: float
    rounds: int = ROUNDS

    async def embed(self, batch: Sequence[Input]) -> Done:
        """Embed a batch; halve it if it fails, shorten a text that is too long, and refuse one that fails alone."""
        found = await self._attempt(batch, attempts=None)
        for number in range(_MAX_PASSES):
            if not found.suspects:
                return Done(found.rows, found.tokens)
            suspects, found.suspects = found.suspects, []
            if number and not all(isinstance(each.failure, RefusedError) for each in suspects):
                await asyncio.sleep(self.requests.retry.delay(number, None))
            found.add(await self._examine(suspects))
        failure = found.suspects[0].failure
        raise EmbedderUnavailable(
            f"{self.requests.name} {failure.reason}, and fails too often to tell for which texts."
        )

    async def _attempt(self, batch: Sequence[Input], *, attempts: int | None = 1) -> _Found:
        at_once = True
        try:
            answer = await self.requests.ask(batch, attempts=attempts)
        except RefusedError as refusal:
            failure: Failure = refusal
        except UnansweredError as unanswered:
            if not unanswered.of_request:
                raise unanswered.error from unanswered.__cause__
            check = await self.requests.check_harmless(unanswered)
            if check.changed:
                return await self._attempt(batch)
            failure, at_once = unanswered, check.at_once
        else:
            return self._sort(batch, answer)
        if len(batch) == 1:
            return _Found(suspects=[_Suspect(batch[0], failure, rounds=int(at_once))])
        return await self._halve(batch, failure, is_first=attempts is None)

    def _sort(self, batch: Sequence[Input], answer: Answer) -> _Found:
        """Return the rows of an answer; the texts without a usable one are suspects."""
        found = _Found(tokens=answer.tokens or sum(each.tokens for each in batch))
        for place, each in enumerate(batch):
            if place in answer.rows:
                found.rows[each.position] = Row(answer.rows[place], each.truncated)
            else:
                reason = answer.unusable[place]
                error = EmbedderUnavailable(f"{self.requests.name} {reason.replace(' for it', '')}.")
                found.suspects.append(_Suspect(each, UnansweredError(error, reason, of_request=True)))
        return found

    async def _halve(self, batch: Sequence[Input], failure: Failure, *, is_first: bool) -> _Found:
        middle = len(batch) // 2
        parts = [batch[:middle], batch[middle:]]
        is_certain = isinstance(failure, RefusedError)
        if is_first and not is_certain and not await self._accepts(texts=2):
            self.limit.learn(1, is_certain=False)
            parts = [[each] for each in batch]
        found = _Found()
        for part in parts:
            found.add(await self._attempt(part))
        if self.requests.accepted_at < self.began and (await self.requests.check_harmless(failure)).changed:
            return await self._attempt(batch)
        whole = not found.suspects and not any(isinstance(row, Row) and row.truncated for row in found.rows.values())
        if whole and (failure.about_size or not is_certain):  # no text was wrong: it takes fewer at a time
            self.limit.learn(max(map(len, parts)), is_certain=is_certain)
        return found

    async def _examine(self, suspects: Sequence[_Suspect]) -> _Found:
        """Send each suspect again, or a shorter one where the length is the reason; refuse those that failed enough."""
        longest = max((each.input.size for each in suspects if not isinstance(each.failure, RefusedError)), default=0)
        is_long = self.rounds > 0 and longest > _WORD_BYTES and not await self._accepts(size=longest)
        if is_long and longest < 2 * _SHORTEST_CONTEXT_BYTES:
            raise _unavailable(suspects)
        found = _Found()
        for suspect in suspects:
            size = suspect.input.size
            if self._is_too_long(suspect) or (is_long and 2 * size > longest):
                found.add(await self._attempt([suspect.input.truncate(size // 2)]))
            elif isinstance(suspect.failure, RefusedError):
                found.add(await self._refuse_if_others_pass(suspect))
            elif suspect.rounds >= self.rounds:
                found.rows[suspect.input.position] = self._refusal(suspect)
            else:
                again = await self._attempt([suspect.input])
                again.suspects = [
                    replace(each, rounds=each.rounds and suspect.rounds + each.rounds) for each in again.suspects
                ]
                found.add(again)
        return found

    @staticmethod
    def _is_too_long(suspect: _Suspect) -> bool:
        shortest = _SHORTEST_BYTES if isinstance(suspect.failure, RefusedError) else _SHORTEST_CONTEXT_BYTES
        return suspect.failure.about_size and suspect.input.size // 2 >= shortest

    async def _refuse_if_others_pass(self, suspect: _Suspect) -> _Found:
        if self.requests.accepted_at < self.began and (await self.requests.check_harmless(suspect.failure)).changed:
            return await self._attempt([suspect.input])
        return _Found(rows={suspect.input.position: self._refusal(suspect)})

    def _refusal(self, suspect: _Suspect) -> Refusal:
        until = asyncio.get_running_loop().time() + self.requests.retry.refusal_seconds
        failure = suspect.failure
        if isinstance(failure, RefusedError):
            return Refusal(f"{self.requests.name} refuses this text: {failure.reason}.", until)
        return Refusal(f"{self.requests.name} {failure.reason} for this text, and embeds others.", until)

    async def _accepts(self, *, texts: int = 1, size: int = 0) -> bool:
        """Return whether harmless texts so many or so long are embedded; asked three times before it is doubted."""
        for _ in range(3):
            if await self.requests.accepts(texts, size):
                return True
        return False


def _unavailable(suspects: Sequence[_Suspect]) -> HardwonError:
    """Return what the suspects' failure means if harmless texts fail likewise."""
    return next(each.failure.error for each in suspects if isinstance(each.failure, UnansweredError))
