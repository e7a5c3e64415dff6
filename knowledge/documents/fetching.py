"""Which addresses may be fetched from: none, unless the settings allow them; none inside, unless they say so. Pure.

`file://` prefixes are folders whose real paths count; `https://` ones a host, with the beginning of a path where given.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from knowledge.errors import InvalidInput

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""An IPv4 address behind a translator that all may use."""
_UNICAST = ipaddress.ip_network("2000::/3")
"""All that is given out of the public internet: no old form of an IPv4 address, no site's, no site's own translator."""
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")
_TUNNELLED = 0x00005EFE
"""Before an IPv4 address within an IPv6 one: a host of some site, reached through that (ISATAP, RFC 5214)."""
_ANY_SCOPE = 0xFDFFFFFF


def check_url(url: str, allowed: Sequence[str]) -> str:
    """Return an address that may be fetched from. Raises InvalidInput, which says what to set."""
    parts = _split(url)
    if not allowed:
        raise InvalidInput("url", "fetching is off: set HARDWON_FETCH to the addresses that may be fetched from")
    if not any(_covers(prefix, parts.scheme, url) for prefix in allowed):
        raise InvalidInput("url", f"HARDWON_FETCH does not allow {url}")
    return url


def is_inside(addresses: Iterable[str]) -> bool:
    """Return whether any of some addresses is not of the public internet: this machine, its networks, its cloud."""
    return any(not _public(address) for address in addresses)


def _public(address: str) -> bool:
    found = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(found, ipaddress.IPv6Address):
        within = found.ipv4_mapped or found.sixtofour or (found.teredo and found.teredo[1])
        if within:
            return _public(str(within))
        last = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if found in _TRANSLATED:
            return _public(str(last))
        if found not in _UNICAST or found in _DOCUMENTATION or (int(found) >> 32) & _ANY_SCOPE == _TUNNELLED:
            return False
    return found.is_global and not found.is_multicast


@dataclass(frozen=True, slots=True)
class _Parts:
    """An address taken apart."""

    scheme: str
    host: str
    port: int
    path: str


def _split(url: str) -> _Parts:
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError as error:
        raise InvalidInput("url", "is no address") from error
    if parts.scheme not in {"https", "file"} or any(c.isspace() or not c.isprintable() for c in url):
        raise InvalidInput("url", "give an https:// or file:// address")
    if parts.username or parts.password:
        raise InvalidInput("url", "give an address without a name and password in it")
    host = (parts.hostname or "").rstrip(".").lower()
    if parts.scheme == "https" and not host:
        raise InvalidInput("url", "names no host")
    if parts.scheme == "file" and host not in {"", "localhost"}:
        raise InvalidInput("url", "a file:// address names a path of this machine")
    return _Parts(parts.scheme, host, port, unquote(parts.path))


def _covers(prefix: str, scheme: str, url: str) -> bool:
    try:
        allowed, asked = _split(prefix), _split(url)
    except InvalidInput:
        return False
    if allowed.scheme != scheme:
        return False
    if scheme == "file":
        return Path(asked.path).resolve().is_relative_to(Path(allowed.path).resolve())
    below = allowed.path.rstrip("/")
    if "//" in asked.path:  # what reads an address as relative to its host takes what follows for another host
        return False
    same_host = (allowed.host, allowed.port) == (asked.host, asked.port)
    steps = asked.path.split("/")
    return same_host and ".." not in steps and (asked.path == below or asked.path.startswith(f"{below}/"))
