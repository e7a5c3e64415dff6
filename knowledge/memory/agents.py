"""What agents' keys tell is held apart: they learn nothing of others, take no key of theirs, have no last word."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from knowledge.access.keys import KeyStore
from knowledge.access.operations import BEYOND_AGENTS
from knowledge.memory.limits import MAX_CHARS
from knowledge.models import Captured, CaptureOutcome, Entry, EntryStatus, Provenance

_UNRESOLVED = {EntryStatus.OPEN, EntryStatus.ABANDONED}


def kept_as(idempotency_key: str | None, by: Provenance) -> str | None:
    """Return the idempotency key that an entry is stored with: what agents' keys tell has keys of their own.

    Else an agent that guesses which one comes next uses it first, and what was to come with it is refused.
    """
    if idempotency_key is None or by.source is None:
        return idempotency_key
    told = f"{by.source}/{idempotency_key}"
    if len(told) <= MAX_CHARS["idempotency_key"]:
        return told
    return f"{by.source}/{sha256(idempotency_key.encode()).hexdigest()}"


def without_fate(answer: Captured, by: Provenance) -> Captured:
    """Return the answer to a capture; an agent is told that an entry is there already, and not what became of it."""
    again = answer.outcome is CaptureOutcome.DUPLICATE
    return replace(answer, status=None) if by.low_trust and again else answer


async def told_by_agent(keys: KeyStore | None, entry: Entry) -> bool:
    """Return whether a key of low trust told what happened, and not only what resolved it."""
    if not entry.low_trust or entry.captured_by is None:
        return False
    teller = None if keys is None else await keys.find(entry.captured_by)
    return teller is None or BEYOND_AGENTS.isdisjoint(teller[0].scopes)


async def overrules(by: Provenance, keys: KeyStore | None, entry: Entry) -> bool:
    """Return whether a resolution by somebody goes before the one that an entry has.

    Where somebody trusted told it and an agent's key resolved it: whoever knows an id would have the last word else.
    """
    if by.low_trust or keys is None or not entry.low_trust or entry.status in _UNRESOLVED:
        return False
    if entry.resolved_by is None or entry.resolved_by not in await keys.chain(entry.agent_key or ""):
        return False  # it was told with it, or the agent told it and somebody trusted resolved it
    return not await told_by_agent(keys, entry)
