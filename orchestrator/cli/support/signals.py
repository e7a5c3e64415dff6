"""The signals that end a process."""

from __future__ import annotations

import signal
from typing import Any


def end_signals() -> tuple[int, ...]:
    """Return the signals that end a process: SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup)."""
    hangup: Any = getattr(signal, "SIGHUP", None)  # none on Windows
    ignores_hangup = hangup is None or signal.getsignal(hangup) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM) if ignores_hangup else (signal.SIGINT, signal.SIGTERM, hangup)
