"""Daily token quota of a workspace for endpoints: reserved before each call, corrected by the reported usage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from hardwon.errors import BudgetSpent, HardwonError
from knowledge.ports import ChatModel, Stores

BYTES_PER_TOKEN = 4
"""Estimate of a token's length: a rule of thumb for English text."""

MAX_TOKENS = 10**9
"""Upper bound for the usage of a call, whatever an endpoint reports."""


@dataclass(slots=True)
class Usage:
    """Tokens of a call: the estimate, until the endpoint reports them."""

    tokens: int


def estimate_tokens(texts: Iterable[str]) -> int:
    """Estimate the tokens of some texts, at least one each."""
    return sum(1 + len(text.encode(errors="replace")) // BYTES_PER_TOKEN for text in texts)


@asynccontextmanager
async def charge_quota(stores: Stores, estimate: int) -> AsyncIterator[Usage]:
    """Charge a call to an endpoint to the quota of the workspace: the estimate first, then the reported usage.

    A failed call costs nothing, a cancelled one its estimate. Without a quota nothing is counted. Raises BudgetSpent,
    before the call, when the quota of the day (UTC) is used up.
    """
    store, usage = stores.spending, Usage(estimate)
    if store.budget is None:
        yield usage
        return
    now = stores.clock.now().astimezone(UTC)
    day = now.date()
    if not await store.reserve(day, estimate):
        raise _budget_spent(stores.workspace, store.budget, now)
    try:
        yield usage
    except HardwonError:
        usage.tokens = 0
        raise
    finally:
        if usage.tokens != estimate:
            with suppress(HardwonError):  # the estimate stands
                await store.correct(day, min(usage.tokens, MAX_TOKENS) - estimate)


async def tokens_used_today(stores: Stores) -> int | None:
    """Return the tokens a workspace has sent to endpoints since midnight (UTC), None without a quota."""
    if stores.spending.budget is None:
        return None
    return await stores.spending.tokens_used(stores.clock.now().astimezone(UTC).date())


def _budget_spent(workspace: str, budget: int, now: datetime) -> BudgetSpent:
    tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    return BudgetSpent(
        f"workspace {workspace} has used its {budget:,} tokens for endpoints today"
        f" (HARDWON_TOKENS_PER_DAY); the quota starts again at {tomorrow:%Y-%m-%d} 00:00 UTC",
        retry_after_seconds=(tomorrow - now).total_seconds(),
    )


@dataclass(frozen=True, slots=True)
class QuotaChat(ChatModel):
    """Chat model within the quota of a workspace; usage is estimated."""

    stores: Stores
    chat: ChatModel

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self.chat.model

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        """Return the answer to a text. Raises BudgetSpent, or what the model raises."""
        prompt_tokens = estimate_tokens((instructions, text))
        async with charge_quota(self.stores, prompt_tokens) as usage:
            answer = await self.chat.answer(instructions, text, as_json=as_json)
            usage.tokens = prompt_tokens + estimate_tokens((answer,))
            return answer

    async def aclose(self) -> None:
        """Close the model."""
        await self.chat.aclose()


def with_quota(stores: Stores, open_chat: Callable[[], ChatModel] | None) -> Callable[[], ChatModel] | None:
    """Return a factory of chat models within the quota of a workspace, None without a chat model."""
    return None if open_chat is None else lambda: QuotaChat(stores, open_chat())
