"""Questions in other words than the documents, without a model: what answers is quoted, and the others are declined."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.adapters.local_embedder import LocalEmbedder
from knowledge.documents.models import AnswerStatus
from knowledge.wiring import Knowledge
from orchestrator.tools.wrappers import AnswerFromGlobalKB
from tests.conftest import Opens
from tests.support.documents import ADMIN, put

RUNBOOK = """# Sluice runbook

Sluice lets orders flow from the shop to the mill.

## Codes

### SLC-301

The gate closed before the load was weighed. Halve the load and send it again.

### SLC-302

The weight of a load is wrong. Never send such a load again.

## Retention

Loads are kept for three weeks.

## Restarting

1. Empty the gate with `sluicectl empty`.
2. Restart the unit: `systemctl restart sluice`.
3. Open the gate with `sluicectl open`.

## Database timeout

When a query of the ledger takes longer than 8 seconds, raise `pool_max` to 60 and restart Sluice.
"""
HANDBOOK = """# On-call handbook

## Owners

| Service | Team | Channel |
| --- | --- | --- |
| payments | Ledger | #ledger-help |
| search | Discovery | #discovery |

## Ports

| Service | Listens on |
| --- | --- |
| redis | 6380 |
| postgres | 5433 |

## May I deploy on a Friday?

Yes, until noon.

## How do I get access to the staging cluster?

Ask your lead to add you to the group `staging-users`.

## Language

We chose Go over Rust, because the team knew it.
"""
SHOP = """# Shop

Orders are published to Kafka. Production runs on eight hosts, each in a cellar of its own. The dashboards of the shop
are in the folder Shop. A cart holds at most 75 items.
"""

ANSWERED = (
    ("What does SLC-301 mean?", "gate closed"),
    ("What should I do about SLC-301?", "Halve the load"),
    ("What is the meaning of SLC-302?", "weight of a load"),
    ("Who owns payments?", "Ledger"),
    ("Which port does redis use?", "6380"),
    ("How many items are allowed in a cart?", "75"),
    ("What is the retension of loads?", "three weeks"),
    ("How do I restrat Sluice?", "sluicectl empty"),
    ("Who owns paymnets?", "Ledger"),
    ("Which port does postgers listen on?", "5433"),
    ("Where are the dashbords?", "folder Shop"),
    ("May I deploy on a Friday?", "until noon"),
)
DECLINED = (
    "What does SLC-303 mean?",
    "What does SLX-901 mean?",
    "Who owns invoices?",
    "Who owns shipping?",
    "Which port does kafka listen on?",
    "Which port does mongodb use?",
    "May I deploy on a Sunday?",
    "How do I get access to the production cluster?",
    "How many items are allowed in a parcel?",
    "Where are the dashes?",
)


@pytest.fixture
async def written(opens: Opens) -> AsyncIterator[Knowledge]:
    async with opens(embedder=LocalEmbedder()) as opened:
        for uri, text in (("sluice.md", RUNBOOK), ("oncall.md", HANDBOOK), ("shop.md", SHOP)):
            await put(opened, uri, text.encode())
        await opened.documents.indexing.run()
        yield opened


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
