"""Questions in other words than the documents, without a model: what answers is quoted, and the others are declined."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.documents.models import AnswerStatus
from knowledge.wiring.open import Knowledge
from orchestrator.qa.wrappers import AnswerFromGlobalKB
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
NOTES = """# Release notes of millctl

## 3.1.0 - 2025-04-02

### Added

- `millctl weigh` prints the weight of a load.

### Fixed

- A gate that is opened twice no longer leaks a lease.

## 3.0.0 - 2025-01-20

### Removed

- The `millctl shake` command.

### Changed

- The default speed is 40 turns a minute.
"""
REPORT = """# The stop of the mill in May

The mill in Bremen stood still for 35 minutes. The mill in Kassel was not affected.

| Action | Owner | Due | Ticket |
| --- | --- | --- | --- |
| Check the fuse of the belt | Ruth | 2025-06-03 | MIL-77 |
| Paint the door of the shed | Jonas | 2025-07-14 | MIL-78 |

The call of the first shift is paid 90 EUR, that of the secondary 40 EUR.

## Options of the belt

- `slow_start` (boolean): takes up the belt within a minute.
- `reverse` (boolean): lets the belt run backwards.
"""
BELTS = """[belt.north]
speed_min = 12
load_kg = 900

[belt.south]
speed_min = 15
volts = 400
"""

ANSWERED = (
    ("What does SLC-301 mean?", "gate closed"),
    ("What should I do about SLC-301?", "Halve the load"),
    ("Who owns payments?", "Ledger"),
    ("How many items are allowed in a cart?", "75"),
    ("What is the retension of loads?", "three weeks"),
    ("Who owns paymnets?", "Ledger"),
    ("May I deploy on a Friday?", "until noon"),
    ("When was millctl 3.0.0 released?", "2025-01-20"),
    ("How long did the mill in Bremen stand still?", "35 minutes"),
    ("What does slow_start do?", "within a minute"),
    ("What is the minimum speed of the north belt?", "speed_min = 12"),
)
DECLINED = (
    "What does SLC-303 mean?",
    "Who owns invoices?",
    "Which port does kafka listen on?",
    "May I deploy on a Sunday?",
    "How many items are allowed in a parcel?",
    "What was deprecated in millctl 3.0.0?",
    "When was millctl 3.2.0 released?",
    "How long did the mill in Verden stand still?",
    "How much does the mill in Bremen cost?",
    "What is the maximum speed of the north belt?",
)


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
