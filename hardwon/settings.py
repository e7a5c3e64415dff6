"""Settings of a client: the deadline and the size of contexts, from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Protocol, Self
from urllib.parse import urlsplit

from hardwon.errors import InvalidSetting

VERSION = "0.1.0"


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
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the variables with the prefix HARDWON_. Raises InvalidSetting, naming the variable."""
        values = {}
        for field in fields(cls):
            variable = f"HARDWON_{field.name.upper()}"
            text = environment.get(variable, "").strip()
            if not text:
                continue
            if not text.isdecimal() or int(text) < 1:
                raise InvalidSetting(variable, "give a whole number of at least 1")
            values[field.name] = int(text)
        return cls(**values)


def check_port(address: str) -> str | None:
    """Return the host of an address. Raises ValueError for a malformed address or port."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:  # whose message may contain a part of a password
        raise ValueError(
            "is not a valid address: encode / ? # @ : % in a password as %2F %3F %23 %40 %3A %25"
        ) from None
    if port == 0:
        raise ValueError("is not a valid address: port 0")
    return parts.hostname


def check_http(address: str | None) -> str | None:
    """Return an HTTP address unchanged, if one is given. Raises ValueError for a malformed one."""
    if address and not address.startswith(("http://", "https://")):
        raise ValueError("give an http:// or https:// address")
    if address and not check_port(address):
        raise ValueError("has no host")
    return address
