"""The entry point of the command `hardwon`; it imports the rest only after SIGINT is set to end the process."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line and run it; until it has something to clean up, Ctrl-C ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it was set to be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from orchestrator.cli import commands

    commands.main()
