"""Optional parameters of requests to an endpoint, each in the form that the endpoint takes.

No parameter is known to every endpoint. One that is refused is sent in its next form, or left out; what was accepted is
remembered by whoever holds the parameters.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Parameters:
    """The forms of each optional parameter, best first; None leaves it out. `chosen`: the positions in use."""

    forms: Mapping[str, tuple[str | None, ...]]
    also_called: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further words by which refusals name a parameter."""
    chosen: Mapping[str, int] = field(default_factory=dict)

    def form(self, name: str) -> str | None:
        """Return the form in use of a parameter."""
        return self.forms[name][self.chosen.get(name, 0)]

    def find_blamed(self, reason: str, param: str | None, used: Collection[str]) -> str | None:
        """Return the parameter of a request that a refusal names, None if it names none that has another form."""
        changeable = [name for name in used if self.form(name) is not None]
        for name in changeable:
            if param is not None and any(_find(word, param) is not None for word in self._words(name)):
                return name
        found = {
            at: name for name in changeable for word in self._words(name) if (at := _find(word, reason)) is not None
        }
        return found[min(found)] if found else None

    def replace(self, name: str) -> Parameters:
        """Return these with the next form of a parameter."""
        return replace(self, chosen={**self.chosen, name: self.chosen.get(name, 0) + 1})

    async def relearn(
        self, used: Collection[str], accepts: Callable[[Parameters], Awaitable[bool]]
    ) -> Parameters | None:
        """Return the best forms in which a harmless request is accepted, None if it is not without any of them.

        For refusals that name no parameter; each form that is left is tried alone.
        """
        accepted = replace(self, chosen={**self.chosen, **{name: len(self.forms[name]) - 1 for name in used}})
        if all(accepted.form(name) == self.form(name) for name in used) or not await accepts(accepted):
            return None
        for name in used:
            for position in range(self.chosen.get(name, 0), len(self.forms[name]) - 1):
                tried = replace(accepted, chosen={**accepted.chosen, name: position})
                if await accepts(tried):
                    accepted = tried
                    break
        return accepted

    def _words(self, name: str) -> tuple[str, ...]:
        form = self.form(name)
        return (name, *([form] if form else []), *self.also_called.get(name, ()))


def _find(word: str, text: str) -> int | None:
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    return found.start() if found else None
