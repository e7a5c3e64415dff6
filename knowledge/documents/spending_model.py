"""A model that answers within what a workspace may spend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.documents.language_model import Asking, LanguageModel, Message, Said
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

    async def say(self, messages: Sequence[Message], asking: Asking) -> Said:
        """Return what the model says next. Raises BudgetSpent, or what the model raises."""
        asked = estimate_tokens(message.content for message in messages)
        async with charge_quota(self.stores, asked) as bill:
            said = await self.language_model.say(messages, asking)
            bill.tokens = said.tokens or asked + estimate_tokens((said.text, *(call.arguments for call in said.calls)))
            return said

    async def aclose(self) -> None:
        """Close the model."""
        await self.language_model.aclose()
