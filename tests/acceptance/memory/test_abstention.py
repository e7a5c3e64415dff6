"""`hardwon evaluate abstention`: is nothing said of what is not known? And retellings, which silence no lesson."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from hardwon.errors import BUNDLED_MODEL
from knowledge.access.principals import Principal
from knowledge.adapters.embedding.local import LocalEmbedder
from tests.acceptance.memory.test_review import AGENT, LESSON, ORCHESTRATOR, acting, ask
from tests.conftest import Opens
from tests.faults.campaigns import draw_lessons
from tests.support.cases import load_tables
from tests.support.processes import Commands, entry, lines

FAILURES = load_tables("test_abstention")["FAILURES"]
ASKED = {
    "cart": "cart total ignores a coupon once an item was removed",
    "csv": "numbers in the CSV export have a comma instead of a point",
    "import": "worker start: ModuleNotFoundError: No module named 'app.core'",
    "sort": "version 10 is sorted before version 9, as text",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "set"
    made.mkdir()
    (made / "corpus.jsonl").write_text(lines({"id": name, "text": text} for name, text in FAILURES.items()))
    (made / "queries.jsonl").write_text(lines({"id": f"q-{name}", "text": text} for name, text in ASKED.items()))
    (made / "qrels.jsonl").write_text(lines({"query_id": f"q-{name}", "relevant_ids": [name]} for name in ASKED))
    return made


def measured(folder: Path, tmp_path: Path, *more: str) -> dict[str, float]:
    told: dict[str, float] = Commands(tmp_path / "home", {"HARDWON_EMBEDDING_MODEL": BUNDLED_MODEL}).json(
        "evaluate", "abstention", folder, *more
    )
    return told


@pytest.mark.harness
@pytest.mark.long
def test_what_is_known_is_answered_and_what_was_taken_out_is_not(folder: Path, tmp_path: Path) -> None:
    """G: nothing is said when nothing fits. The same questions, with and without the one failure they are about."""
    told = measured(folder, tmp_path)

    assert told == {"queries": 4, "auc": 1.0, "false_injection_rate": 0.0, "false_silence_rate": 0.0}
    assert not (tmp_path / "home").exists()


@pytest.mark.harness
@pytest.mark.long
def test_a_question_whose_answer_was_never_stored_counts_as_silence(folder: Path, tmp_path: Path) -> None:
    (folder / "queries.jsonl").write_text(lines([{"id": "q-cart", "text": "quarterly budget of the football club"}]))

    told = measured(folder, tmp_path, "--limit", "1")

    assert told == {"queries": 1, "auc": 0.5, "false_injection_rate": 0.0, "false_silence_rate": 1.0}


@pytest.mark.harness
@pytest.mark.long
def test_a_query_that_is_to_be_sure_says_nothing_where_a_context_would_say_nothing(
    database_url: str, home: Path
) -> None:
    environment = {"HARDWON_DATABASE_URL": database_url, "HARDWON_EMBEDDING_MODEL": BUNDLED_MODEL}
    commands = Commands(home, environment)
    told = lines(entry(failure_description=text, task_id=name) for name, text in FAILURES.items())
    commands.json("capture", "-", told=told)
    commands.json("checkpoint")
    for text, sure in (("quarterly budget of the football club", False), (ASKED["cart"], True)):
        for kind in ("task", "failure"):
            asked = ("query", kind, text, "--min-relevance", "0")
            assert commands.json(*asked)["patterns"]
            assert bool(commands.json(*asked, "--only-if-sure")["patterns"]) is sure, text


ENDS = ("since Monday", "on the second node", "in staging", "for some customers", "again", "under load")


@pytest.mark.long
@pytest.mark.parametrize("by", [ORCHESTRATOR, AGENT], ids=["trusted", "agent"])
async def test_60_retellings_with_other_ends_leave_the_context_filled(opens: Opens, by: Principal) -> None:
    async with opens(embedder=LocalEmbedder(), holdout=0.0, query_deadline_ms=60_000) as knowledge:
        foreign = [each for each in draw_lessons(random.Random(39), 60) if "invoice" not in each.situation]
        await knowledge.capture.capture_all([each.told(number) for number, each in enumerate(foreign)])
        await knowledge.capture.capture(LESSON.told(100))
        await knowledge.checkpoints.process_all()
        before = {text: await ask(knowledge, text) for text in (LESSON.situation, LESSON.paraphrase)}
        assert all(shown[:1] == [LESSON.solution] for shown in before.values()), before
        retold = [
            replace(
                LESSON.told(200 + number),
                failure_description=f"{LESSON.situation} {ENDS[number % len(ENDS)]}, order {number}",
                solution_steps=f"Replace the amount formatter by version {number}.",
            )
            for number in range(60)
        ]
        await acting(knowledge, by).capture.capture_all(retold)
        await knowledge.checkpoints.process_all()
        assert (await ask(knowledge, LESSON.situation))[:1] == [LESSON.solution]
        assert await ask(knowledge, LESSON.paraphrase)


TWINS = load_tables("test_abstention")["TWINS"]
"""Pairs of situations that look alike, each with its own remedy."""
NEIGHBOURS = (2, 3, 5, 10, 20, 50)


@pytest.mark.long
async def test_the_exact_lesson_comes_before_a_near_twin_however_often_that_one_worked(opens: Opens) -> None:
    first: dict[int, int] = {}
    async with opens(embedder=LocalEmbedder(), holdout=0.0, query_deadline_ms=60_000) as knowledge:

        async def tell(text: str, solution: str, number: int) -> None:
            await knowledge.capture.capture_failure_solution(
                project_id=f"p-{number}",
                agent_type="backend",
                failure_description=text,
                solution_steps=solution,
                success_verified=True,
                verified_by="pytest",
            )

        for exact, own, _, _ in TWINS:
            await tell(exact, own, 0)
        told = 0
        for successes in NEIGHBOURS:
            for _, _, twin, other in TWINS:
                for number in range(told, successes):
                    await tell(twin, other, number)
            told = successes
            await knowledge.checkpoints.process_all()
            found = [(await knowledge.queries.query_for_failure(exact))[0].solution for exact, _, _, _ in TWINS]
            first[successes] = sum(solution == own for solution, (_, own, _, _) in zip(found, TWINS, strict=True))
    assert len(TWINS) == 12
    assert min(first.values()) >= 11, first
