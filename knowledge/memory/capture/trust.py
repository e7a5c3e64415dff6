"""Isolation of agents' low-trust keys: own idempotency keys, no status of other entries, no overruling of others."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from hardwon.validation import MAX_CHARS
from knowledge.access.keys import KeyStore
from knowledge.access.permissions import BEYOND_AGENTS
from knowledge.models import CaptureOutcome, CaptureResult, Entry, EntryStatus, Provenance

_UNRESOLVED = {EntryStatus.OPEN, EntryStatus.ABANDONED}


def agent_idempotency_key(idempotency_key: str | None, by: Provenance) -> str | None:
    """Return the idempotency key to store: an agent's own keys are prefixed with its source.

    Otherwise an agent that guesses the next key could use it first, and the genuine event would be refused.
    """
    if idempotency_key is None or by.source is None:
        return idempotency_key
    scoped = f"{by.source}/{idempotency_key}"
    if len(scoped) <= MAX_CHARS["idempotency_key"]:
        return scoped
    return f"{by.source}/{sha256(idempotency_key.encode()).hexdigest()}"


def hide_status(answer: CaptureResult, by: Provenance) -> CaptureResult:
    """Return the result of a capture; for an agent, a duplicate's status is hidden."""
    is_duplicate = answer.outcome is CaptureOutcome.DUPLICATE
    return replace(answer, status=None) if by.low_trust and is_duplicate else answer


async def is_reported_by_agent(keys: KeyStore | None, entry: Entry) -> bool:
    """Return whether a low-trust key captured the entry, rather than only resolved it."""
    if not entry.low_trust or entry.captured_by is None:
        return False
    key = None if keys is None else await keys.find(entry.captured_by)
    return key is None or BEYOND_AGENTS.isdisjoint(key[0].scopes)


async def can_overrule(by: Provenance, keys: KeyStore | None, entry: Entry) -> bool:
    """Return whether a resolution by `by` replaces the one that an entry has.

    True where a trusted key captured the entry and an agent's key resolved it: otherwise any agent that knows an id
    would have the last word.
    """
    if by.low_trust or keys is None or not entry.low_trust or entry.status in _UNRESOLVED:
        return False
    if entry.resolved_by is None or entry.resolved_by not in await keys.chain(entry.agent_key or ""):
        return False  # captured with its resolution, or resolved by a trusted key
    return not await is_reported_by_agent(keys, entry)
