"""Documents for tests: adding and indexing them in one go, and logs whose lines are counted as they are written."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hardwon.models.documents import Document, Finding, NewDocument
from knowledge.documents.access import Permission, Principal, Scope
from knowledge.documents.models import Query
from knowledge.wiring.open import Knowledge
from tests.support.cases import read_sample

ADMIN = Principal(name="root", admin=True)

GUIDE = read_sample("documents_guide.txt").encode()


async def writable(knowledge: Knowledge, kb: str = "global", scope_id: str | None = None) -> Scope:
    return await knowledge.documents.access.scope(ADMIN, kb, scope_id, permission=Permission.WRITE)


async def readable(knowledge: Knowledge, kb: str = "global", scope_id: str | None = None) -> Scope:
    return await knowledge.documents.access.scope(ADMIN, kb, scope_id)


async def put(
    knowledge: Knowledge, uri: str, content: bytes, kb: str = "global", scope_id: str | None = None
) -> Document:
    """Add a document; it is not indexed."""
    scope = await writable(knowledge, kb, scope_id)
    return (await knowledge.documents.library.add(NewDocument(uri=uri, content=content), scope)).document


async def add(
    knowledge: Knowledge, uri: str, content: bytes, kb: str = "global", scope_id: str | None = None
) -> Document:
    """Add a document and index it."""
    document = await put(knowledge, uri, content, kb, scope_id)
    report = await knowledge.documents.indexing.run()
    assert (report.failed, report.postponed) == (0, 0)
    scope = await writable(knowledge, kb, scope_id)
    return await knowledge.documents.library.documents.get(scope.partitions[0], document.document_id)


async def shown_points(knowledge: Knowledge) -> int:
    """Return how many points the index is to hold."""
    standing = await knowledge.documents.indexing.store.index_membership(after=None, limit=100_000)
    return sum(standing.values())


async def find(
    knowledge: Knowledge, question: str, kb: str = "global", scope_id: str | None = None, *, k: int = 5
) -> Finding:
    return await knowledge.documents.search.search(
        Query(question=question, k=k), await readable(knowledge, kb, scope_id)
    )


@dataclass
class WrittenLog:
    """A log with what is true of it."""

    text: str
    severities: Counter[str]
    lines: list[str]
    first: dict[str, datetime] = field(default_factory=dict)
    last: dict[str, datetime] = field(default_factory=dict)
    terms: Counter[str] = field(default_factory=Counter)
    templates: Counter[str] = field(default_factory=Counter)


def write_log(count: int, rng: random.Random) -> WrittenLog:
    """Return a log of so many lines; a fiftieth of them are stack traces, without time or severity."""
    at = datetime(2025, 10, 19, 14, 0, 0, tzinfo=UTC)
    paths = ["/api/payment", "/api/orders", "/api/users", "/health"]
    names = ["DEBUG"] * 10 + ["INFO"] * 60 + ["WARN"] * 20 + ["ERROR"] * 9 + ["CRITICAL"]
    written = WrittenLog(text="", severities=Counter(), lines=[])
    for number in range(count):
        if rng.random() < 0.02:
            written.lines.append(f"    at com.example.Pool.take(Pool.java:{number % 97})")
            written.severities[""] += 1
            continue
        at += timedelta(milliseconds=rng.randrange(1, 3000))
        name, path = rng.choice(names), rng.choice(paths)
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        written.lines.append(f"{stamp} {name} [worker-{rng.randrange(8)}] GET {path} took {rng.randrange(900)} ms")
        written.severities[name] += 1
        written.terms[path] += 1
        written.first.setdefault(name, at.replace(microsecond=at.microsecond // 1000 * 1000))
        written.last[name] = at.replace(microsecond=at.microsecond // 1000 * 1000)
    written.text = "\n".join(written.lines) + "\n"
    return written
