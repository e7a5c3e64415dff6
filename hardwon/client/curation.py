"""Reviews, revocations and the audit log over HTTP."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field

from hardwon.client.fields import LAST, Limit
from hardwon.client.operations import Envelope, Operation, Service, Wire
from hardwon.client.paging import PAGE_SIZE
from hardwon.client.transport import REJECTION
from hardwon.models.access import (
    MAX_AFFECTED,
    AffectedTask,
    AuditEntry,
    ChainReport,
    EntryFilter,
    FrequentPattern,
    KeyAlarm,
    Revocation,
)
from hardwon.models.deeds import Deed, DeedId
from hardwon.models.entries import Entry, EntryDetails
from hardwon.models.ids import ContextId, EntryId, PatternId
from hardwon.models.patterns import MAX_SUGGESTIONS, Pattern, PatternDetails, PatternPair
from hardwon.models.seals import Acceptance, SealHead

_Chosen = Annotated[EntryFilter, Wire(flat=True)]
_MAX_SPLIT = 1000
Reason = Annotated[str, Field(min_length=1, max_length=500)]
_MAX_TAGS_SENT = 100


class RemoteReviews(Service, name="reviews", tag="review", scopes=("review",)):
    """`ReviewService` over HTTP."""

    @Operation("GET", "/v1/review/entries", operation_id="list_waiting", problems=(404,), cursor="entry_id")
    async def waiting(self, *, limit: Limit = 100, after: Annotated[EntryId | None, LAST] = None) -> list[Entry]:
        """Return entries that wait for review, the oldest first, with the reasons for suspicion."""

    @Operation("GET", "/v1/review/entries/{entry_id}", operation_id="show_waiting")
    async def show(self, entry_id: EntryId) -> Entry:
        """Return an entry, whatever its status."""

    @Operation("POST", "/v1/review/entries/{entry_id}/approve", operation_id="approve_entry", problems=(409,))
    async def approve(self, entry_id: EntryId) -> Entry:
        """Approve an entry: it is embedded and shown, vouched for by a person; return it."""

    @Operation("POST", f"/v1/review/entries/{{entry_id}}{REJECTION}", operation_id="reject_entry", problems=(409,))
    async def reject(self, entry_id: EntryId) -> None:
        """Delete an entry that waits for review."""

    @Operation("GET", "/v1/review/alarms", operation_id="list_alarms")
    async def alarms(self) -> list[FrequentPattern]:
        """Return patterns that were recently shown for far more tasks than they ever worked for."""

    @Operation("GET", "/v1/review/key-alarms", operation_id="list_key_alarms")
    async def key_alarms(self) -> list[KeyAlarm]:
        """Return agents' keys that recently spoke against trusted solutions, crowded a situation, or misled agents."""


_NewText = Annotated[str | None, Field(description="The new text; left out, it stays.")]


class RemoteCorrections(Service, name="corrections", tag="entries", scopes=("review",)):
    """`CorrectionService` over HTTP."""

    @Operation("POST", "/v1/entries/{entry_id}/correction", operation_id="correct_entry", problems=(409,), long=True)
    async def correct(
        self,
        entry_id: EntryId,
        *,
        task_description: _NewText = None,
        failure_description: _NewText = None,
        error_message: _NewText = None,
        solution_steps: _NewText = None,
        proposal: _NewText = None,
        human_feedback: _NewText = None,
        revision_approach: _NewText = None,
        approved_approach: _NewText = None,
        when_to_try: _NewText = None,
        reason: Annotated[str | None, Field(description="Why, for the history.")] = None,
    ) -> EntryDetails:
        """Replace texts of an entry, which is embedded again; what they replace stays in its history."""

    @Operation("PUT", "/v1/patterns/{pattern_id}/tags", operation_id="tag_pattern", tag="patterns")
    async def tag(
        self,
        pattern_id: PatternId,
        tags: Annotated[
            Sequence[str],
            Field(max_length=_MAX_TAGS_SENT, description="All of its tags: at most ten, of 50 characters each."),
        ],
    ) -> Pattern:
        """Replace the tags of a pattern: a person's own words, in small letters, to find it by; return it."""


class RemoteDeeds(Service, name="deeds", tag="review", scopes=("review",)):
    """`DeedService` over HTTP."""

    @Operation("POST", "/v1/deeds", operation_id="decide", problems=(404, 409))
    async def decide(
        self,
        kind: Annotated[str, Wire(name="deed", field="deed"), Field(description="approve, reject, join or split.")],
        *,
        entry_id: Annotated[EntryId | None, Field(description="The entry to approve or reject.")] = None,
        pattern_id: Annotated[PatternId | None, Field(description="The pattern to keep, of a join.")] = None,
        other: Annotated[PatternId | None, Field(description="The pattern that becomes part of it.")] = None,
        entry_ids: Annotated[
            Sequence[EntryId] | None, Field(max_length=_MAX_SPLIT, description="The entries to split off.")
        ] = None,
    ) -> Deed:
        """Decide, to be done after 30 seconds: until then it can be undone."""

    @Operation("POST", "/v1/deletions", operation_id="delete_later", scopes=("admin",), problems=(404, 409))
    async def delete(
        self,
        *,
        entry_id: Annotated[EntryId | None, Field(description="The entry to delete.")] = None,
        pattern_id: Annotated[PatternId | None, Field(description="Or the pattern to delete.")] = None,
    ) -> Deed:
        """Delete an entry or a pattern after 30 seconds: until then it can be undone."""

    @Operation("POST", "/v1/undo/{deed_id}", operation_id="undo", problems=(409,))
    async def undo(self, deed_id: DeedId) -> Deed:
        """Undo a decision or deletion that waits."""

    @Operation("GET", "/v1/deeds", operation_id="list_deeds", problems=(404,), cursor="deed_id")
    async def list(
        self,
        *,
        state: Annotated[str | None, Field(description="waiting, running, done, undone or failed.")] = None,
        limit: Limit = 50,
        after: Annotated[DeedId | None, LAST] = None,
    ) -> builtins.list[Deed]:
        """Return decisions and deletions, the latest first, with who decided and what became of them."""


class RemoteRevocations(Service, name="revocations", tag="custody", scopes=("admin",)):
    """`RevocationService` over HTTP."""

    @Operation("POST", "/v1/revocations", operation_id="revoke_entries", problems=(404, 409), long=True)
    async def revoke(self, chosen: _Chosen, *, dry_run: bool = False) -> Revocation:
        """Delete the captures of a key, of a project, of a time; return the tasks that were shown them."""

    @Operation(
        "GET", "/v1/affected", operation_id="list_affected", problems=(404,), cursor="context_id", all_pages=True
    )
    async def affected(
        self,
        chosen: _Chosen,
        *,
        limit: Annotated[int, Field(ge=1, le=PAGE_SIZE)] = MAX_AFFECTED,
        after: Annotated[ContextId | None, LAST] = None,
    ) -> list[AffectedTask]:
        """Return the tasks whose contexts held any of these entries, the latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow(Envelope):
    """One decision. `details` are ids, numbers and names, as JSON; `hash` in hexadecimal digits."""

    workspace: str
    number: int
    at: datetime
    who: str
    what: str
    details: str
    hash: str

    @classmethod
    def wrap(cls, value: Any) -> Self:
        """Return a row without the hash of the one before."""
        row: AuditEntry = value
        return cls(
            workspace=row.workspace,
            number=row.number,
            at=row.at,
            who=row.who,
            what=row.what,
            details=row.details,
            hash=row.hash.hex(),
        )

    def unwrap(self) -> AuditEntry:
        """Return the row; the hash of the one before is not sent."""
        return AuditEntry(
            workspace=self.workspace,
            number=self.number,
            at=self.at,
            who=self.who,
            what=self.what,
            details=self.details,
            hash=bytes.fromhex(self.hash),
            before=b"",
        )


class RemoteAudits(Service, name="audits", tag="custody", scopes=("admin",)):
    """`AuditService` over HTTP."""

    @Operation("GET", "/v1/audit", operation_id="list_audit", answer=list[AuditRow], cursor="number")
    async def list(
        self,
        *,
        limit: Limit = 100,
        after: Annotated[int | None, Field(ge=1, le=2**62), LAST] = None,
        whole_store: bool = False,
    ) -> builtins.list[AuditEntry]:
        """Return the latest decisions, the latest first."""

    @Operation("GET", "/v1/audit:verify", operation_id="verify_audit")
    async def verify(self, *, head: str | None = None, whole_store: bool = False) -> ChainReport:
        """Check that the audit log was not changed."""

    @Operation("POST", "/v1/audit:head", operation_id="take_head", whole_store=True)
    async def take_head(self) -> SealHead:
        """Return a signed head over all that the store holds now, to keep elsewhere."""

    @Operation("POST", "/v1/audit:accept", operation_id="accept_altered", status=200, problems=(404,))
    async def accept(self, reason: Reason, *, entry_id: EntryId | None = None) -> Acceptance:
        """Take an entry that was changed by other means as it is now; without one, the entries there for all."""

    @Operation("POST", "/v1/audit:rotate-seal-key", operation_id="rotate_seal_key", whole_store=True, problems=(409,))
    async def rotate_seal_key(self) -> str:
        """Seal by a new key from now on; what was sealed by others still verifies. Return the name of the new key."""


class RemoteGrouping(Service, name="grouping", tag="patterns", scopes=("review",)):
    """`PatternGroupingService` over HTTP."""

    @Operation("GET", "/v1/patterns:suggest", problems=(409,))
    async def suggest(self, *, limit: Annotated[int, Field(ge=1, le=MAX_SUGGESTIONS)] = 20) -> list[PatternPair]:
        """Return pairs of patterns that are likely the same, for a person to join, the likeliest first."""

    @Operation("GET", "/v1/patterns/{pattern_id}/details", problems=(409,))
    async def show(self, pattern_id: PatternId) -> PatternDetails:
        """Return a live pattern with its entries, likely twins and rivals."""

    @Operation("POST", "/v1/patterns/{pattern_id}/join", problems=(409,))
    async def join(self, keep: Annotated[PatternId, Wire(name="pattern_id")], other: PatternId) -> Pattern:
        """Join another pattern to one, for good; return the one that is kept."""

    @Operation("POST", "/v1/patterns:split", status=201, problems=(404, 409))
    async def split(self, entry_ids: Annotated[Sequence[EntryId], Field(max_length=_MAX_SPLIT)]) -> Pattern:
        """Move entries of a pattern, and those with the same words, to a new one, for good; return it."""
