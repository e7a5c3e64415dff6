"""What tells a process to end."""

from __future__ import annotations

import signal
from typing import Any


def end_signals() -> tuple[int, ...]:
    """Return what tells a process to end, a terminal that is closed included unless it is to outlive that (nohup)."""
    hangup: Any = getattr(signal, "SIGHUP", None)  # none on Windows
    outlives = hangup is None or signal.getsignal(hangup) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM) if outlives else (signal.SIGINT, signal.SIGTERM, hangup)
