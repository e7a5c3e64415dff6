"""TCP keepalive: a dead peer is detected within a minute."""

from __future__ import annotations

import socket
from typing import Final

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
