"""Each example as it stands: the second project gets what the first one learned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardwon.errors import BUNDLED_MODEL
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.py"))
STEPS = "Treat a missing price (None) as zero: sum(price or 0 for price in prices)"
NAIVE = {"code": "def total(prices): return sum(prices)", "steps": "Add the prices up"}
MENDED = {"code": "def total(prices): return sum(price or 0 for price in prices)", "steps": STEPS}


def write_code(instructions: str, asked: str) -> str:
    """Answer as a model does that knows no better than what it is told, or has just seen fail."""
    knows = "as zero" in instructions or "NoneType" in asked
    return json.dumps(MENDED if knows else NAIVE)


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer(says=write_code) as server:
        yield server


def test_all_three_integrations_are_shown() -> None:
    assert [example.stem for example in EXAMPLES] == ["langgraph_loop", "openai_agents", "plain_asyncio"]


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_the_second_project_told_what_the_first_one_learned(
    home: Path, database_url: str, model: OpenAIServer, example: Path
) -> None:
    settings = {
        "HARDWON_DATABASE_URL": database_url,
        "HARDWON_QUERY_DEADLINE_MS": "20000",
        "HARDWON_EMBEDDING_MODEL": BUNDLED_MODEL,
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": model.key,
        "LANGSMITH_TRACING": "false",
    }
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
    assert len(model.chats) == (3 if example.stem == "openai_agents" else 0)
