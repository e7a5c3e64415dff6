"""The design's defects in queries and contexts, each proven absent on the real stores."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest

from hardwon.errors import IdempotencyConflict, IndexUnavailable, NotFound
from knowledge import KnowledgeSettings, Task
from knowledge.adapters.embedding_space import unit
from knowledge.models import Embeddings
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from tests.conftest import Opens, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.entries import CART, approval, failure, learn, rejection
from tests.support.postgres import drop_database
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

TASK = Task(description=CART, type="bugfix", technology="python")


@pytest.fixture
def settings(settings: KnowledgeSettings) -> KnowledgeSettings:
    """No deadline that a busy machine could miss, but where the deadline is what is tested."""
    return settings.model_copy(update={"query_deadline_ms": 30_000})


class Listening(HashingEmbedder):
    """Remembers what it embedded, and as what."""

    def __init__(self) -> None:
        super().__init__(dims=256)
        self.heard: dict[str, list[str]] = {"query": [], "document": []}

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        self.heard[kind] += texts
        return await super().embed(texts, kind)


class Crowded(HashingEmbedder):
    """A model for which all texts lie near each other, as some do: unrelated ones at a cosine of about 0.95."""

    def __init__(self) -> None:
        super().__init__(dims=256, model="crowded")

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        made = await super().embed(texts, kind)
        rows = made.vectors.copy()
        rows[:, 0] += np.float32(4.4)
        return Embeddings(vectors=unit(rows), tokens=made.tokens, truncated=made.truncated)


def solutions(found: Sequence[Any]) -> list[str]:
    return [pattern.solution for pattern in found]


@pytest.mark.long
async def test_a_failure_query_prefers_its_own_task_type_and_fills_up_with_others(knowledge: Knowledge) -> None:
    """D17: the design asked for the task type and ignored it."""
    await learn(
        knowledge,
        failure(solution_steps="as a refactoring", task_type="refactoring"),
        failure(solution_steps="as a bugfix", task_type="bugfix"),
        failure(solution_steps="by another agent", task_type="bugfix", agent_type="frontend"),
    )
    for task_type, first in (("bugfix", "as a bugfix"), ("refactoring", "as a refactoring")):
        found = await knowledge.queries.query_for_failure(CART, None, "backend", task_type)
        assert solutions(found)[0] == first
        assert len(found) == 3, "what fits less fills up"


async def test_failures_and_gate_decisions_are_ranked_in_one_list(knowledge: Knowledge) -> None:
    """D17: the design's two pools never met; one that has no task type at all is still found."""
    await learn(
        knowledge,
        failure(failure_description="Rename the orders table: it locks the shop", solution_steps="Off-peak"),
        rejection(proposal="Rename the orders table in place, it locks", human_feedback="Too risky"),
        approval(project_id="b", proposal="Rename the orders table behind a view", approved_approach="A view"),
    )
    found = await knowledge.queries.query_for_task("Rename the orders table", "backend", "bugfix", min_relevance=0.1)
    assert {pattern.entry_type for pattern in found} == {"failure_solution", "gate_rejection", "gate_approval"}
    strengths = [pattern.relevance for pattern in found]
    assert strengths == sorted(strengths, reverse=True), "the evidence is alike here, so relevance decides"


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_threshold_means_the_same_for_a_model_that_finds_everything_alike(opens: Opens) -> None:
    """D35: 0.7 of a raw cosine is nothing for one model and everything for another."""
    async with opens(embedder=Crowded()) as knowledge:
        words = [f"{a}{b}{c}" for a in "bcdfgh" for b in "aeiou" for c in "klmnprst"]
        texts = [f"{one} {two} {one}{two} broke" for one, two in pairwise(words)]
        await knowledge.capture.capture_all([failure(failure_description=text) for text in texts])
        await knowledge.checkpoints.process_all()
        vectors = await knowledge.stores.embedder.embed(texts[:2], "document")
        assert float(vectors.vectors[0] @ vectors.vectors[1]) > 0.9

        for text in texts[::50]:
            found = await knowledge.queries.query_for_failure(text, max_results=5)
            assert [pattern.problem for pattern in found[:1]] == [text]
            assert found[0].relevance > 0.8
        stranger = await knowledge.queries.query_for_failure("quorum zygote xylophone", min_relevance=0)
        assert stranger[0].relevance < 0.4, "near in cosine, and yet nothing like it"
        assert await knowledge.queries.query_for_failure("quorum zygote xylophone") == []


@pytest.mark.long
async def test_an_index_or_a_database_in_trouble_never_blocks_an_assignment(
    opens: Opens, settings: KnowledgeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D36."""

    async def down(*_: object, **__: object) -> None:
        raise IndexUnavailable("The index is down.")

    async def hangs(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    async with opens(query_deadline_ms=500) as knowledge:
        await learn(knowledge, failure())
        for trouble, reason in ((down, "The index is down."), (hangs, "the index did not answer in time")):
            with monkeypatch.context() as outage:
                outage.setattr(knowledge.stores.index, "search", trouble)
                assert await _degrades(knowledge, replace(TASK, description="Pay by invoice")) == reason
                context = await OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "backend")
                assert len(context.patterns) == 1
                assert context.degraded == f"found by the same text or error alone: {reason}"
        assert settings.database_url is not None
        await drop_database(settings.database_url.get_secret_value())
        await _degrades(knowledge)


async def _degrades(knowledge: Knowledge, task: Task = TASK) -> str:
    """Build a context in an outage; it must be the basic one, soon. Return the reason."""
    began = time.monotonic()
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    assert time.monotonic() - began < 3, "a deadline of half a second, on a busy machine"
    assert context.text == f"Task: {task.description}\nType: bugfix\nTechnology: python"
    assert context.patterns == ()
    assert context.degraded
    return context.degraded


@pytest.mark.long
async def test_a_pattern_has_its_words_and_the_index_holds_none_of_them(
    opens: Opens, settings: KnowledgeSettings
) -> None:
    """D40: the design read problem, solution and when to try from a payload that had none of them."""
    async with opens() as knowledge:
        await learn(
            knowledge,
            failure(error_message="zebrafinch-error", solution_steps="zebrafinch-steps", when_to_try="zebrafinch-when"),
        )
        (found,) = await knowledge.queries.query_for_failure(CART, "zebrafinch-error")
        assert found.problem == f"{CART}\nzebrafinch-error"
        assert (found.solution, found.when_to_try) == ("zebrafinch-steps", "zebrafinch-when")
        assert await knowledge.queries.get(found.pattern_id) == _with_relevance(found)
    files = [file for file in (settings.home / "index").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if b"zebrafinch" in file.read_bytes()]


def _with_relevance(found: Any) -> Any:
    return type(found)(**{name: getattr(found, name) for name in found.__slots__} | {"relevance": 1.0})


async def test_a_question_is_embedded_just_as_what_it_is_to_find_was(opens: Opens) -> None:
    """D41: the design compared a bare description with a whole entry, its solution included."""
    embedder = Listening()
    async with opens(embedder=embedder) as knowledge:
        await learn(
            knowledge,
            failure(error_message="price is missing", task_description="Show the total"),
            rejection(),
            approval(project_id="another"),
        )
        situation = f"{CART}\nprice is missing"
        assert sorted(embedder.heard["document"]) == sorted(
            [
                situation,
                "Show the total",
                "Rename the orders table in place\nThere is no migration plan",
                "Cache the product list in the browser",
            ]
        )
        (found,) = await knowledge.queries.query_for_failure(CART, "price is missing")
        assert found.relevance > 0.9
        (found, *_) = await knowledge.queries.query_for_task("Show the total")
        assert found.relevance > 0.9
        assert embedder.heard["query"] == [situation, "Show the total"]


async def test_nothing_passes_from_one_workspace_to_another(knowledge: Knowledge, clock: SetClock) -> None:
    """D44: the design had no tenant anywhere. The same project, key, task and words, in two workspaces."""
    other = knowledge.in_workspace("other")
    same = {"task_id": "T-1", "run_id": "1", "idempotency_key": "k"}
    (mine,) = await learn(knowledge, failure(**same))
    assert await other.queries.query_for_task(CART, min_relevance=0) == []
    (theirs,) = await learn(other, failure(**same))
    assert mine != theirs
    with pytest.raises(IdempotencyConflict):
        await other.capture.capture(failure(**same | {"solution_steps": "Something else"}))

    (found,) = await knowledge.queries.query_for_failure(CART, min_relevance=0)
    (found_there,) = await other.queries.query_for_failure(CART, min_relevance=0)
    assert (found.entry_ids, found.success_count) == ((mine,), 1)
    assert (found_there.entry_ids, found_there.success_count) == ((theirs,), 1)
    assert found.pattern_id != found_there.pattern_id
    assert [(await each.stats()).points for each in (knowledge, other)] == [1, 1]

    for theft in (other.capture.get(mine), other.capture.delete(mine), other.queries.get(found.pattern_id)):
        with pytest.raises(NotFound):
            await theft
    await other.capture.delete(theirs)
    assert [(await each.stats()).points for each in (knowledge, other)] == [1, 0]
    clock.time = clock.time.replace(year=clock.time.year + 1)
    assert await other.pruning.prune_old_knowledge() == 0
    assert await knowledge.pruning.prune_old_knowledge() == 1
