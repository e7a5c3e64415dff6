"""No secret is stored of a document or a question, whatever it stands in: names, titles, tags, what was asked of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from dulwich import porcelain
from dulwich.repo import Repo

from hardwon.errors import InvalidInput
from hardwon.models.documents import DocumentType, NewDocument, NewSource
from knowledge.documents.parsing.decode import parse_text
from knowledge.wiring.open import Knowledge
from tests.acceptance.doors.test_secrets import HIDDEN, OTHER, TOKEN, stored
from tests.conftest import Opens
from tests.support.clients import http_of
from tests.support.documents import add, find, readable, writable
from tests.support.secrets import planted, surviving
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = [OF_ONE_LOOP, pytest.mark.own_stores]  # they look for secrets in all that is stored

GUIDE = b"# Pushing\n\nPush to the mirror with the token of the team, and renew it in March.\n"


async def ask(knowledge: Knowledge, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with http_of(knowledge) as client:
        response = await client.post(path, json=body)
    assert response.status_code in {200, 204}, response.text
    told: dict[str, Any] = response.json() if response.content else {}
    return told


@pytest.mark.long
async def test_what_is_told_of_a_document_is_stored_without_secrets(knowledge: Knowledge) -> None:
    new = NewDocument(
        uri=f"notes/{TOKEN}.md",
        content=GUIDE,
        title=f"How {TOKEN} is used",
        category=f"keys {TOKEN}",
        tags=("push", "of bob.miller@contoso-mail.com"),
        link=f"https://wiki.example.org/push?token={TOKEN}",
    )
    added = await knowledge.documents.library.add(new, await writable(knowledge))
    await knowledge.documents.indexing.run()
    document = added.document
    assert (document.uri, document.title) == (f"notes/{HIDDEN}.md", f"How {HIDDEN} is used")
    assert document.tags == ("push", "of [redacted:email]")
    passage = (await find(knowledge, "push to the mirror")).passages[0]
    assert passage.uri == document.uri
    kept = await stored(knowledge)
    assert TOKEN not in kept
    assert "bob.miller" not in kept
    again = await knowledge.documents.library.add(new, await writable(knowledge))
    assert (again.document.document_id, again.changed) == (document.document_id, False)


async def test_the_title_that_a_file_has_inside_is_redacted() -> None:
    told = parse_text("text", DocumentType.TEXT, redacting=True, title=f"push with {TOKEN}")
    assert told.title == f"push with {HIDDEN}"


@pytest.mark.long
async def test_a_document_that_only_names_the_beginning_of_a_key_is_kept_whole(knowledge: Knowledge) -> None:
    """All that came after those words was taken for the key, and dropped."""
    guide = "The file begins with `-----BEGIN PRIVATE KEY-----`.\n\n## Renewing\n\nRun make renew in March.\n"
    document = await add(knowledge, "tls.md", f"# TLS\n\n{guide}".encode(), "user", "ann")
    whole = await knowledge.documents.quotes.whole(await readable(knowledge, "user", "ann"), [document.document_id])
    assert whole[0].text == f"# TLS\n\n{guide}"


@pytest.mark.long
async def test_a_secret_cannot_be_guessed_from_the_hash_of_its_document(knowledge: Knowledge) -> None:
    """Whoever reads what is kept knows all of a text but a weak password: no hash may tell when a guess is right."""
    texts = [
        f"# Db\n\nDB_PASSWORD={secret}\nDB_PORT=5432\n".encode() for secret in ("river-27!Hunter", "Other-93!word")
    ]
    first, second = [await add(knowledge, f"{name}.md", text) for name, text in zip("ab", texts, strict=True)]
    assert "river-27" not in await stored(knowledge)
    same = NewDocument(uri="a.md", content=texts[1])
    added = await knowledge.documents.library.add(same, await writable(knowledge))
    assert not added.changed, "with the secret alone nothing changes that is kept"
    assert added.document.content_hash == first.content_hash != second.content_hash


@pytest.mark.long
async def test_with_redaction_off_all_is_kept_as_it_came(opens: Opens) -> None:
    async with opens(redaction=False) as knowledge:
        document = await add(knowledge, f"{TOKEN}.md", f"# Push\n\nwith {TOKEN}\n".encode())
        assert document.uri == f"{TOKEN}.md"
        await ask(knowledge, "/api/kb/query", {"query": f"who has {TOKEN}?"})
        assert TOKEN in (await knowledge.answering.journal.events())[0].payload["question"]
        told: dict[str, Any] = {"task_id": "T-1", "project_id": "p", "agent_type": "backend"}
        kept = await knowledge.events.task_failed(**told, failure_description=f"push with {TOKEN} fails")
        assert TOKEN in ((await knowledge.capture.get(kept.entry_ids[0])).failure_description or "")


@pytest.mark.own_stores
async def test_an_event_told_again_with_its_secret_comes_to_the_same(knowledge: Knowledge) -> None:
    told: dict[str, Any] = {"task_id": "T-1", "project_id": "p"}
    failed = await knowledge.events.task_failed(**told, agent_type="a", failure_description=f"push with {TOKEN} fails")
    for _ in range(2):
        kept = await knowledge.events.task_solved(**told, solution_steps=f"use {OTHER}", verified_by=f"GH={OTHER} test")
        assert kept.entry_ids == failed.entry_ids
    gate: dict[str, Any] = {"project_id": "p", "gate_type": "review", "task_id": "T-2"}
    turned_down = await knowledge.events.gate_decided(**gate, accepted=False, proposal="x", human_feedback="no keys")
    for _ in range(2):
        kept = await knowledge.events.gate_decided(**gate, accepted=True, approach=f"read {TOKEN} from the vault")
        assert kept.entry_ids == turned_down.entry_ids
    everything = await stored(knowledge)
    assert TOKEN not in everything
    assert OTHER not in everything


@pytest.mark.long
async def test_no_question_is_stored_with_its_secrets(knowledge: Knowledge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await add(knowledge, "push.md", GUIDE)
    secrets = planted(40, seed=5)
    for each in secrets:
        await ask(knowledge, "/api/kb/query", {"query": f"{each.text[:3000]} ?"})
    said = [{"role": "user", "content": f"my token is {TOKEN}"}]
    step = {"question": f"Why is {TOKEN} refused?", "session_id": "s-1", "step_id": "1"}
    context = {"conversation_tail": said, "focus": {"module": TOKEN, TOKEN: "module"}}
    await ask(knowledge, "/subagents/documentation-qa", {**step, "context": context})
    answered = await ask(knowledge, "/api/kb/query", {"query": f"How do I push with {TOKEN}?", "conversation": said})
    assert answered["query"] == f"How do I push with {TOKEN}?", "who asked sees what they asked"
    told = await ask(knowledge, "/api/ask", {"question": f"push with {TOKEN}?", "conversation": said})
    asked = {"question": f"push with {TOKEN}?", "conversation": said}
    await ask(knowledge, "/api/kb/global/-/ask", asked)
    thought = {
        "answer_id": told["answer_id"],
        "up": False,
        "comment": f"{TOKEN} is not mine: ask bob.miller@contoso-mail.com",
    }
    await ask(knowledge, "/api/feedback", thought)
    kept = await stored(knowledge)
    assert [each for each in secrets if each.structured and each in surviving([each], kept)] == []
    assert TOKEN not in kept
    assert "bob.miller" not in kept
    assert TOKEN not in caplog.text
    assert len(await knowledge.answering.journal.escalations(knowledge.answering.clock.now())) == 1
    answer_id = UUID(thought["answer_id"])
    assert await knowledge.answering.journal.feedback_of(answer_id) == (
        False,
        f"{HIDDEN} is not mine: ask [redacted:email]",
    )


@pytest.mark.long
@pytest.mark.own_stores
async def test_two_questions_that_differ_in_a_secret_alone_are_one_to_the_cache(knowledge: Knowledge) -> None:
    """The key of a kept answer is a hash of the question: of the one that is kept, so that no secret can be guessed."""
    await add(knowledge, "push.md", GUIDE)
    for token in (TOKEN, OTHER):
        await ask(knowledge, "/api/kb/query", {"query": f"How do I push with {token}?"})
    events = await knowledge.answering.journal.events(name="question_answered")
    assert sorted(event.payload["cached"] for event in events) == [False, True]
    async with knowledge.engine.connect() as connection:
        assert await connection.scalar(sa.text("SELECT count(*) FROM answer_cache")) == 1


async def test_a_source_that_holds_a_secret_is_refused_by_its_kind(opens: Opens) -> None:
    async with opens(fetch="https://git.example.org/team") as knowledge:
        for new in (
            NewSource(url=f"https://git.example.org/team/{TOKEN}"),
            NewSource(url="https://git.example.org/team/a", branch=TOKEN),
            NewSource(url="https://git.example.org/team/a", subdir=f"docs/{TOKEN}"),
            NewSource(url="https://git.example.org/team/a", globs=("*.md", TOKEN)),
        ):
            with pytest.raises(InvalidInput, match="github-token") as refused:
                await knowledge.kb.add_source("global", None, new)
            assert TOKEN not in str(refused.value)


async def test_files_of_a_repository_are_kept_without_the_secrets_in_their_names(opens: Opens, tmp_path: Path) -> None:
    folder = tmp_path / "mail"
    with Repo.init(str(folder), mkdir=True) as repo:
        for name in ("to bob.miller@contoso-mail.com/1.md", "to ann.smith@contoso-mail.com/1.md", "plain.md"):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("# Mail\n\nThe pool has 40.\n")
            porcelain.add(repo, [str(path)])
        porcelain.commit(repo, message=b"x", author=b"A <a@example.org>", committer=b"A <a@example.org>")
    async with opens(fetch=f"file://{tmp_path}") as knowledge:
        await knowledge.kb.add_source("global", None, NewSource(url=f"file://{folder}"))
        report = (await knowledge.kb.sync("global", None))[0]
        assert (report.added, report.unreadable) == (2, 1), "two names differ in an address alone: one is passed over"
        assert [each.uri for each in await knowledge.kb.list_documents("global", None)] == [
            "mail/plain.md",
            "mail/to [redacted:email]/1.md",
        ]
        again = (await knowledge.kb.sync("global", None))[0]
        assert (again.added, again.deleted, again.unchanged) == (0, 0, 2)
        kept = await stored(knowledge)
        assert "bob.miller" not in kept
        assert "ann.smith" not in kept
