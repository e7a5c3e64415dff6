"""`python -m orchestrator.cli` is `hardwon`."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line and run it; until it has something to clean up, Ctrl-C ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it was set to be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from orchestrator.cli.commands import root

    root.main()


if __name__ == "__main__":
    main()
