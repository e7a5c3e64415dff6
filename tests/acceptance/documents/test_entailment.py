"""Claims that quote rightly and still do not follow: what a model is asked of them, where that is asked for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from knowledge.documents.answering.entailment import PROMPT
from knowledge.documents.models import Answer, AnswerStatus
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromGlobalKB
from tests.acceptance.documents.test_document_tools import with_model
from tests.conftest import Opens
from tests.support.answering import answered
from tests.support.documents import ADMIN, add
from tests.support.openai_server import OpenAIServer
from tests.support.sharing import OF_ONE_LOOP, opens, own, shared

__all__ = ["opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

TEXT = b"# Backups\n\nAnn restores the backup of Bob. The night job makes backups if the flag is set.\n"
RIGHT = ("Ann restores the backup of Bob.", [(1, "Ann restores the backup of Bob.")])
TURNED = ("Bob restores the backup of Ann.", [(1, "Ann restores the backup of Bob.")])
"""All its words stand in what it quotes, and it says the opposite: no rule on words finds that."""


class Judging:
    """An endpoint that writes both claims, and judges them as it is told to."""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)
        self.judged: list[dict[str, Any]] = []
        self.written = 0

    def __call__(self, instructions: str, text: str) -> str:
        if instructions == PROMPT:
            self.judged.append(json.loads(text))
            return self.verdicts.pop(0) if self.verdicts else '{"follow": []}'
        self.written += 1
        return answered(RIGHT, TURNED)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        # a retry of a draft is a conversation of several turns
        running.converses = lambda asked: {"content": running.says(*(m["content"] for m in asked["messages"][:2]))}
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def knowledge(opens: Opens, server: OpenAIServer) -> AsyncIterator[Knowledge]:
    async with opens(**with_model(server), verify_entailment=True) as opened:
        await add(opened, "backups.md", TEXT)
        yield opened


async def ask(knowledge: Knowledge, question: str = "Who restores the backup of Bob?") -> Answer:
    return await AnswerFromGlobalKB(knowledge.answering, ADMIN).answer(None, question)


@pytest.mark.long
async def test_a_claim_that_does_not_follow_is_dropped_though_its_quote_is_real(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    """D5: the limit of the rules, and the way past it."""
    judging = Judging()
    server.says = judging
    answer = await ask(knowledge)
    assert [claim.text for claim in answer.claims] == [RIGHT[0]]
    assert [citation.quote for citation in answer.citations] == [RIGHT[0]]
    assert any("does not follow from what it quotes" in line for line in answer.trace)
    assert judging.written == 2, "the model is told why, once"
    (first, *_) = judging.judged
    assert first["question"] == "Who restores the backup of Bob?"
    assert first["claims"] == [{"claim": 1, "text": TURNED[0], "quotes": [RIGHT[0]]}], "the other is what it quotes"


async def test_what_was_asked_for_is_not_passed_over_where_the_verdict_cannot_be_read(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    server.says = Judging("hm", '{"follow": [1, 2, 9]}')
    assert len((await ask(knowledge)).claims) == 2, "asked once more"
    server.says = Judging(*["hm"] * 9)
    answer = await ask(knowledge, "Who restores backups?")
    assert [claim.text for claim in answer.claims] == [RIGHT[0]]


async def test_nothing_is_judged_unless_it_is_asked_for_and_no_answer_of_before_is_given_after(
    knowledge: Knowledge, opens: Opens, server: OpenAIServer
) -> None:
    kept, judging = await ask(knowledge), Judging()
    server.says = judging
    assert kept.status is AnswerStatus.NOT_FOUND
    plainly = knowledge.answering.answerer.__class__(
        quotes=knowledge.answering.answerer.quotes,
        drafter=knowledge.answering.answerer.drafter,
        rewriter=knowledge.answering.answerer.rewriter,
        cache=knowledge.answering.cache,
    )
    object.__setattr__(knowledge.answering, "answerer", plainly)
    answer = await ask(knowledge)
    assert (len(answer.claims), answer.cached, judging.judged) == (2, False, [])
