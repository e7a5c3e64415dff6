"""The document tools of S0, end to end on the real stores, with and without a model."""

from __future__ import annotations

import pytest

from knowledge.documents.access import Permission, Principal
from knowledge.documents.models import NewDocument
from knowledge.wiring import Knowledge
from orchestrator.tools import document_tools

ADMIN = Principal(name="root", admin=True)
GUIDE = b"""# Database Timeout Runbook

When the connection pool is exhausted, raise pool_size to 40 and restart the api.

## Diagnosis

Look for ERR-4521 in the log of the connection pool.

## Holidays

The office is closed on Fridays in August.
"""


async def add(knowledge: Knowledge, uri: str, content: bytes, kb: str, scope_id: str | None = None) -> None:
    scope = await knowledge.documents.access.scope(ADMIN, kb, scope_id, permission=Permission.WRITE)
    await knowledge.documents.library.add(NewDocument(uri=uri, content=content), scope)
    await knowledge.documents.indexing.run()


@pytest.mark.parametrize(
    ("kb", "scope_id", "place"), [("case", "7", 0), ("user", "ann", 1), ("global", None, 2), ("team", "x", 3)]
)
async def test_a0_10_a0_20_to_a0_23_each_tool_answers_from_its_own_base(
    knowledge: Knowledge, kb: str, scope_id: str | None, place: int
) -> None:
    await add(knowledge, "runbook.md", GUIDE, kb, scope_id)
    tool = document_tools(knowledge.answering, ADMIN)[place]
    arguments = {"question": "Where do I look for ERR-4521 in the log of the connection pool?"}
    if tool.scope_argument:
        arguments[tool.scope_argument] = scope_id or ""
    answer = await tool.call(arguments)
    assert answer["status"] == "answered", answer
    assert "ERR-4521" in answer["answer"]
    assert answer["extractive"]
    assert answer["citations"][0]["quote"] in GUIDE.decode()
