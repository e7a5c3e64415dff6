"""A model limited by the budget of a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.documents.language_model import ChatOptions, ChatReply, LanguageModel, Message
from knowledge.ports import Stores
from knowledge.spending import charge_quota, estimate_tokens


@dataclass(frozen=True, slots=True)
class SpendingModel(LanguageModel):
    """A model that answers within the budget of a workspace."""

    stores: Stores
    language_model: LanguageModel

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self.language_model.model

    async def say(self, messages: Sequence[Message], asking: ChatOptions) -> ChatReply:
        """Return the next reply of the model. Raises BudgetSpent, or what the model raises."""
        prompt_tokens = estimate_tokens(message.content for message in messages)
        async with charge_quota(self.stores, prompt_tokens) as bill:
            reply = await self.language_model.say(messages, asking)
            bill.tokens = reply.tokens or prompt_tokens + estimate_tokens(
                (reply.text, *(call.arguments for call in reply.calls))
            )
            return reply

    async def aclose(self) -> None:
        """Close the model."""
        await self.language_model.aclose()
