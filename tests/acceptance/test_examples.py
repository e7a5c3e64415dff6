"""Each example as it stands: the second project gets what the first one learned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import Commands

NEEDS = {"langgraph_loop": "langgraph"}
"""What an example needs that hardwon does not."""

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_the_second_project_told_what_the_first_one_learned(
    home: Path, database_url: str, example: Path
) -> None:
    if example.stem in NEEDS:
        pytest.importorskip(NEEDS[example.stem], reason=f"{NEEDS[example.stem]} is not installed")
    settings = {"HARDWON_DATABASE_URL": database_url, "HARDWON_QUERY_DEADLINE_MS": "20000"}
    ran = Commands(home, settings).python(f"import runpy; runpy.run_path({str(example)!r}, run_name='__main__')")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    attempts = [line for line in ran.stdout.splitlines() if ": attempt " in line]
    assert attempts == [
        "web-shop: attempt 1 fails",
        "web-shop: attempt 2 passes",
        "book-keeping: attempt 1 passes",
    ]
    assert "- Solution: Treat a missing price (None) as zero" in ran.stdout
    assert Commands(home, settings).json("stats")["entries"] == {"embedded": 1}
