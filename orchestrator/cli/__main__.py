"""`python -m orchestrator.cli` is `hardwon`."""

from orchestrator.cli.start import main

main()
