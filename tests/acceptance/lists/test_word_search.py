"""Search by words: what a word finds before and after a checkpoint, what its index holds, and who sees it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from hardwon.errors import InvalidInput
from knowledge.adapters.postgres.engine.database import autocommit, engine_of_workspace, transaction
from knowledge.adapters.postgres.lists import words as searching
from knowledge.models import EntryId, NewEntry
from knowledge.wiring.open import Knowledge
from tests.support.entries import capture, failure, learn, rejection
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP


def _told(text: str) -> NewEntry:
    return failure(failure_description=text, solution_steps="Mend it", task_id=text[:9])


TEXTS = {
    "price": _told("KeyError: the price is missing"),
    "module": _told("No module named app.db_rows in /srv/app/db_rows.py"),
    "street": _told("Die Straße ist GESPERRT, Ölpreis unbekannt"),
    "chinese": _told("数据库连接失败"),
    "long": _told(f"checksum {'abcdefghij' * 7}end of {'x' * 3000}"),
    "gate": rejection(human_feedback="100% of the_rows are locked"),
}
FOUND = {
    "price": ["price"],
    "PRI": ["price"],
    "rice": [],
    "price: missing,": ["price"],
    "missing keyerr": ["price"],
    "missing module": [],
    "app.db": ["module"],
    "db.app": [],
    "db_rows.py": ["module"],
    "rows": ["module", "gate"],
    "db%rows": [],
    "rows \\": [],
    "(100%)": ["gate"],
    "straße": ["street"],
    "gesp öl": ["street"],
    "连接": ["chinese"],
    "接连": [],
    "abcdefghij" * 7: ["long"],
    "abcdefghij" * 6 + "b": [],
    "x" * 80: ["long"],
    "mend": ["price", "module", "street", "chinese", "long"],
    "of '' ; -- \"": [],
}
"""The texts that a search finds."""


async def _find(knowledge: Knowledge, by_id: dict[EntryId, str], q: str) -> list[str]:
    found = {by_id[entry.entry_id] for entry in await knowledge.lists.entries(q=q)}
    return [name for name in TEXTS if name in found]


@pytest.mark.long
async def test_words_find_the_same_before_a_checkpoint_and_after_and_however_many_there_are(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_id = dict(zip(await capture(knowledge, *TEXTS.values()), TEXTS, strict=True))
    assert {q: await _find(knowledge, by_id, q) for q in FOUND} == FOUND
    await knowledge.checkpoints.process_all()
    assert {q: await _find(knowledge, by_id, q) for q in FOUND} == FOUND
    by_pattern = {(await knowledge.capture.get(each)).pattern_id: name for each, name in by_id.items()}
    for q, names in FOUND.items():
        assert {by_pattern[each.pattern_id] for each in await knowledge.lists.patterns(q=q)} == set(names), q
    await capture(knowledge, _told("An early price"))
    monkeypatch.setattr(searching, "_FEW", 0)
    assert len(await knowledge.lists.entries(q="price")) == 2
    assert len(await knowledge.lists.entries(q="pric", status="embedded")) == 1
    assert len(await knowledge.lists.entries(q="pric", status="staged")) == 1
    assert await _find(knowledge, by_id, "app.db") == ["module"]
    assert await _find(knowledge, by_id, "db%rows") == []


async def test_signs_alone_are_refused(knowledge: Knowledge) -> None:
    for listed in (knowledge.lists.entries, knowledge.lists.patterns):
        with pytest.raises(InvalidInput, match=r"^q: has no letter and no digit to look for$"):
            await listed(q="-> %")


async def _lexemes(knowledge: Knowledge) -> str:
    """Return all that is stored for searches in a workspace."""
    query = sa.text("SELECT coalesce(string_agg(words::text, ' '), '') FROM entry_words WHERE workspace = :ours")
    async with autocommit(knowledge.engine) as connection:
        return str(await connection.scalar(query, {"ours": knowledge.workspace}))


async def test_words_go_with_their_text(knowledge: Knowledge) -> None:
    first, second, third = await learn(
        knowledge,
        *(failure(failure_description=f"Thing is {word}", task_id=word) for word in ("alpha", "bravo", "gamma")),
    )
    stored = await _lexemes(knowledge)
    assert [word for word in ("alpha", "bravo", "gamma") if word in stored] == ["alpha", "bravo", "gamma"]
    await knowledge.corrections.correct(first, failure_description="Thing is delta")
    await knowledge.capture.delete(second)
    stored = await _lexemes(knowledge)
    assert [word for word in ("alpha", "bravo", "gamma", "delta") if word in stored] == ["gamma", "delta"]
    async with transaction(knowledge.engine) as connection:  # as a redaction of what is stored does
        redacted = "UPDATE knowledge_staging SET failure_description = 'Thing is [removed]' WHERE id = :id"
        await connection.execute(sa.text(redacted), {"id": third})
    stored = await _lexemes(knowledge)
    assert ("gamma" in stored, "removed" in stored) == (False, True)
    await knowledge.capture.delete_project(failure().project_id)
    assert await _lexemes(knowledge) == ""


async def test_the_index_of_words_is_used_and_shows_one_workspace_alone(knowledge: Knowledge) -> None:
    """Mutant: `security_barrier` or FORCE on the table, and the plan reads the whole of it."""
    other = knowledge.in_workspace(f"{knowledge.workspace}-other")
    await learn(knowledge, failure(failure_description="The zeppelin is ours"))
    await learn(other, failure(failure_description="The zeppelin is theirs"))
    ours = engine_of_workspace(knowledge.engine, knowledge.workspace)
    async with transaction(ours) as connection:
        await connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        match = "FROM entry_search WHERE words @@ search_query(:workspace, 'zeppelin')"
        seen = [
            await connection.scalar(sa.text(f"SELECT count(*) {match}"), {"workspace": each.workspace})
            for each in (knowledge, other)
        ]
        assert seen == [1, 0]
        assert await connection.scalar(sa.text("SELECT count(DISTINCT workspace) FROM entry_words")) == 1
        plan = await connection.execute(sa.text(f"EXPLAIN SELECT 1 {match}"), {"workspace": knowledge.workspace})
        assert "Bitmap Index Scan on ix_entry_words" in "\n".join(plan.scalars())
    async with transaction(knowledge.engine) as connection:
        await connection.execute(sa.text("SET LOCAL ROLE hardwon_app"))
        assert await connection.scalar(sa.text("SELECT count(*) FROM entry_search")) == 0, "without a workspace"
    for statement in ("DELETE FROM entry_search", "CREATE OR REPLACE VIEW entry_search AS SELECT * FROM entry_words"):
        with pytest.raises(DBAPIError, match=r"must be owner|permission denied"):
            async with transaction(ours) as connection:
                await connection.execute(sa.text(statement))
