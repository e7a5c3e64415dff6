"""Ten times what a server can take, the short form; the long one is `python -m tests.faults.flood`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.flood import run


@pytest.mark.harness
@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process as Linux tells it")
def test_g18_a_flood_is_refused_in_time_and_what_was_acknowledged_is_there_once() -> None:
    """G18."""
    assert run(seconds=4, measured=1) == []
