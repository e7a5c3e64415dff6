"""Models that find anything alike rank, and keep silence, as the bundled one does: by what they make of three texts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge import Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge
from orchestrator import OrchestratorContextBuilder
from tests.acceptance.memory.test_the_loop import fail
from tests.support.cases import load_tables
from tests.support.openai_server import OpenAIServer

CROWD = 0.8
PLACES = tuple(load_tables("test_other_models")["PLACES"])
TROUBLES = (
    "shows amounts in the wrong currency when the customer changes country",
    "loses its entries after the nightly migration of the database",
)


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with OpenAIServer(dims=256, crowd=CROWD) as server:
        yield server


@pytest.fixture
def remote(settings: KnowledgeSettings, endpoint: OpenAIServer) -> KnowledgeSettings:
    return endpoint.serving(settings, "crowded-model")


async def test_a_model_that_finds_anything_alike_tells_the_right_pattern_and_else_nothing(
    remote: KnowledgeSettings,
) -> None:
    async with open_knowledge(remote) as knowledge:
        for place in PLACES:
            for trouble in TROUBLES:
                told = f"The {place} {trouble}"
                await fail(knowledge, failure_description=told, solution_steps=f"mend: {told}", task_id=told)
        assert (await knowledge.checkpoints.process_all()).embedded == len(PLACES) * len(TROUBLES)
        known = "The invoice loses entries after a migration of the database at night"
        strange = (
            "The poster shows its fonts in the wrong size when the customer prints after a migration of the printer"
        )

        found = await knowledge.queries.query_for_failure(known)
        assert found[0].solution == "mend: The invoice loses its entries after the nightly migration of the database"
        build = OrchestratorContextBuilder(knowledge).build_context_for_task
        assert (await build(Task(description=known, type="bugfix"), "backend")).patterns
        context = await build(Task(description=strange, type="bugfix"), "backend")
        assert (context.patterns, context.degraded) == ((), None)
