"""Corrections of an entry's texts by people, with a history of what they replaced, and tags of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hardwon.coercion import coerce_arguments
from hardwon.errors import Conflict, HardwonError, InvalidInput, reason_of
from hardwon.event_log import get_logger
from hardwon.models.entries import EntryDetails
from hardwon.models.patterns import MAX_TAGS
from hardwon.validation import as_id
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.capture.redaction import clean_text
from knowledge.memory.checkpoint.service import CheckpointEmbeddingService
from knowledge.memory.curation.stored_secrets import make_rewrite
from knowledge.memory.index.reconcile import settle_if_possible
from knowledge.memory.query.service import get_live, to_pattern
from knowledge.memory.rules.validation import normalise_tag, validate
from knowledge.models import CheckpointType, Entry, EntryId, EntryStatus, Pattern, PatternId
from knowledge.ports import Stores
from knowledge.runtime.scheduling import run_in_thread_if_long

log = get_logger(__name__)
_NOT_CORRECTED: Final = {
    EntryStatus.QUARANTINED: "waits for a review: approve or reject it first",
    EntryStatus.ABANDONED: "was given up without a resolution: capture it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionService:
    """Corrects the entries of one workspace, and tags its patterns."""

    stores: Stores
    checkpoints: CheckpointEmbeddingService
    redaction: bool = True
    audit: Auditor = NO_AUDIT

    @coerce_arguments
    async def correct(
        self,
        entry_id: EntryId,
        *,
        task_description: str | None = None,
        failure_description: str | None = None,
        error_message: str | None = None,
        solution_steps: str | None = None,
        proposal: str | None = None,
        human_feedback: str | None = None,
        revision_approach: str | None = None,
        approved_approach: str | None = None,
        when_to_try: str | None = None,
        reason: str | None = None,
    ) -> EntryDetails:
        """Replace texts of an entry, redacted as at capture; return it with its history.

        It keeps its id, its pattern and its evidence. An entry that is in the index is embedded again at once; where
        the embedder does not answer, at the next checkpoint, and is found by nobody until then. A text that an entry
        has none of is added. Raises NotFound, Conflict, or InvalidInput, naming the field.
        """
        entry_id = EntryId(as_id("entry_id", entry_id))
        given = {
            "task_description": task_description,
            "failure_description": failure_description,
            "error_message": error_message,
            "solution_steps": solution_steps,
            "proposal": proposal,
            "human_feedback": human_feedback,
            "revision_approach": revision_approach,
            "approved_approach": approved_approach,
            "when_to_try": when_to_try,
        }
        entry = await self.stores.entries.get(entry_id)
        if entry.status in _NOT_CORRECTED:
            raise Conflict(f"entry {entry_id} {_NOT_CORRECTED[entry.status]}")
        texts = {name: text for name, text in given.items() if text is not None}
        length = sum(len(str(text)) for text in texts.values())
        texts = await run_in_thread_if_long(length, lambda: self._clean(entry, texts))
        reason = None if reason is None else clean_text("reason", reason, redaction=self.redaction)
        if texts:
            rewrite = make_rewrite(entry, texts, entry.applies_when)
            await self.stores.corrections.correct(
                rewrite, now=self.stores.clock.now(), by=self.audit.who, reason=reason
            )
            await self.audit.record("entry corrected", entry=str(entry_id), fields=", ".join(texts))
            if entry.status is EntryStatus.EMBEDDED:
                await self._embed(entry)
        return EntryDetails.of(
            await self.stores.entries.get(entry_id), tuple(await self.stores.corrections.history(entry_id))
        )

    @coerce_arguments
    async def tag(self, pattern_id: PatternId, tags: Sequence[str]) -> Pattern:
        """Replace the tags of a live pattern, or of the one it was joined to; return it. Idempotent.

        Tags are short words of a person, in small letters, each once; redacted as texts are. Raises NotFound, or
        InvalidInput (field `tags`), quoting the tag that is wrong.
        """
        pattern = await get_live(self.stores, PatternId(as_id("pattern_id", pattern_id)))
        clean = {normalise_tag("tags", each, clean=self._clean_tag) for each in tags}
        if len(clean) > MAX_TAGS:
            raise InvalidInput("tags", f"are {len(clean)}, more than the {MAX_TAGS} that a pattern may have")
        if clean != set(pattern.tags):
            await self.stores.corrections.tag(pattern.pattern_id, sorted(clean))
            await self.audit.record("pattern tagged", pattern=str(pattern.pattern_id), tags=len(clean))
        return replace(to_pattern(pattern), tags=tuple(sorted(clean)))

    def _clean_tag(self, tag: str) -> str:
        return clean_text("tags", tag, redaction=self.redaction)

    def _clean(self, entry: Entry, texts: dict[str, str]) -> dict[str, str]:
        """Return the texts that differ from the entry's, redacted. Raises InvalidInput."""
        if not texts:
            raise InvalidInput("correction", "has no text: give at least one field with its new text")
        clean = {name: clean_text(name, text, redaction=self.redaction) for name, text in texts.items()}
        changed = {name: text for name, text in clean.items() if text != getattr(entry, name)}
        resolves = {"solution_steps", "revision_approach"} & changed.keys()
        if entry.status is EntryStatus.OPEN and resolves:
            raise InvalidInput(min(resolves), f"resolves an open entry: POST /v1/entries/{entry.entry_id}/resolution")
        validate(replace(entry, **changed))  # type: ignore[arg-type]  # texts alone
        return changed

    async def _embed(self, entry: Entry) -> None:
        """Embed a corrected entry, with what else its project has staged."""
        await settle_if_possible(self.stores, whole=False)
        try:
            await self.checkpoints.process_checkpoint(entry.project_id, CheckpointType.MANUAL)
        except HardwonError as error:
            log.warning("correction_not_embedded", entry_id=str(entry.entry_id), reason=reason_of(error))
