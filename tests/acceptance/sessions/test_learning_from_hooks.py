"""What a hook notes in the spool is learned by the server, once, and the spool is empty afterwards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from knowledge.wiring.open import Knowledge
from orchestrator.agent_hooks.shim import hooks_folder
from orchestrator.agent_hooks.spool import pending_sessions
from orchestrator.server.session_learning import learn_from_hooks, learn_pending
from tests.acceptance.sessions.test_learn_sessions import AGAIN, EDIT, FAIL, PASS, write


def note(home: Path, transcript: Path) -> None:
    """Append the line that a hook appends."""
    spool = hooks_folder(home) / "spool.jsonl"
    spool.parent.mkdir(parents=True, exist_ok=True)
    line = {
        "at": 1_790_000_000,
        "tool": "claude-code",
        "event": "Stop",
        "session_id": "one",
        "transcript_path": str(transcript),
        "cwd": "",
    }
    with spool.open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.mark.long
async def test_a_session_with_news_is_learned_once_and_again_when_it_goes_on(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    home, transcript = tmp_path / "home", write(tmp_path / "a.jsonl", [FAIL, EDIT, PASS])
    assert await learn_pending(knowledge, home) == 0, "nothing was noted yet"
    note(home, transcript)
    note(home, tmp_path / "gone.jsonl")
    assert await learn_pending(knowledge, tmp_path / "none") == 0
    assert await learn_pending(knowledge, home) == 1
    assert pending_sessions(home) == []
    note(home, transcript)
    assert await learn_pending(knowledge, home) == 0, "it is known"
    (waiting, *_) = [await knowledge.checkpoints.process_all()]
    assert waiting.embedded == 1
    note(home, write(tmp_path / "b.jsonl", [FAIL, EDIT, PASS, AGAIN], "two"))
    assert await learn_pending(knowledge, home) >= 1
    note(home, tmp_path / "gone.jsonl")
    assert await learn_pending(knowledge, home) == 0
    assert list(hooks_folder(home).glob("spool*")) == [], "what led nowhere is not kept for good"


@pytest.mark.long
async def test_a_server_looks_into_the_spool_by_itself_and_outlives_what_it_cannot_read(
    knowledge: Knowledge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.server.session_learning.POLL_SECONDS", 0.05)
    home = tmp_path / "home"
    (home / "sessions.sqlite3").mkdir(parents=True)
    note(home, write(tmp_path / "a.jsonl", [FAIL, EDIT, PASS]))
    async with learn_from_hooks(knowledge, home):
        await asyncio.sleep(0.2)
        assert pending_sessions(home) != [], "what is not learned stays noted"
        (home / "sessions.sqlite3").rmdir()
        for _ in range(400):
            if not pending_sessions(home):
                break
            await asyncio.sleep(0.05)
    assert (await knowledge.checkpoints.process_all()).embedded == 1
