"""Check addresses before a fetch: only those that the settings allow, and internal ones only if named there. Pure.

`file://` prefixes are folders, compared by real path; `https://` ones a host, with a path prefix if given.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hardwon.errors import InvalidInput

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""An IPv4 address behind the well-known NAT64 prefix (RFC 6052)."""
_UNICAST = ipaddress.ip_network("2000::/3")
"""Global unicast addresses: excludes embedded IPv4 forms, site-local addresses and local NAT64 prefixes."""
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")
_TUNNELLED = 0x00005EFE
"""Interface identifier before an embedded IPv4 address: a host behind an ISATAP router (RFC 5214)."""
_ANY_SCOPE = 0xFDFFFFFF


def check_url(url: str, allowed: Sequence[str]) -> str:
    """Return an address if it may be fetched from. Raises InvalidInput, which names the setting to change."""
    parts = _split(url)
    if not allowed:
        raise InvalidInput("url", "fetching is off: set HARDWON_FETCH to the addresses that may be fetched from")
    if not any(_covers(prefix, parts.scheme, url) for prefix in allowed):
        raise InvalidInput("url", f"HARDWON_FETCH does not allow {url}")
    return url


def is_inside(addresses: Iterable[str]) -> bool:
    """Return whether any address is not public: this machine, its networks, or its cloud's metadata service."""
    return any(not _public(address) for address in addresses)


def _public(address: str) -> bool:
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(ip, ipaddress.IPv6Address):
        within = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if within:
            return _public(str(within))
        last = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if ip in _TRANSLATED:
            return _public(str(last))
        if ip not in _UNICAST or ip in _DOCUMENTATION or (int(ip) >> 32) & _ANY_SCOPE == _TUNNELLED:
            return False
    return ip.is_global and not ip.is_multicast


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of an address."""

    scheme: str
    host: str
    port: int
    path: str


def _split(url: str) -> _Parts:
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError as error:
        raise InvalidInput("url", "is not an address") from error
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
        allowed, requested = _split(prefix), _split(url)
    except InvalidInput:
        return False
    if allowed.scheme != scheme:
        return False
    if scheme == "file":
        return Path(requested.path).resolve().is_relative_to(Path(allowed.path).resolve())
    below = allowed.path.rstrip("/")
    if "//" in requested.path:  # a client that resolves it as relative would take the rest for another host
        return False
    same_host = (allowed.host, allowed.port) == (requested.host, requested.port)
    steps = requested.path.split("/")
    return same_host and ".." not in steps and (requested.path == below or requested.path.startswith(f"{below}/"))


_COMMIT = re.compile(r"(?:/blob/([0-9a-f]{40}|[0-9a-f]{64})/.+|#.+@([0-9a-f]{40}|[0-9a-f]{64}))\Z", re.DOTALL)


def link_of(url: str, commit: str, path: str) -> str:
    """Return the address of a file of a commit: all git hosts support this form, or redirect it."""
    if url.startswith("file://"):
        return f"{url.rstrip('/')}#{path}@{commit}"
    return f"{url.removesuffix('.git').rstrip('/')}/blob/{commit}/{path}"


def commit_of(link: str | None) -> str | None:
    """Return the commit in an address of `link_of`; None for any other address."""
    found = _COMMIT.search(link or "")
    return None if found is None else found[1] or found[2]
