"""Is everything hardwon stands on well? Each part is looked at on its own, so that no failure hides another."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from knowledge.access.authentication import Authenticator
from knowledge.access.pepper import describe_other_pepper
from knowledge.amounts import count_of
from knowledge.errors import AccessDenied, HardwonError, IndexUnavailable
from knowledge.models import RowSecurity
from knowledge.settings import KnowledgeSettings
from orchestrator.client.knowledge_client import KnowledgeClient
from orchestrator.connection import AnyKnowledge, connect

_MAKE_ROLE = "Have an administrator run: CREATE ROLE hardwon_app NOLOGIN; GRANT hardwon_app TO this user; restart"


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

    await look("settings", _settings)
    if not findings[0].well:
        return findings
    settings = KnowledgeSettings()
    if settings.api_url is None:
        await look("embedder", lambda: _embedder(settings))
    async with AsyncExitStack() as stack:

        async def stores() -> str:
            return await _stores(await stack.enter_async_context(connect(settings)), opened)

        opened: list[AnyKnowledge] = []
        await look("stores", stores)
        if opened:
            await look("clocks", lambda: clocks(opened[0]))
            here = opened[0]
            if not isinstance(here, KnowledgeClient):  # a server looks at its own as it starts
                await look("keys", partial(_keys, here.authenticator))
            await look("workspaces", lambda: _workspaces(opened[0]))
            await look("a question", lambda: _question(opened[0]))
    return findings


async def _settings() -> str:
    told = KnowledgeSettings()
    if told.api_url is not None:
        return f"a hardwon server at {told.api_url}"
    model = f"model {told.embedding_model}" + ("" if told.uses_local_model else " at an endpoint")
    postgres = "embedded Postgres" if told.has_embedded_postgres else "a Postgres server"
    index = "embedded engine" if told.has_embedded_index else f"Qdrant at {told.qdrant_url}"
    return f"data in {told.home}; {postgres}, {index}, {model}"


async def _embedder(settings: KnowledgeSettings) -> str:
    from knowledge.wiring import make_embedder  # noqa: PLC0415 - heavy

    made = make_embedder(settings)
    try:
        space = await made.space()
        await made.embed(["is it well?"], "query")
    finally:
        await made.aclose()
    return f"{space.model} answers with {space.dims} dimensions (space {space.fingerprint})"


async def _stores(knowledge: AnyKnowledge, opened: list[AnyKnowledge]) -> str:
    await knowledge.ready()
    stats = await knowledge.stats()
    if stats.points is None:
        raise IndexUnavailable(
            "Postgres answers, the vector index does not: is it running, and HARDWON_QDRANT_URL right? One that has"
            " lost its collection gets it back from hardwon rebuild"
        )
    opened.append(knowledge)
    parts = (count_of(sum(stats.entries.values()), "entry"), count_of(stats.patterns, "pattern"))
    told = f"both answer; {', '.join(parts)}, {count_of(stats.points, 'point')}"
    if stats.points < stats.patterns:  # each has one at least
        raise IndexUnavailable(
            f"{told}: the index lacks some, unless a checkpoint is under way. hardwon verify says which, --repair puts"
            " them back; if servers with an embedded index each share this Postgres, give them one Qdrant server"
        )
    return told


async def clocks(knowledge: AnyKnowledge) -> str:
    """Compare the clocks of this machine and of Postgres, as a prune does before it deletes anything."""
    try:
        await knowledge.pruning.prune(dry_run=True)
    except AccessDenied:
        return "not compared, as this key may not prune"
    return "this machine and Postgres tell the same time"


async def _keys(authenticator: Authenticator) -> str:
    """Say whether the keys that were made can be used: their pepper is in no dump of Postgres."""
    if not await authenticator.has_any_key():
        return "none was made, so a server here answers all programs of its own machine"
    if others := await authenticator.count_with_other_pepper():
        raise AccessDenied(describe_other_pepper(others))
    return "all that have not ended can be used here"


async def _workspaces(knowledge: AnyKnowledge) -> str:
    """Say what keeps workspaces apart, and what is lost where Postgres lets us make no role."""
    match (await knowledge.stats()).row_security:
        case RowSecurity.BY_ROLE:
            return "kept apart by Postgres, too: statements run as hardwon_app, which owns no table"
        case RowSecurity.BY_NAME:
            return (
                "kept apart by Postgres, too, by the name that each connection gives; this user owns the tables, so it"
                f" could undo that, and change the audit log. {_MAKE_ROLE}"
            )
        case _:
            return f"kept apart by hardwon's own conditions alone: this user is above Postgres' rules. {_MAKE_ROLE}"


async def _question(knowledge: AnyKnowledge) -> str:
    """Ask something: all parts work together, and the stored vectors are of this embedder."""
    began = time.perf_counter()
    await knowledge.queries.query_for_failure("is it well?")
    return f"answered in {(time.perf_counter() - began) * 1000:.0f} ms"
