"""Validate proxy and CA environment variables before an HTTP client is built."""

from __future__ import annotations

import os
import ssl
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import getproxies

from knowledge.errors import InvalidSetting

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
