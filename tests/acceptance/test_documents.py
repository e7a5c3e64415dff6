"""Documents from the file to the passage, on the real stores."""

from __future__ import annotations

import pytest

from knowledge.documents.access import Permission, Principal
from knowledge.documents.models import NewDocument, Query
from knowledge.wiring import Knowledge

ADMIN = Principal(name="root", admin=True)

GUIDE = b"""---
title: Database Timeout Runbook
category: runbooks
tags: [database, timeout]
---
# Database timeouts

When the pool is exhausted, raise pool_size to 40 and restart the api.

## Diagnosis

Look for ERR-4521 in the log of the connection pool.

## Holidays

The office is closed on Fridays in August.
"""


async def add(knowledge: Knowledge, uri: str, content: bytes, kb: str = "global", scope_id: str | None = None) -> None:
    scope = await knowledge.documents.access.scope(ADMIN, kb, scope_id, permission=Permission.WRITE)
    added = await knowledge.documents.library.add(NewDocument(uri=uri, content=content), scope)
    assert added.document.error is None
    report = await knowledge.documents.indexing.run()
    assert report.failed == report.postponed == 0


async def test_a_markdown_file_is_indexed_and_found_by_its_words(knowledge: Knowledge) -> None:
    """A0-70, A0-10."""
    await add(knowledge, "guides/timeouts.md", GUIDE)
    scope = await knowledge.documents.access.scope(Principal(name="ann"), "global")
    found = await knowledge.documents.search.search(Query(question="Where do I see ERR-4521?", k=2), scope)
    best = found.passages[0]
    assert best.section == "Database timeouts > Diagnosis"
    assert best.title == "Database Timeout Runbook"
    assert (best.category, best.tags) == ("runbooks", ("database", "timeout"))
    assert GUIDE.decode().splitlines()[(best.line_start or 0) - 1].startswith("## Diagnosis")
    assert GUIDE.decode()[best.char_start : best.char_end] == best.text


@pytest.mark.parametrize("kb", ["user", "case", "team"])
async def test_what_was_added_to_another_scope_is_not_found(knowledge: Knowledge, kb: str) -> None:
    """A0-34, A0-40."""
    await add(knowledge, "timeouts.md", GUIDE, kb, "one")
    for principal, base, scope_id in (
        (Principal(name="two"), "user", "two"),
        (ADMIN, kb, "two"),
        (ADMIN, "global", None),
    ):
        scope = await knowledge.documents.access.scope(principal, base, scope_id)
        found = await knowledge.documents.search.search(Query(question="ERR-4521"), scope)
        assert found.passages == ()
        assert found.empty_scope
