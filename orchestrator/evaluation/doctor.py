"""Checks of an installation, part by part, so that one failure does not hide another."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.errors import (
    AccessDenied,
    HardwonError,
    IndexUnavailable,
    StorageUnavailable,
    StoreAltered,
    WebhookUnavailable,
)
from hardwon.installation import install_command
from hardwon.models.maintenance import IndexHealth
from hardwon.text.pluralize import count_of
from knowledge.access.keys import describe_other_pepper
from knowledge.adapters.clocks import SystemClock
from knowledge.adapters.files.backup_files import list_backups
from knowledge.models import RowSecurity
from knowledge.settings import KnowledgeSettings
from orchestrator.connection import AnyKnowledge, connect

_SERVER_FROM = 100_000
"""Points from which a Qdrant server answers sooner than the embedded engine (docs/performance.md)."""
_EXTRAS = {"documents": "kreuzberg", "mcp": "mcp", "otel": "opentelemetry"}
"""A package of each extra."""
_RECALL_SAMPLE = 10
_MAX_TOLD = 5
_OLDEST_BACKUP = timedelta(days=2)
"""One is made each day."""
_MAKE_ROLE = "Have an administrator run: CREATE ROLE hardwon_app NOLOGIN; GRANT hardwon_app TO this user; restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result for one part: its name, whether it works, and details."""

    what: str
    well: bool
    said: str


async def examine() -> list[Finding]:
    """Return the findings, in the order in which parts depend on each other."""
    findings: list[Finding] = []

    async def check(what: str, work: Callable[[], Awaitable[str]]) -> None:
        try:
            findings.append(Finding(what=what, well=True, said=await work()))
        except HardwonError as error:
            findings.append(Finding(what=what, well=False, said=str(error)))

    await check("settings", _describe_settings)
    if not findings[0].well:
        return findings
    settings = KnowledgeSettings()
    await check("extras", _describe_extras)
    if settings.api_url is None:
        await check("embedder", lambda: _check_embedder(settings))
    async with AsyncExitStack() as stack:

        async def stores() -> str:
            return await _check_stores(await stack.enter_async_context(connect(settings)), opened)

        opened: list[KnowledgeClient] = []
        await check("stores", stores)
        if opened:
            await check("clocks", lambda: compare_clocks(opened[0]))
            await check("keys", lambda: _check_keys(opened[0]))
            await check("workspaces", lambda: _check_row_security(opened[0]))
            await check("seals", lambda: _check_seals(opened[0]))
            await check("index", lambda: _check_index(opened[0], settings))
            await check("recall", lambda: _check_recall(opened[0]))
            await check("webhook", lambda: _check_webhook(opened[0]))
            await check("backups", lambda: _check_backups(settings))
            await check("a question", lambda: _check_query(opened[0]))
    return findings


async def _describe_settings() -> str:
    settings = KnowledgeSettings()
    if settings.api_url is not None:
        return f"a hardwon server at {settings.api_url}"
    model = f"model {settings.embedding_model}" + ("" if settings.uses_local_model else " at an endpoint")
    postgres = "embedded Postgres" if settings.has_embedded_postgres else "a Postgres server"
    index = "embedded engine" if settings.has_embedded_index else f"Qdrant at {settings.qdrant_url}"
    return f"data in {settings.home}; {postgres}, {index}, {model}"


async def _describe_extras() -> str:
    """Describe the extras of this installation; none is needed."""
    missing = [extra for extra, module in _EXTRAS.items() if importlib.util.find_spec(module) is None]
    return "; ".join(
        [
            f"with {', '.join(extra for extra in _EXTRAS if extra not in missing) or 'none of them'}",
            *(f"without {extra} ({install_command(extra)})" for extra in missing),
        ]
    )


async def _check_embedder(settings: KnowledgeSettings) -> str:
    from knowledge.wiring.open import make_embedder  # noqa: PLC0415 - heavy

    embedder = make_embedder(settings)
    try:
        space = await embedder.space()
        await embedder.embed(["is it well?"], "query")
    finally:
        await embedder.aclose()
    return f"{space.model} answers with {space.dims} dimensions (space {space.fingerprint})"


async def _check_stores(knowledge: KnowledgeClient, opened: list[KnowledgeClient]) -> str:
    await knowledge.ready()
    stats = await knowledge.stats()
    if stats.points is None:
        raise IndexUnavailable(
            "Postgres answers, the vector index does not: check that it is running, and HARDWON_QDRANT_URL. If it has"
            " lost its collection, hardwon rebuild restores it"
        )
    opened.append(knowledge)
    parts = (count_of(sum(stats.entries.values()), "entry"), count_of(stats.patterns, "pattern"))
    summary = f"both answer; {', '.join(parts)}, {count_of(stats.points, 'point')}"
    if stats.points < stats.patterns:  # a pattern has at least one point
        raise IndexUnavailable(
            f"{summary}: the index lacks some, unless a checkpoint is under way. hardwon verify says which, --repair"
            " restores them; if servers with embedded indexes share this Postgres, give them one Qdrant server"
        )
    return summary


async def compare_clocks(knowledge: AnyKnowledge) -> str:
    """Compare the clocks of this machine and of Postgres, as a prune does before it deletes anything."""
    try:
        await knowledge.pruning.prune(dry_run=True)
    except AccessDenied:
        return "not compared, as this key may not prune"
    return "this machine and Postgres have the same time"


async def _check_keys(knowledge: KnowledgeClient) -> str:
    """Check that the keys can be used: a restored dump of Postgres lacks the pepper they were created with."""
    try:
        if not await knowledge.keys.list(limit=1):
            return "there are none, so a server here answers all programs of its own machine"
        others = await knowledge.keys.count_unusable()
    except AccessDenied:
        return "not checked, as this key may not list them"
    if others:
        raise AccessDenied(describe_other_pepper(others))
    return "all that have not expired can be used here"


async def _check_webhook(knowledge: KnowledgeClient) -> str:
    """Check that the last run of the job left no message that was tried in vain."""
    try:
        (job,) = [each for each in await knowledge.list_jobs() if each.name == "webhook"]
    except AccessDenied:
        return "not checked, as this key may not list jobs"
    if not job.runs:
        return "the job has not run yet"
    error = job.runs[0].error
    if error is not None:
        raise WebhookUnavailable(error.partition(": ")[2] or error)
    return "no message waits for another try"


async def _check_backups(settings: KnowledgeSettings) -> str:
    """Tell the age of the last backup that passed its trial."""
    if settings.backup_dir is None:
        return "none are planned: HARDWON_BACKUP_DIR names a folder that gets one each day"
    backups = await asyncio.to_thread(list_backups, settings.backup_dir)
    age = SystemClock().now() - backups[0].record.made_at if backups else None
    if age is None or age > _OLDEST_BACKUP:
        since = "none passed its trial" if age is None else f"the last one that passed is {age.days} days old"
        raise StorageUnavailable(f"{settings.backup_dir}: {since}; hardwon jobs tells why, hardwon backup makes one")
    hours = age.total_seconds() / 3600
    return f"the last one that passed its trial is {hours:.0f} hours old, of {len(backups)} in {settings.backup_dir}"


async def _check_row_security(knowledge: KnowledgeClient) -> str:
    """Describe the isolation of workspaces, and its limits if Postgres does not let us create a role."""
    match (await knowledge.stats()).row_security:
        case RowSecurity.BY_ROLE:
            return "isolated by Postgres, too: statements run as hardwon_app, which owns no table"
        case RowSecurity.BY_NAME:
            return (
                "isolated by Postgres, too, by the name that each connection sets; this user owns the tables, so it"
                f" could undo that, and change the audit log. {_MAKE_ROLE}"
            )
        case _:
            return f"isolated by hardwon's own conditions alone: this user bypasses row security. {_MAKE_ROLE}"


async def _check_seals(knowledge: KnowledgeClient) -> str:
    """Tell what is not as hardwon stored it, as far as it was looked at since the start."""
    altered = (await knowledge.stats()).altered
    if altered:
        raise StoreAltered(
            f"{'; '.join(altered[:_MAX_TOLD])}. Restore it from a backup, or take it as it is: hardwon audit accept"
        )
    return "nothing was found that is not as it was stored; hardwon verify looks at all of it"


async def _check_index(knowledge: KnowledgeClient, settings: KnowledgeSettings) -> str:
    """Describe nodes and replicas of the index, and what would be lost if one more node died."""
    try:
        health = await knowledge.upkeep.index_health()
    except AccessDenied:
        return "not examined, as this key may not"
    if health.problems:
        raise IndexUnavailable(". ".join([*health.problems, *health.advice]))
    points = sum(each.points for each in health.collections)
    if health.version is None:
        found = f"the embedded engine holds {count_of(points, 'point')}"
        if settings.has_embedded_index and points > _SERVER_FROM:
            return f"{found}: from {_SERVER_FROM:,} on a Qdrant server answers sooner; set HARDWON_QDRANT_URL"
        return found
    nodes = "" if health.nodes is None else f", {count_of(health.nodes, 'node')}"
    shards = "; ".join(
        f"{each.name}: {count_of(each.points, 'point')}, {count_of(each.shards, 'shard')},"
        f" {count_of(each.replicas, 'replica')} of each"
        for each in health.collections
    )
    loss = "" if health.nodes == 1 else f". If one more node died, {_loss(health)}"
    return ". ".join([f"Qdrant {health.version}{nodes}; {shards}{loss}", *health.advice])


def _loss(health: IndexHealth) -> str:
    at_risk = max((each.at_risk for each in health.collections), default=0.0)
    return f"up to {at_risk:.0%} of the points could not be read" if at_risk else "nothing would be lost"


async def _check_recall(knowledge: KnowledgeClient) -> str:
    """Compare a few searches with exact ones."""
    try:
        report = await knowledge.upkeep.measure_recall(_RECALL_SAMPLE)
    except AccessDenied:
        return "not measured, as this key may not"
    if not report.sound:
        raise IndexUnavailable(". ".join(report.advice))
    if not report.samples:
        return "nothing is embedded yet"
    return f"searches find {report.least:.0%} of what exact ones find"


async def _check_query(knowledge: KnowledgeClient) -> str:
    """Run a query: it needs all parts, and stored vectors of this embedder."""
    began = time.perf_counter()
    await knowledge.queries.query_for_failure("is it well?")
    return f"answered in {(time.perf_counter() - began) * 1000:.0f} ms"
