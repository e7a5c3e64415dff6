"""Settings of a client: the deadline and the size of contexts, from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Protocol, Self

from hardwon.errors import InvalidSetting


class ContextSettings(Protocol):
    """The settings a context needs."""

    @property
    def query_deadline_ms(self) -> int: ...  # noqa: D102
    @property
    def context_max_tokens(self) -> int: ...  # noqa: D102
    @property
    def context_max_patterns(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Defaults of the settings that a client reads, as the server has them."""

    query_deadline_ms: int = 2000
    context_max_tokens: int = 2000
    context_max_patterns: int = 3

    @classmethod
    def from_environment(cls) -> Self:
        """Read the variables with the prefix HARDWON_. Raises InvalidSetting, naming the variable."""
        values = {}
        for field in fields(cls):
            variable = f"HARDWON_{field.name.upper()}"
            text = os.environ.get(variable, "").strip()
            if not text:
                continue
            if not text.isdecimal() or int(text) < 1:
                raise InvalidSetting(variable, "give a whole number of at least 1")
            values[field.name] = int(text)
        return cls(**values)
