"""What a workspace may spend at endpoints a day: looked at before each call, corrected by what the endpoint counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from knowledge.errors import BudgetSpent, HardwonError
from knowledge.ports import ChatModel, Stores

BYTES_PER_TOKEN = 4
"""What a token is guessed by, before an endpoint has counted: a rule of thumb for English text."""

MOST_TOKENS = 10**9
"""More than this no call costs, whatever an endpoint says."""


@dataclass(slots=True)
class Bill:
    """What a call cost: the guess, unless somebody knows better."""

    tokens: int


def guessed_tokens(texts: Iterable[str]) -> int:
    """Return a guess at the tokens of some texts; at least one each."""
    return sum(1 + len(text.encode(errors="replace")) // BYTES_PER_TOKEN for text in texts)


@asynccontextmanager
async def spending(stores: Stores, guess: int) -> AsyncIterator[Bill]:
    """Count the tokens of a call to an endpoint against the budget of the workspace, by a guess until it is answered.

    A call that fails costs nothing; one that nobody waits for any more costs the guess. Without a budget nothing is
    counted. Raises BudgetSpent, before the call, where the workspace has spent what it may that day (UTC).
    """
    store, bill = stores.spending, Bill(guess)
    if store.budget is None:
        yield bill
        return
    now = stores.clock.now().astimezone(UTC)
    day = now.date()
    if not await store.reserve(day, guess):
        raise _spent(stores.workspace, store.budget, now)
    try:
        yield bill
    except HardwonError:
        bill.tokens = 0
        raise
    finally:
        if bill.tokens != guess:
            with suppress(HardwonError):  # the guess stands
                await store.correct(day, min(bill.tokens, MOST_TOKENS) - guess)


async def spent_today(stores: Stores) -> int | None:
    """Return the tokens a workspace has sent to endpoints since midnight (UTC), None where nobody counts them."""
    if stores.spending.budget is None:
        return None
    return await stores.spending.spent(stores.clock.now().astimezone(UTC).date())


def _spent(workspace: str, budget: int, now: datetime) -> BudgetSpent:
    tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    return BudgetSpent(
        f"workspace {workspace} has spent the {budget:,} tokens that it may send to endpoints a day"
        f" (HARDWON_TOKENS_PER_DAY): more may go there from {tomorrow:%Y-%m-%d} 00:00 UTC on",
        retry_after_seconds=(tomorrow - now).total_seconds(),
    )


@dataclass(frozen=True, slots=True)
class SpendingChat(ChatModel):
    """A chat model that answers within the budget of a workspace; what it costs stays guessed."""

    stores: Stores
    chat: ChatModel

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self.chat.model

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        """Return the answer to a text. Raises BudgetSpent, or what the model raises."""
        asked = guessed_tokens((instructions, text))
        async with spending(self.stores, asked) as bill:
            answer = await self.chat.answer(instructions, text, as_json=as_json)
            bill.tokens = asked + guessed_tokens((answer,))
            return answer

    async def aclose(self) -> None:
        """Close the model."""
        await self.chat.aclose()


def spending_chat(stores: Stores, open_chat: Callable[[], ChatModel] | None) -> Callable[[], ChatModel] | None:
    """Return what opens a chat model for the texts of a workspace, None where there is none."""
    return None if open_chat is None else lambda: SpendingChat(stores, open_chat())
