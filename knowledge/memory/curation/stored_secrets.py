"""Secrets that were stored before there was a rule for them: today's rules, over everything that is stored.

Replay-safe: each page is one transaction, an entry that changed waits for the next checkpoint, which is the last step.
Killed at any point and called again, it ends the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from hardwon.errors import Conflict, HardwonError, reason_of
from hardwon.event_log import get_logger
from hardwon.models.maintenance import RedactionReport
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.capture.redaction import TEXTS, cut_dead_ends
from knowledge.memory.checkpoint.service import CheckpointEmbeddingService
from knowledge.memory.index.reconcile import settle
from knowledge.memory.rules.embedding_text import match_key, wording_key
from knowledge.memory.rules.validation import content_hash
from knowledge.models import AppliesWhen, Entry, EntryId
from knowledge.ports import Progress, RedactedEntry, StoredTextStore, Stores
from knowledge.text.redaction import redact, redact_together

log = get_logger(__name__)

_PAGE: Final = 200
_MAX_CHARS: Final = {"verified_by": 500}
"""Columns that hold no longer text; a placeholder may be longer than what it stands for."""
_RESOLUTION: Final = {
    "solution_steps": None,
    "revision_approach": None,
    "verified_by": None,
    "when_to_try": None,
    "applies_when": None,
    "success_verified": False,
}
"""Fields that a resolution adds later: the hash of an entry's content is of what was captured."""


class DocumentRedaction(Protocol):
    """The same for the documents of the workspace."""

    async def redact_again(
        self, *, dry_run: bool = False, progress: Progress | None = None
    ) -> tuple[int, Sequence[str]]:
        """Rewrite documents with secrets, to be indexed again; return their number, and the kinds of the secrets."""

    async def index(self) -> tuple[int, str | None]:
        """Index what waits and delete what it replaces; return the number of documents, and why some still wait."""


@dataclass(slots=True)
class _Found:
    """The secrets found so far, by kind."""

    kinds: Counter[str] = field(default_factory=Counter)

    def redact(self, text: str) -> str:
        """Return a text without its secrets, and count them."""
        redacted = redact(text)
        self.kinds.update(redacted.found)
        return redacted.text


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecretsService:
    """Redacts everything stored in one workspace again. `enabled`: texts are redacted at all."""

    stores: Stores
    texts: StoredTextStore
    checkpoints: CheckpointEmbeddingService
    documents: DocumentRedaction
    enabled: bool = True
    audit: Auditor = NO_AUDIT

    async def redact_again(self, *, dry_run: bool = False, progress: Progress | None = None) -> RedactionReport:
        """Redact all stored texts by today's rules, and embed again what changed; with `dry_run` only count it.

        Entries keep their ids and patterns. They are found again once the checkpoint at the end has embedded them, as
        long from then on as a new entry is. Raises Conflict where redaction is turned off.
        """
        if not self.enabled:
            raise Conflict("HARDWON_REDACTION is off, so that texts are stored as they come: set it on to redact them")
        found = _Found()
        report = await self._redact_entries(found, dry_run=dry_run, progress=progress)
        records = await self.texts.rewrite_records(found.redact, dry_run=dry_run)
        documents, kinds = await self.documents.redact_again(dry_run=dry_run, progress=progress)
        found.kinds.update(kinds)
        audited = 0
        async for details in self.texts.audit_details():
            audited += bool(redact(details).found)
        report = replace(
            report, records=records, documents=documents, audited=audited, kinds=dict(sorted(found.kinds.items()))
        )
        if dry_run:
            return report
        embedded, postponed = await self._embed(progress)
        report = replace(report, embedded=embedded, postponed=postponed)
        await self.audit.record(
            "redacted again", entries=report.entries, merged=report.merged, documents=documents, records=records
        )
        log.info("redacted_again", entries=report.entries, documents=documents, records=records, kinds=report.kinds)
        return report

    async def _redact_entries(self, found: _Found, *, dry_run: bool, progress: Progress | None) -> RedactionReport:
        report, after, done = RedactionReport(dry_run=dry_run), None, 0
        while page := await self.texts.entries(after=after, limit=_PAGE):
            after, done = EntryId(page[-1].entry_id), done + len(page)
            changed = await asyncio.to_thread(_redact_page, page, found)
            if changed and dry_run:
                report = replace(report, entries=report.entries + len(changed))
            elif changed:
                rewritten, merged = await self.texts.rewrite(changed)
                report = replace(report, entries=report.entries + rewritten, merged=report.merged + merged)
            if progress:
                progress(done, None)
        return report

    async def _embed(self, progress: Progress | None) -> tuple[int, str | None]:
        """Delete the old points, embed what is staged and what waits; return how much, and why something still waits.

        An embedder that does not answer leaves what changed staged, as at any checkpoint: found by nobody until then.
        """
        await settle(self.stores, whole=False)
        try:
            report = await self.checkpoints.process_all(progress=progress)
        except HardwonError as error:
            return 0, reason_of(error)
        documents, postponed = await self.documents.index()
        await settle(self.stores, whole=False)
        return report.embedded + documents, postponed


def _redact_page(page: Sequence[Entry], found: _Found) -> list[RedactedEntry]:
    return [changed for entry in page if (changed := _redact_entry(entry, found)) is not None]


def _redact_entry(entry: Entry, found: _Found) -> RedactedEntry | None:
    """Return what redaction changes of an entry, None if nothing."""
    texts = {name: value for name in TEXTS if (value := getattr(entry, name)) is not None}
    changed: dict[str, str | list[str]] = {}
    redactions = redact_together([*texts.values(), *entry.dead_ends])
    for redaction in redactions:
        found.kinds.update(redaction.found)
    for name, redaction in zip(texts, redactions, strict=False):
        if redaction.text != texts[name]:
            changed[name] = redaction.text[: _MAX_CHARS.get(name)]
    tried = tuple(redaction.text for redaction in redactions[len(texts) :])
    if tried != entry.dead_ends:
        changed["dead_ends"] = list(cut_dead_ends(tried))
    conditions = _without_secret(entry.applies_when, found)
    if not changed and conditions == entry.applies_when:
        return None
    return make_rewrite(entry, changed, conditions)


def make_rewrite(entry: Entry, changed: Mapping[str, str | list[str]], conditions: AppliesWhen | None) -> RedactedEntry:
    """Return the rewrite of an entry with other texts: its hash and its keys are those of the new ones."""
    after = replace(entry, **changed, applies_when=conditions)  # type: ignore[arg-type]  # texts alone
    return RedactedEntry(
        before=entry,
        texts=changed,
        applies_when=conditions,
        content_hash=_hash_like(entry, after),
        keys={match_key(entry): match_key(after), wording_key(entry): wording_key(after)},
    )


def _without_secret(conditions: AppliesWhen | None, found: _Found) -> AppliesWhen | None:
    """Return conditions without an expression that has a secret in it: redacted, it would match something else."""
    if conditions is None or conditions.error is None or found.redact(conditions.error) == conditions.error:
        return conditions
    rest = replace(conditions, error=None)
    return rest if rest != AppliesWhen() else None


def _hash_like(before: Entry, after: Entry) -> str:
    """Return the hash of the content, of the fields that the hash before was of."""
    captured = replace(before, **_RESOLUTION)  # type: ignore[arg-type]
    if before.content_hash == content_hash(captured):
        return content_hash(replace(after, **_RESOLUTION))  # type: ignore[arg-type]
    return content_hash(after)
