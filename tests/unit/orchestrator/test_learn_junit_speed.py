"""A large run is read about as fast as by a parser of reports that compares nothing, and in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILES, CASES, FAILED_EVERY = 2000, 100, 50
MAX_SECONDS = 30
MAX_MEGABYTES = 250
MAX_RATIO = 1.3
"""Processor time over that of junitparser, which is 1.12 with 2 failures in 100 tests: the rest is for noise."""
_MEASURED = """
import re, sys, time
from pathlib import Path
{imports}
before, after = Path(sys.argv[1]), Path(sys.argv[2])
cpu, clock = time.process_time(), time.monotonic()
{work}
# of this process alone: what getrusage tells includes that of the one that started it
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(count, time.process_time() - cpu, time.monotonic() - clock, peak)
"""
_OURS = _MEASURED.format(
    imports="from orchestrator.importers.junit import read_repaired_tests",
    work="""
told = read_repaired_tests(before, after, project="shop", solution="A price may be missing")
count = len(list(told.entries))
""",
)
_THEIRS = _MEASURED.format(
    imports="from junitparser import JUnitXml",
    work="""
count = 0
for folder in (before, after):
    for file in folder.iterdir():
        for suite in JUnitXml.fromfile(str(file)):
            for case in suite:
                told = case.classname, case.name, [(type(result), result.message) for result in case.result]
                count += 1
""",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of 200,000 tests in 2,000 files; of the first one, 2 in 100 failed."""
    before, after = (tmp_path_factory.mktemp(name) for name in ("before", "after"))
    for number in range(FILES):
        for folder, failed_every in ((before, FAILED_EVERY), (after, 0)):
            folder.joinpath(f"TEST-{number}.xml").write_text(_report(number, failed_every))
    return before, after


def _report(number: int, failed_every: int) -> str:
    cases = (
        f'<testcase classname="shop.mod{number}.TestCart" name="test_{case}" time="0.01">'
        + (_failure(number, case) if failed_every and case % failed_every == 0 else "")
        + "</testcase>"
        for case in range(CASES)
    )
    return f'<testsuites><testsuite name="shop.mod{number}" tests="{CASES}">{"".join(cases)}</testsuite></testsuites>'


def _failure(number: int, case: int) -> str:
    return (
        f'<failure message="assert {case} == {number}" type="AssertionError">def test():\n&gt;   assert total\n'
        f"E   assert {case} == {number}\n\nmod{number}.py:7: AssertionError</failure>"
    )


def measure(script: str, runs: tuple[Path, Path]) -> tuple[int, float, float, float]:
    """Run a script over both runs; return its count, CPU seconds, seconds and peak megabytes."""
    told = subprocess.run(
        [sys.executable, "-c", script, *map(str, runs)], check=True, capture_output=True, text=True
    ).stdout.split()
    return int(told[0]), float(told[1]), float(told[2]), float(told[3])


@pytest.mark.long
def test_200_000_tests_are_compared_within_30_s_and_250_mb_and_about_as_fast_as_junitparser_reads_them(
    runs: tuple[Path, Path],
) -> None:
    ours, theirs = [], []
    for _ in range(3):
        learned, cpu, seconds, megabytes = measure(_OURS, runs)
        assert learned == FILES * CASES // FAILED_EVERY
        assert seconds < MAX_SECONDS
        assert megabytes < MAX_MEGABYTES
        ours.append(cpu)
        count, cpu, _, _ = measure(_THEIRS, runs)
        assert count == 2 * FILES * CASES
        theirs.append(cpu)
    assert min(ours) <= MAX_RATIO * min(theirs), f"{min(ours):.2f} s of processor time, junitparser {min(theirs):.2f}"
