"""One failure and its fix in the transcripts of six coding agents are one pattern, found however it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import Commands
from tests.unit.orchestrator.sessions.test_real_runs import CASES

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "agents"
TOLD_BY = {
    "claude-code": CASES / "claude-code" / "session.jsonl",
    "codex": CASES / "codex" / "rollout-main.jsonl",
    "gemini-cli": CASES / "gemini-cli" / "session.jsonl",
    "opencode": CASES / "opencode" / "db-parts.jsonl",
    "qwen-code": SAMPLES / "qwen_code_main.jsonl",
    "copilot-cli": SAMPLES / "copilot_cli_main.jsonl",
}
QUESTIONS = (
    ("failure", "test_missing_price_counts_as_zero"),
    ("failure", "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"),
    ("task", "Cart total crashes if an item has no price"),
    ("task", "Make the total of the cart treat a missing price as zero"),
)


@pytest.mark.long
def test_six_tellings_of_one_failure_are_one_pattern_that_comes_first(database_url: str, home: Path) -> None:
    """With the bundled model, whose reading of a paraphrase is what is tested."""
    if not CASES.is_dir():
        pytest.skip("the transcripts of real tools are not beside the checkout")
    settings = {"HARDWON_DATABASE_URL": database_url, "HARDWON_QUERY_DEADLINE_MS": "30000"}
    commands = Commands(home, settings)
    with commands.serving():
        ask(commands)


def ask(beside: Commands) -> None:
    learned = beside.here("learn", "sessions", *TOLD_BY.values(), "--project", "shop")
    assert [each["outcome"] for each in learned["entries"]].count("refused") == 0
    report = beside.here("checkpoint", "--all")
    assert (report["embedded"], report["founded"]) == (6, 1)
    for kind, question in QUESTIONS:
        answer = beside.here("query", kind, question)
        assert [each["success_count"] for each in answer["patterns"][:1]] == [6], (question, answer)
    assert beside.here("query", "failure", "the login page answers slowly")["patterns"] == []
