"""Is everything hardwon stands on well? Each part is looked at on its own, so that no failure hides another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from knowledge.errors import HardwonError
from knowledge.settings import KnowledgeSettings
from orchestrator.connection import connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One part: whether it is well, and what there is to say of it."""

    what: str
    well: bool
    said: str


async def examine() -> list[Finding]:
    """Return the findings, in the order in which parts rest on each other."""
    findings: list[Finding] = []

    async def look(what: str, at: Callable[[], Awaitable[str]]) -> None:
        try:
            findings.append(Finding(what=what, well=True, said=await at()))
        except HardwonError as error:
            findings.append(Finding(what=what, well=False, said=str(error)))

    async def settings() -> str:
        told = KnowledgeSettings()
        model = f"model {told.embedding_model}" + ("" if told.bundled_model else " at an endpoint")
        postgres = "embedded Postgres" if told.embedded_postgres else "a Postgres server"
        index = "embedded engine" if told.embedded_index else f"Qdrant at {told.qdrant_url}"
        return f"data in {told.home}; {postgres}, {index}, {model}"

    async def stores() -> str:
        async with connect() as knowledge:
            stats = await knowledge.stats()
            if stats.points is None:
                raise HardwonError("Postgres answers, the vector index does not")
            entries = sum(stats.entries.values())
            return f"both answer; {entries:,} entries, {stats.patterns:,} patterns, {stats.points:,} points"

    async def embedder() -> str:
        from knowledge.wiring import make_embedder  # noqa: PLC0415 - heavy

        made = make_embedder(KnowledgeSettings())
        try:
            space = await made.space()
            await made.embed(["is it well?"], "query")
        finally:
            await made.aclose()
        return f"{space.model} answers with {space.dims} dimensions (space {space.fingerprint})"

    await look("settings", settings)
    if not findings[0].well:
        return findings
    await look("embedder", embedder)
    await look("stores", stores)
    return findings


async def migrate_now(settings: KnowledgeSettings) -> bool:
    """Bring the schema to this version's head; return whether it changed. With an owner running it is there already."""
    from knowledge.wiring import migrate_stores  # noqa: PLC0415 - heavy

    return await migrate_stores(settings)
