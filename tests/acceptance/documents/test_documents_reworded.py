"""Questions in other words than the documents, without a model: what answers is quoted, and the others are declined."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.documents.models import AnswerStatus
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromGlobalKB
from tests.conftest import Opens
from tests.support.cases import load_tables, read_sample
from tests.support.documents import ADMIN, put

RUNBOOK = read_sample("documents_reworded_runbook.txt")
HANDBOOK = read_sample("documents_reworded_handbook.txt")
SHOP = """# Shop

Orders are published to Kafka. Production runs on eight hosts, each in a cellar of its own. The dashboards of the shop
are in the folder Shop. A cart holds at most 75 items.
"""
NOTES = read_sample("documents_reworded_notes.txt")
REPORT = read_sample("documents_reworded_report.txt")
BELTS = read_sample("documents_reworded_belts.txt")

ANSWERED = tuple(load_tables("test_documents_reworded")["ANSWERED"])
DECLINED = tuple(load_tables("test_documents_reworded")["DECLINED"])


@pytest.fixture
async def written(opens: Opens) -> AsyncIterator[Knowledge]:
    texts = {"sluice.md": RUNBOOK, "oncall.md": HANDBOOK, "shop.md": SHOP}
    texts |= {"notes.md": NOTES, "report.md": REPORT, "belts.toml": BELTS}
    async with opens(embedder=LocalEmbedder()) as opened:
        for uri, text in texts.items():
            await put(opened, uri, text.encode())
        await opened.documents.indexing.run()
        yield opened


@pytest.mark.long
async def test_reworded_and_misspelt_questions_are_answered_and_near_ones_declined(written: Knowledge) -> None:
    tool = AnswerFromGlobalKB(written.answering, ADMIN)
    wrong = []
    for question, told in (*ANSWERED, *((each, None) for each in DECLINED)):
        answer = await tool.answer(None, question)
        said = " ".join(claim.text for claim in answer.claims)
        answered = answer.status is AnswerStatus.ANSWERED
        if answered != (told is not None) or (told or "") not in said:
            wrong.append((question, answer.metrics.get("sure"), said))
        if "retension" in question:
            assert "read 'retension' as 'retention'" in answer.trace
            assert answer.searched == (question, "What is the retention of loads?")
    assert not wrong
