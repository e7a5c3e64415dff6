"""A procedure is told whole without a model, or with a sign that there is more: never some of its steps as if all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.documents.extraction import extractor
from knowledge.documents.models import Answer, AnswerStatus
from orchestrator.qa.wrappers import AnswerFromGlobalKB
from tests.conftest import Opens
from tests.support.cases import read_sample
from tests.support.documents import ADMIN, put

RESTORE = (
    "1. Stop the application: `svc stop app`.",
    "2. Take the newest dump from the bucket of dumps.",
    "3. Create an empty database: `createdb app`.",
    "4. Load the dump into the database: `pg_restore -d app dump`.",
    "5. Check the number of orders in the database against the report.",
    "6. Start the application: `svc start app`.",
)
RUNBOOK = read_sample("procedures_quoted_runbook.txt")


async def ask(opens: Opens, question: str, text: str) -> Answer:
    (answer,) = await ask_each(opens, [question], text)
    return answer


async def ask_each(opens: Opens, questions: Iterable[str], text: str) -> list[Answer]:
    async with opens(embedder=LocalEmbedder()) as opened:
        await put(opened, "runbook.md", text.encode())
        await opened.documents.indexing.run()
        answers = [await AnswerFromGlobalKB(opened.answering, ADMIN).answer(None, each) for each in questions]
    assert {answer.status for answer in answers} == {AnswerStatus.ANSWERED}, answers
    return answers


def told(answer: Answer) -> str:
    assert all(each.quote in RUNBOOK.format(steps="\n".join(RESTORE)) for each in answer.citations)
    return "\n".join(claim.text for claim in answer.claims)


@pytest.mark.long
async def test_whoever_asks_how_something_is_done_is_told_all_of_its_steps(opens: Opens) -> None:
    ends = {
        "How do I restore the database?": ("1. Stop the app", "6. Start the app"),
        "What should I do when the disk is full?": ("1. Move the old logs", "4. Commit the change"),
        "How can I change a setting of the service?": ("1. Edit the file", "4. Commit the settings"),
        "How do I rotate the keys?": ("- Make a new key", "- Commit the list"),
    }
    text = RUNBOOK.format(steps="\n".join(RESTORE))
    for (question, (first, last)), answer in zip(ends.items(), await ask_each(opens, ends, text), strict=True):
        said = told(answer)
        assert text[text.index(first) : text.index(last) + len(last)] in said, (question, said)


async def test_without_looking_for_lists_steps_are_missing(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractor, "with_whole_lists", lambda chosen, *_: chosen)
    said = told(await ask(opens, "How do I restore the database?", RUNBOOK.format(steps="\n".join(RESTORE))))
    assert not all(step in said for step in RESTORE)
