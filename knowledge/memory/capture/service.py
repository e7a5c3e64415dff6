"""Capture: validate learning moments and stage them in Postgres. Needs neither the embedder nor the index."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

from hardwon.capture import EntryCapture
from hardwon.coercion import coerce_arguments
from hardwon.errors import Conflict, IdempotencyConflict, InvalidInput, NotFound, NotOpen, RejectionOnRecord
from hardwon.models.entries import EntryDetails
from hardwon.validation import as_id, as_integer, check_text
from knowledge.access.keys import KeyStore
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.memory.capture.injection import suspicions
from knowledge.memory.capture.orders.split_orders import MAX_EARLIER, hold_split_order, may_be_piece
from knowledge.memory.capture.outcomes import find_echoed_entry, record_dead_ends, record_echo
from knowledge.memory.capture.preparation import EntryPreparer
from knowledge.memory.capture.trust import can_overrule, hide_status, is_reported_by_agent
from knowledge.memory.index.reconcile import settle_if_possible
from knowledge.models import (
    TRUSTED,
    AppliesWhen,
    CaptureOutcome,
    CaptureResult,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    NewEntry,
    PatternId,
    Provenance,
    ReviewMode,
)
from knowledge.ports import Progress, Stores
from knowledge.runtime.instrumentation import step
from knowledge.runtime.scheduling import run_in_thread_if_long

MAX_LISTED = 1000
_DELETE_BATCH = 500
"""Entries deleted per transaction."""
_NOT_RESOLVABLE = "entry {} cannot be resolved this way with this key"
_RESOLVED_BY = {EntryType.FAILURE_SOLUTION: "resolve_failure", EntryType.GATE_REJECTION: "resolve_gate_rejection"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeCaptureService(EntryCapture):
    """Captures learning moments during project execution.

    `redaction`: remove secrets from texts. `by`: who captures. `review`: the captures of low-trust keys that are
    quarantined. `solved_in`: the run that solved the failure, where it is not the run that failed. `keys`: finds the
    key of an earlier resolution; without it, no resolution is replaced.
    """

    stores: Stores
    redaction: bool = True
    by: Provenance = TRUSTED
    solved_in: str | None = None
    review: ReviewMode = ReviewMode.SUSPICIOUS
    audit: Auditor = NO_AUDIT
    keys: KeyStore | None = None

    @coerce_arguments
    async def resolve_failure(
        self,
        entry_id: EntryId,
        *,
        solution_steps: str,
        verified_by: str,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        dead_ends: Sequence[str] = (),
        outside_text: bool = False,
    ) -> EntryId:
        """Give an open failure its verified solution and stage it. Raises NotFound, NotOpen or InvalidInput.

        `applies_when` replaces the conditions captured with the failure; a low-trust key may set it on its own entries.
        `dead_ends`: what was tried before and did not help, in place of what was captured with the failure.
        `outside_text`: the run had read text from outside before the solution.

        Returns the entry's id. A solution that was handed out for this very task is an outcome of its pattern, not new
        evidence: returns the id of the entry it repeats. A trusted key's solution replaces an agent's; where the
        agent's is embedded already, it becomes a new entry, whose id is returned.
        """
        return await self._resolve(
            entry_id,
            EntryType.FAILURE_SOLUTION,
            "solution_steps",
            solution_steps,
            verified_by=self._preparer.clean_text("verified_by", verified_by),
            when_to_try=when_to_try,
            applies_when=applies_when,
            dead_ends=self._preparer.clean_dead_ends(dead_ends),
            outside_text=outside_text,
        )

    @coerce_arguments
    async def resolve_gate_rejection(
        self,
        entry_id: EntryId,
        *,
        revision_approach: str,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
    ) -> EntryId:
        """Give an open rejection the accepted revision and stage it. Raises NotFound, NotOpen or InvalidInput.

        Returns the entry's id, or that of a new entry where an agent's revision is embedded already, as for failures.
        """
        return await self._resolve(
            entry_id,
            EntryType.GATE_REJECTION,
            "revision_approach",
            revision_approach,
            verified_by=verified_by if verified_by is None else self._preparer.clean_text("verified_by", verified_by),
            when_to_try=when_to_try,
            applies_when=applies_when,
        )

    @step("capture")
    async def capture(self, entry: NewEntry | Mapping[str, Any]) -> EntryId:
        """Capture one entry of any type. Returns and raises what the method for its type does."""
        (prepared,) = await self._prepare([entry])
        (answer,) = await self._add([await self._require_storable(prepared)])
        if answer.outcome is CaptureOutcome.REFUSED or answer.entry_id is None:
            _refuse(answer)
        return answer.entry_id

    @step("capture_all")
    async def capture_all(self, entries: Sequence[NewEntry | Mapping[str, Any]]) -> list[CaptureResult]:
        """Capture entries independently; a refused one does not stop the rest. Returns the results in order."""
        answers: list[CaptureResult | None] = []
        accepted: list[Entry] = []
        rejected_gates: set[_Gate] = set()
        earlier_events: set[_EventKey] = set()
        for prepared in await self._prepare(entries):
            try:
                entry = await self._require_storable(prepared, rejected_gates, earlier_events)
            except (InvalidInput, Conflict) as error:
                field = error.field if isinstance(error, InvalidInput) else None
                reason = error.reason if isinstance(error, InvalidInput) else str(error)
                answers.append(CaptureResult(outcome=CaptureOutcome.REFUSED, field=field, error=reason))
                continue
            if entry.entry_type is EntryType.GATE_REJECTION:
                rejected_gates.add(_gate(entry))
            earlier_events |= _event_keys(entry)
            accepted.append(entry)
            answers.append(None)
        stored = iter(await self._add(accepted))
        return [answer or next(stored) for answer in answers]

    async def _prepare(self, entries: Sequence[NewEntry | Mapping[str, Any]]) -> list[Entry | InvalidInput]:
        """Prepare new entries; quarantine those of an agent that make an order with earlier entries of its key."""
        prepared = await self._preparer.prepare(entries)
        if not self._preparer.looks_for_orders:
            return prepared
        earlier: list[Entry] | None = None
        before: list[Entry] = []
        for place, entry in enumerate(prepared):
            if isinstance(entry, InvalidInput):
                continue
            if not entry.suspicions and may_be_piece(entry):
                if earlier is None:
                    earlier = await self._latest_of_key()
                prepared[place] = await asyncio.to_thread(hold_split_order, entry, [*earlier, *before], suspicions)
            before = [*before, entry][-MAX_EARLIER:]
        return prepared

    async def _latest_of_key(self, *, but: EntryId | None = None) -> list[Entry]:
        """Return the latest entries of the caller's key that are not in the index yet, oldest first."""
        latest = await self.stores.entries.latest_of_key(self.by.source or "", limit=MAX_EARLIER)
        return [each for each in reversed(latest) if each.entry_id != but]

    async def _assess_with_earlier(self, entry: Entry, by: Provenance) -> Provenance:
        """Return the provenance of a resolution, suspicious if it makes an order with earlier entries of its key."""
        if by.suspicions or not self._preparer.looks_for_orders or not may_be_piece(entry):
            return by
        earlier = await self._latest_of_key(but=entry.entry_id)
        judged = await asyncio.to_thread(hold_split_order, replace(entry, suspicions=()), earlier, suspicions)
        return replace(by, suspicions=judged.suspicions)

    @step("store_entries")
    async def _add(self, entries: Sequence[Entry]) -> list[CaptureResult]:
        """Store entries; one that repeats a pattern handed out for its own task becomes an outcome of that pattern."""
        answers = await self.stores.entries.add(entries)
        followed_up = [await self._follow_up(entry, answer) for entry, answer in zip(entries, answers, strict=True)]
        return [hide_status(answer, self.by) for answer in followed_up]

    async def _follow_up(self, entry: Entry, answer: CaptureResult) -> CaptureResult:
        """Turn an echo into an outcome, reopen an abandoned duplicate, or let a trusted key vouch for a waiting one."""
        if entry.dead_ends and not entry.suspicions and answer.entry_id is not None:
            if answer.outcome is CaptureOutcome.DUPLICATE:  # of a run that went on
                await self.stores.entries.replace_dead_ends(answer.entry_id, entry)
            await record_dead_ends(self.stores, replace(entry, entry_id=answer.entry_id))
        if answer.informed and not entry.suspicions:
            return await self._convert_to_outcome(entry, answer)
        if entry.low_trust or answer.outcome is not CaptureOutcome.DUPLICATE or answer.entry_id is None:
            return answer
        if answer.status is EntryStatus.ABANDONED and entry.run_id is None:  # of the same run it is the same event
            reopened = await self.stores.entries.reopen(answer.entry_id, entry)
            return replace(answer, status=entry.status) if reopened else answer
        waits = answer.status in {EntryStatus.QUARANTINED, EntryStatus.OPEN}
        if not waits or not await self.stores.entries.vouch(answer.entry_id, entry):
            return answer
        if answer.status is EntryStatus.QUARANTINED:
            await self.audit.record("entry approved", entry=str(answer.entry_id), told="again, by a trusted key")
        return replace(answer, status=entry.status)

    async def _convert_to_outcome(self, entry: Entry, answer: CaptureResult) -> CaptureResult:
        stored = replace(entry, entry_id=answer.entry_id or entry.entry_id)
        echoed_id = await record_echo(self.stores, stored)
        if echoed_id is None:
            return answer
        return replace(answer, outcome=CaptureOutcome.DUPLICATE, entry_id=echoed_id, status=EntryStatus.EMBEDDED)

    async def _resolve(
        self,
        entry_id: EntryId,
        entry_type: EntryType,
        field: str,
        resolution: str,
        *,
        verified_by: str | None,
        when_to_try: str | None,
        applies_when: AppliesWhen | None,
        dead_ends: Sequence[str] = (),
        outside_text: bool = False,
    ) -> EntryId:
        """Set the resolution `field` of an open entry and stage it; return the id of the entry that is evidence."""
        entry_id = EntryId(as_id("entry_id", entry_id))
        length = len(str(resolution))  # a value of another type is refused by clean_text
        resolution = await run_in_thread_if_long(length, lambda: self._preparer.clean_text(field, resolution))
        when_to_try = when_to_try if when_to_try is None else self._preparer.clean_text("when_to_try", when_to_try)
        if applies_when is not None:
            self._preparer.check_conditions(applies_when)
        entries = self.stores.entries
        changes: dict[str, Any] = {field: resolution, "verified_by": verified_by, "when_to_try": when_to_try}
        changes["applies_when"] = applies_when
        try:
            current = await entries.get(entry_id)
            _check_type(current, entry_type)
            if applies_when is not None and self.by.low_trust and current.source != self.by.source:
                raise InvalidInput(
                    "applies_when", "can be set only with the key that captured the entry, or with a trusted key"
                )
            if getattr(current, field) != resolution and await can_overrule(self.by, self.keys, current):
                entry = await self._overrule(current, changes)
            else:
                texts = (resolution, verified_by, when_to_try, *dead_ends)
                by = await run_in_thread_if_long(length, lambda: self._preparer.assess(*texts))
                by = await self._assess_with_earlier(_with_resolution(current, field, resolution), by)
                more: dict[str, Any] = {"dead_ends": dead_ends, "outside_text": outside_text}
                entry = await entries.resolve(entry_id, **changes, **more, by=by)
        except NotFound:
            return await self._find_echoed_entry(entry_id, resolution)
        except Conflict:
            if self.by.low_trust:  # a key that cannot read must not learn an entry's status
                raise NotOpen(_NOT_RESOLVABLE.format(entry_id)) from None
            raise
        if entry.status is not EntryStatus.STAGED:
            return entry.entry_id
        await record_dead_ends(self.stores, entry)
        return await record_echo(self.stores, entry, solved_in=self.solved_in) or entry.entry_id

    async def _overrule(self, current: Entry, changes: Mapping[str, Any]) -> Entry:
        """Replace an agent's resolution of an entry; where it is embedded already, capture a new entry instead.

        The conditions set by the trusted key that captured the entry stay, unless new ones are given.
        """
        changes = {**changes, "applies_when": changes["applies_when"] or current.applies_when}
        details = {"entry": str(current.entry_id), "of": current.resolved_by}
        entry = await self.stores.entries.overrule(current.entry_id, current.resolved_by or "", **changes, by=self.by)
        if entry is not None:
            await self.audit.record("resolution replaced", **details)
            return entry
        new_fields = {field.name: getattr(current, field.name) for field in fields(NewEntry)}
        new_fields |= {"idempotency_key": None, "success_verified": current.success_verified, **changes}
        new_id = await self.capture(NewEntry(**new_fields))
        await self.audit.record("resolution kept beside", **details, beside=str(new_id))
        return await self.stores.entries.get(new_id)

    async def _find_echoed_entry(self, entry_id: EntryId, resolution: str) -> EntryId:
        """Return the entry that a deleted echo repeated. Raises NotFound where `entry_id` was not an echo."""
        echoed_id = await find_echoed_entry(self.stores, entry_id, resolution)
        if echoed_id is None:
            raise NotFound(f"there is no entry {entry_id} in workspace {self.stores.workspace}")
        return echoed_id

    async def get(self, entry_id: EntryId) -> EntryDetails:
        """Return an entry with its history. Raises NotFound."""
        entry_id = EntryId(as_id("entry_id", entry_id))
        return EntryDetails.of(
            await self.stores.entries.get(entry_id), tuple(await self.stores.corrections.history(entry_id))
        )

    @coerce_arguments
    async def unresolved(
        self, *, project_id: str | None = None, limit: int = 20, after: EntryId | None = None
    ) -> list[Entry]:
        """Return unresolved entries of one project or of all, latest first, starting after `after`.

        Raises InvalidInput.
        """
        limit = as_integer("limit", limit, least=1, most=MAX_LISTED)
        last = None if after is None else EntryId(as_id("after", after))
        if project_id is not None:
            check_text("project_id", project_id)
        return await self.stores.entries.unresolved(project_id=project_id, limit=limit, after=last)

    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry and whatever only it supports; counts are updated. Needs only Postgres; cannot be undone.

        Its points leave the index at once if the index is available, else with the next checkpoint or prune; no query
        shows them meanwhile. Raises NotFound.
        """
        await self.stores.entries.delete(EntryId(as_id("entry_id", entry_id)))
        await settle_if_possible(self.stores, whole=False)
        await self.audit.record("entry deleted", entry=str(entry_id))

    async def delete_pattern(self, pattern_id: PatternId) -> None:
        """Delete a pattern with all its entries, in batches like a project. Raises NotFound.

        Also raises it for a pattern that was merged into another: more would be deleted than was meant.
        """
        entries, deleted = self.stores.entries, 0
        pattern_id = PatternId(as_id("pattern_id", pattern_id))
        await self.stores.patterns.get(pattern_id, now=self.stores.clock.now())
        while entry_ids := await entries.ids_of_pattern(pattern_id, limit=_DELETE_BATCH):
            deleted += await self._delete_all(entry_ids)
        await self.audit.record("pattern deleted", pattern=str(pattern_id), entries=deleted)

    async def delete_project(self, project_id: str, *, progress: Progress | None = None) -> int:
        """Delete a project: its entries, whatever only they support, its records; return the number of entries.

        Works in batches: when killed, no entry is half deleted, and the next call continues. Raises NotFound.
        """
        check_text("project_id", project_id)
        deleted = 0
        while True:
            try:
                entry_ids = await self.stores.entries.ids_of_project(project_id, limit=_DELETE_BATCH)
            except NotFound:
                if deleted:  # another process finished it
                    return deleted
                raise
            deleted += await self._delete_all(entry_ids)
            if progress:
                progress(deleted, None)
            if await self.stores.entries.forget_project(project_id):
                await self.audit.record("project deleted", project=project_id, entries=deleted)
                return deleted

    async def _delete_all(self, entry_ids: Sequence[EntryId]) -> int:
        deleted = await self.stores.entries.delete_all(entry_ids)
        await settle_if_possible(self.stores, whole=False)
        return deleted

    @property
    def _preparer(self) -> EntryPreparer:
        return EntryPreparer(
            workspace=self.stores.workspace,
            clock=self.stores.clock,
            redaction=self.redaction,
            by=self.by,
            review=self.review,
        )

    async def _require_storable(
        self,
        prepared: Entry | InvalidInput,
        rejected_gates: Collection[_Gate] = (),
        earlier_events: Collection[_EventKey] = (),
    ) -> Entry:
        """Return the entry. Raises InvalidInput, or RejectionOnRecord for an approval that follows a rejection.

        `rejected_gates` and `earlier_events`: the rejections' gates and all event keys of this call's earlier entries.
        """
        if isinstance(prepared, InvalidInput):
            raise prepared
        is_repeated = any(event in earlier_events for event in _event_keys(prepared))
        is_approval = prepared.entry_type is EntryType.GATE_APPROVAL
        if is_approval and not is_repeated and await self._has_earlier_rejection(prepared, rejected_gates):
            raise RejectionOnRecord(await self._rejection_message(prepared))
        return prepared

    async def _has_earlier_rejection(self, approval: Entry, rejected_gates: Collection[_Gate]) -> bool:
        """Return whether a rejection preceded an approval; False for an approval that is stored already."""
        entries, gate = self.stores.entries, _gate(approval)
        on_record = gate in rejected_gates or await entries.find_rejection(*gate)
        if not on_record or await entries.find_duplicate(approval) is not None:
            return False
        return gate in rejected_gates or approval.low_trust or await self._has_trusted_rejection(gate)

    async def _has_trusted_rejection(self, gate: _Gate) -> bool:
        """Return whether a trusted caller recorded one of the rejections."""
        project_id, gate_type, task_id = gate
        rejections = await self.stores.entries.entries_of_task(
            project_id, task_id, EntryType.GATE_REJECTION, gate_type=gate_type
        )
        return not all([await is_reported_by_agent(self.keys, each) for each in rejections])

    async def _rejection_message(self, approval: Entry) -> str:
        """Return why an approval is not a first attempt, and what to do about it where anything can be done."""
        project_id, gate_type, task_id = _gate(approval)
        task = f" and task {task_id}" if task_id else " (proposals without a task_id count as one task)"
        why = f"a rejection is on record for project {project_id}, gate {gate_type}{task}: this is not a first attempt"
        rejections = await self.stores.entries.entries_of_task(
            project_id, task_id, EntryType.GATE_REJECTION, gate_type=gate_type, limit=1
        )
        if self.by.low_trust and any(each.source != self.by.source for each in rejections):
            return f"{why}, and the approval is not stored"  # an agent must not learn the rejection's id or status
        which = "".join(f" (entry {each.entry_id})" for each in rejections)
        if all(each.status in {EntryStatus.OPEN, EntryStatus.QUARANTINED} for each in rejections):
            return f"{why}; resolve that rejection with the accepted revision instead{which}"
        return f"{why}, and the rejection is {rejections[0].status} already: the approval is not stored{which}"


def _with_resolution(entry: Entry, field: str, resolution: str) -> Entry:
    if field == "solution_steps":
        return replace(entry, solution_steps=resolution)
    return replace(entry, revision_approach=resolution)


def _check_type(entry: Entry, entry_type: EntryType) -> None:
    """Raise Conflict for an entry of another type."""
    if entry.entry_type is not entry_type:
        raise Conflict(
            f"entry {entry.entry_id} is a {entry.entry_type}, but {_RESOLVED_BY[entry_type]} takes a {entry_type}"
        )


_Gate = tuple[str, str, str | None]
_EventKey = tuple[str, ...]


def _event_keys(entry: Entry) -> set[_EventKey]:
    """Return the keys by which a store recognises a repeated entry: its content in its run, and its idempotency key."""
    event = (entry.project_id, entry.task_id or "", entry.run_id or "", entry.content_hash)
    return {event} if entry.idempotency_key is None else {event, (entry.idempotency_key,)}


def _gate(entry: Entry) -> _Gate:
    """Return the project, gate and task that a proposal was decided for."""
    return entry.project_id, entry.gate_type or "", entry.task_id


def _refuse(answer: CaptureResult) -> NoReturn:
    reason = answer.error or "it was refused"
    if answer.field == "idempotency_key":
        raise IdempotencyConflict(f"idempotency_key: {reason} ({answer.entry_id})")
    raise Conflict(reason)
