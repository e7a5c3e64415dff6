"""Documents and maps of the seeded site: some that answer, one that cannot be read, and hostile ones."""

from __future__ import annotations

from collections.abc import Sequence

from hardwon.models.documents import NewDocument
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.wiring.open import Knowledge

RETENTION = """# Data retention

## Bookkeeping

Customer master data goes after 90 days. Invoices and their attachments stay for ten years, counted from the end of the
year in which the contract ended. Nothing else of a customer is kept.

## Backups

Backups are made at three in the morning and kept for 35 days.
"""
PRICING = "# Pricing\n\nYearly plans cost ten months. A plan can be cancelled at the end of each month.\n"
HANDBOOK = "# Betriebshandbuch\n\nDer Jahreslauf entfernt Belege, deren Aufbewahrungsfrist abgelaufen ist.\n"


async def fill_documents(knowledge: Knowledge, hostile: Sequence[str] = ()) -> None:
    """Add documents to everyone's knowledge base, index them, and make the map."""
    given = [
        ("data-retention.md", RETENTION.encode()),
        ("pricing.md", PRICING.encode()),
        ("Betriebshandbuch.md", HANDBOOK.encode()),
        ("scan-contract-old.bin", bytes(range(256)) * 20),
        *((f"hostile-{at}.md", f"# {text[:500]}\n\nInvoices {text}\n".encode()) for at, text in enumerate(hostile)),
    ]
    for uri, content in given:
        await knowledge.kb.add("global", None, NewDocument(uri=uri, content=content))
    await knowledge.kb.index()
    await knowledge.maps.project()


async def fill_site(knowledge: Knowledge, hostile: Sequence[str]) -> None:
    """Add documents to the default workspace, and hostile ones to `hostile`."""
    await fill_documents(knowledge.in_workspace(DEFAULT_WORKSPACE))
    await fill_documents(knowledge.in_workspace("hostile"), hostile)
