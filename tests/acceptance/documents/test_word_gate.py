"""A chat model is not asked what the documents lack words for: one rule at every door, with a model and without."""

from __future__ import annotations

import pytest

from knowledge.documents.models import AnswerStatus
from orchestrator.qa.wrappers import AnswerFromGlobalKB
from tests.acceptance.documents.test_document_tools import with_model
from tests.conftest import Opens
from tests.support.answering import quotes_line_with
from tests.support.cases import over
from tests.support.documents import ADMIN, add
from tests.support.openai_server import OpenAIServer
from tests.support.sharing import OF_ONE_LOOP, opens, own, shared

__all__ = ["opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

POOL = b"""# Pool

The default pool mode is session. A client waits 40 seconds for a server of the pool.

## Staging

In staging the pool holds 5 servers.
"""


@pytest.mark.long
@pytest.mark.parametrize("asked", ["What is the default pool mode of dropbear?", "What is the pool mode of 9.4?"])
async def test_a_model_is_not_asked_for_what_nothing_found_names(opens: Opens, asked: str) -> None:
    with OpenAIServer(says=quotes_line_with("pool mode")) as server:
        async with opens(**with_model(server)) as knowledge:
            await add(knowledge, "pool.md", POOL)
            answer = await AnswerFromGlobalKB(knowledge.answering, ADMIN).answer(None, asked)
    assert answer.status is AnswerStatus.NOT_FOUND
    assert answer.lacking == (asked.rstrip("?").split()[-1],)
    assert not answer.extractive
    assert answer.nearest is not None
    assert server.chats == []


@over(
    "asked",
    [
        "What is the default pool mode?",
        "How many servers does the pool hold in staging, and what is its default mode?",
        "Quel mode utilise pgbouncer ici chez nous?",
    ],
)
async def test_a_model_is_asked_for_what_is_named_for_several_things_and_in_other_languages(
    opens: Opens, asked: str
) -> None:
    with OpenAIServer(says=quotes_line_with("pool mode")) as server:
        async with opens(**with_model(server)) as knowledge:
            await add(knowledge, "pool.md", POOL)
            answer = await AnswerFromGlobalKB(knowledge.answering, ADMIN).answer(None, asked)
    assert answer.status is AnswerStatus.ANSWERED
    assert server.chats
