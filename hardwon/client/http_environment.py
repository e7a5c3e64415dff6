"""Validate proxy and CA environment variables before an HTTP client is built."""

from __future__ import annotations

import os
import socket
import ssl
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from hardwon.errors import InvalidSetting

_OPTIONS: Final = {
    (socket.SOL_SOCKET, "SO_KEEPALIVE"): 1,
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE"): 30,
    (socket.IPPROTO_TCP, "TCP_KEEPALIVE"): 30,  # the same, as macOS calls it
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL"): 10,
    (socket.IPPROTO_TCP, "TCP_KEEPCNT"): 3,
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT"): 60_000,  # milliseconds
}
"""Ours: a silent peer is given up within a minute. macOS has only some of these options."""


def enable_keepalive(connection: socket.socket) -> None:
    """Enable TCP keepalive on a connection; unix sockets need none."""
    if connection.family == socket.AF_UNIX:
        return
    for (level, name), number in _OPTIONS.items():
        if option := getattr(socket, name, None):
            connection.setsockopt(level, option, number)


_SOCKS = frozenset({"socks5", "socks5h"})


def check_http_environment() -> None:
    """Raise InvalidSetting, naming the variable, for a proxy or CA file that no client can use."""
    proxies = getproxies()
    for kind in ("http", "https", "all"):
        if proxy := proxies.get(kind):
            _check_proxy(f"{kind.upper()}_PROXY", proxy)
    if certificates := os.environ.get("SSL_CERT_FILE"):
        try:
            ssl.create_default_context(cafile=certificates)
        except OSError as error:
            raise InvalidSetting("SSL_CERT_FILE", f"cannot be read as certificates: {error}") from error


def _check_proxy(variable: str, proxy: str) -> None:
    """Raise InvalidSetting unless it is the address of a proxy; the message leaves out its password."""
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.scheme not in {"http", "https", *_SOCKS}:
        raise InvalidSetting(variable, "is not the address of a proxy, such as http://proxy.example.org:3128")
    if parts.scheme in _SOCKS and find_spec("socksio") is None:
        raise InvalidSetting(
            variable, "names a SOCKS proxy, which needs another package: pip install socksio, or unset it"
        )
