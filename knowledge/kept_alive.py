"""Connections to other machines whose end is noticed, though it says nothing: nobody waits for an answer for good."""

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
"""A machine that went without a word is noticed within a minute; ours. macOS has only some of these."""


def keep_alive(connected: socket.socket) -> None:
    """Have a connection ask by itself whether the other end is there; one of a unix socket needs not to."""
    if connected.family == socket.AF_UNIX:
        return
    for (level, name), number in _OPTIONS.items():
        if option := getattr(socket, name, None):
            connected.setsockopt(level, option, number)
