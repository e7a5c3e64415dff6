"""Where the command `hardwon` starts: before anything is loaded, so that Ctrl-C has nothing to break off."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the command line and run it; until it has something to put in order, Ctrl-C ends it without a word."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody told us to ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from orchestrator.cli import commands

    commands.main()
