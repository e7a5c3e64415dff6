"""Capture: learning moments, checked whole and staged in Postgres. Needs neither the embedder nor the index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

from knowledge.access.keys import KeyStore
from knowledge.errors import Conflict, IdempotencyConflict, InvalidInput, NotFound, NotOpen, RejectionOnRecord
from knowledge.forms import as_id, as_whole
from knowledge.memory.agents import overrules, told_by_agent, without_fate
from knowledge.memory.limits import check_text
from knowledge.memory.outcomes import taken_for_outcome, told_before
from knowledge.memory.preparing import Preparing
from knowledge.memory.settling import settle_if_possible
from knowledge.models import (
    TRUSTED,
    AppliesWhen,
    Captured,
    CaptureOutcome,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    NewEntry,
    PatternId,
    Provenance,
    Review,
)
from knowledge.ports import Progress, Stores
from knowledge.provenance import UNHEARD, Auditor
from knowledge.steps import step
from knowledge.turns import aside_if_long

MAX_LISTED = 1000
_SLICE = 500
"""Entries deleted at a time."""
_NOT_FOR_AGENTS = "entry {} takes no such resolution from this key"
_RESOLVED_BY = {EntryType.FAILURE_SOLUTION: "resolve_failure", EntryType.GATE_REJECTION: "resolve_gate_rejection"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeCaptureService:
    """Captures learning moments during project execution. `redaction`: without the secrets in their texts.

    `by`: who captures. Of what comes by a key of low trust, `review` says what waits for a person. `solved_in`: the run
    in which what is resolved was solved, where that may be another one than it failed in. `keys`: whose an earlier
    resolution is; without, none gives way.
    """

    stores: Stores
    redaction: bool = True
    by: Provenance = TRUSTED
    solved_in: str | None = None
    review: Review = Review.SUSPICIOUS
    audit: Auditor = UNHEARD
    keys: KeyStore | None = None

    async def capture_failure_solution(
        self,
        *,
        project_id: str,
        agent_type: str,
        failure_description: str,
        task_type: str | None = None,
        error_message: str | None = None,
        solution_steps: str | None = None,
        technology: str | None = None,
        success_verified: bool = False,
        verified_by: str | None = None,
        task_description: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> EntryId:
        """Capture a failed test or task; without a verified solution it stays open until `resolve_failure`.

        Returns the entry's id; of a repeated event, the id it already has. Raises InvalidInput or IdempotencyConflict.
        """
        return await self.capture(
            NewEntry(
                entry_type=EntryType.FAILURE_SOLUTION,
                project_id=project_id,
                agent_type=agent_type,
                task_type=task_type,
                technology=technology,
                task_description=task_description,
                failure_description=failure_description,
                error_message=error_message,
                solution_steps=solution_steps,
                success_verified=success_verified,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
                task_id=task_id,
                run_id=run_id,
                idempotency_key=idempotency_key,
            )
        )

    async def resolve_failure(
        self,
        entry_id: EntryId,
        *,
        solution_steps: str,
        verified_by: str,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
    ) -> EntryId:
        """Give an open failure its verified solution and stage it. Raises NotFound, NotOpen or InvalidInput.

        `applies_when` takes the place of what was told with the failure; a key of low trust may tell it of its own.

        Returns the entry's id; of a solution that had been handed out for this very task, the id of the entry it
        repeats: that is an outcome of its pattern, and no new evidence. An agent's solution gives way to one of who may
        do more; where it is embedded already, that is an entry of its own, whose id this returns.
        """
        return await self._resolve(
            entry_id,
            EntryType.FAILURE_SOLUTION,
            "solution_steps",
            solution_steps,
            verified_by=self._preparing.as_stored("verified_by", verified_by),
            when_to_try=when_to_try,
            applies_when=applies_when,
        )

    async def capture_gate_rejection(
        self,
        *,
        project_id: str,
        gate_type: str,
        human_feedback: str,
        revision_approach: str | None = None,
        proposal: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        task_description: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> EntryId:
        """Capture that a human turned a proposal down; without the accepted revision it stays open until resolved.

        Returns the entry's id; of a repeated event, the id it already has. Raises InvalidInput or IdempotencyConflict.
        """
        return await self.capture(
            NewEntry(
                entry_type=EntryType.GATE_REJECTION,
                project_id=project_id,
                gate_type=gate_type,
                proposal=proposal,
                human_feedback=human_feedback,
                revision_approach=revision_approach,
                agent_type=agent_type,
                task_type=task_type,
                technology=technology,
                task_description=task_description,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
                task_id=task_id,
                run_id=run_id,
                idempotency_key=idempotency_key,
            )
        )

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

        Returns the entry's id; where an agent's revision is embedded already, that of a new entry, as for failures.
        """
        return await self._resolve(
            entry_id,
            EntryType.GATE_REJECTION,
            "revision_approach",
            revision_approach,
            verified_by=verified_by if verified_by is None else self._preparing.as_stored("verified_by", verified_by),
            when_to_try=when_to_try,
            applies_when=applies_when,
        )

    async def capture_gate_approval(
        self,
        *,
        project_id: str,
        gate_type: str,
        approved_approach: str,
        proposal: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        task_description: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> EntryId:
        """Capture a proposal that passed its gate at the first attempt.

        Returns the entry's id; of a repeated event, the id it already has. Raises InvalidInput, IdempotencyConflict, or
        RejectionOnRecord where the same project, gate and task was turned down before.
        """
        return await self.capture(
            NewEntry(
                entry_type=EntryType.GATE_APPROVAL,
                project_id=project_id,
                gate_type=gate_type,
                proposal=proposal,
                approved_approach=approved_approach,
                agent_type=agent_type,
                task_type=task_type,
                technology=technology,
                task_description=task_description,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
                task_id=task_id,
                run_id=run_id,
                idempotency_key=idempotency_key,
            )
        )

    @step("capture")
    async def capture(self, entry: NewEntry) -> EntryId:
        """Capture one entry of any type. Returns and raises as the methods for each type do."""
        (prepared,) = await self._preparing.prepared([entry])
        (answer,) = await self._add([await self._checked(prepared)])
        if answer.outcome is CaptureOutcome.REFUSED or answer.entry_id is None:
            _refuse(answer)
        return answer.entry_id

    @step("capture_all")
    async def capture_all(self, entries: Sequence[NewEntry]) -> list[Captured]:
        """Capture many entries, each on its own: a refused one says why and stops no other. In order."""
        answers: list[Captured | None] = []
        accepted: list[Entry] = []
        turned_down: set[_Gate] = set()
        before: set[_Event] = set()
        for prepared in await self._preparing.prepared(entries):
            try:
                entry = await self._checked(prepared, turned_down, before)
            except (InvalidInput, Conflict) as error:
                field = error.field if isinstance(error, InvalidInput) else None
                reason = error.reason if isinstance(error, InvalidInput) else str(error)
                answers.append(Captured(outcome=CaptureOutcome.REFUSED, field=field, error=reason))
                continue
            if entry.entry_type is EntryType.GATE_REJECTION:
                turned_down.add(_gate(entry))
            before |= _events(entry)
            accepted.append(entry)
            answers.append(None)
        stored = iter(await self._add(accepted))
        return [answer or next(stored) for answer in answers]

    @step("store_entries")
    async def _add(self, entries: Sequence[Entry]) -> list[Captured]:
        """Store entries; one that repeats what was handed out for its own task becomes an outcome of that."""
        answers = await self.stores.entries.add(entries)
        told = [await self._taken(entry, answer) for entry, answer in zip(entries, answers, strict=True)]
        return [without_fate(answer, self.by) for answer in told]

    async def _taken(self, entry: Entry, answer: Captured) -> Captured:
        if answer.informed and not entry.suspicions:
            return await self._or_outcome(entry, answer)
        if entry.low_trust or answer.outcome is not CaptureOutcome.DUPLICATE or answer.entry_id is None:
            return answer
        if answer.status is EntryStatus.ABANDONED and entry.run_id is None:  # of the same run it is the same event
            reopened = await self.stores.entries.reopen(answer.entry_id, entry)
            return replace(answer, status=entry.status) if reopened else answer
        waits = answer.status in {EntryStatus.QUARANTINED, EntryStatus.OPEN}
        if not waits or not await self.stores.entries.vouch(answer.entry_id, entry):
            return answer
        if answer.status is EntryStatus.QUARANTINED:
            await self.audit.note("entry approved", entry=str(answer.entry_id), told="again, by who is trusted")
        return replace(answer, status=entry.status)

    async def _or_outcome(self, entry: Entry, answer: Captured) -> Captured:
        stored = replace(entry, entry_id=answer.entry_id or entry.entry_id)
        echoed = await taken_for_outcome(self.stores, stored)
        if echoed is None:
            return answer
        return replace(answer, outcome=CaptureOutcome.DUPLICATE, entry_id=echoed, status=EntryStatus.EMBEDDED)

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
    ) -> EntryId:
        """Give an open entry of a type what resolves it, told in a field, and stage it; return whose evidence it is."""
        entry_id = EntryId(as_id("entry_id", entry_id))
        length = len(str(resolution))  # whatever it is: what is no text is refused there
        resolution = await aside_if_long(length, lambda: self._preparing.as_stored(field, resolution))
        when_to_try = when_to_try if when_to_try is None else self._preparing.as_stored("when_to_try", when_to_try)
        if applies_when is not None:
            self._preparing.check_conditions(applies_when)
        entries = self.stores.entries
        told: dict[str, Any] = {field: resolution, "verified_by": verified_by, "when_to_try": when_to_try}
        told["applies_when"] = applies_when
        try:
            found = await entries.get(entry_id)
            _check_type(found, entry_type)
            if applies_when is not None and self.by.low_trust and found.source != self.by.source:
                raise InvalidInput("applies_when", "is told by who captured the entry, or by a key of more trust")
            if getattr(found, field) != resolution and await overrules(self.by, self.keys, found):
                entry = await self._overruled(found, told)
            else:
                shown = (resolution, verified_by, when_to_try)
                by = await aside_if_long(length, lambda: self._preparing.judged(*shown))
                entry = await entries.resolve(entry_id, **told, by=by)
        except NotFound:
            return await self._told_before(entry_id, resolution)
        except Conflict:
            if self.by.low_trust:  # who reads nothing learns not what became of an entry
                raise NotOpen(_NOT_FOR_AGENTS.format(entry_id)) from None
            raise
        if entry.status is not EntryStatus.STAGED:
            return entry.entry_id
        return await taken_for_outcome(self.stores, entry, solved_in=self.solved_in) or entry.entry_id

    async def _overruled(self, found: Entry, told: Mapping[str, Any]) -> Entry:
        """Return an entry with a resolution in the place of an agent's, or that of a new one where it is embedded.

        When it applies stays as who captured it told, who is trusted, unless that is told anew.
        """
        told = {**told, "applies_when": told["applies_when"] or found.applies_when}
        noted = {"entry": str(found.entry_id), "of": found.resolved_by}
        entry = await self.stores.entries.overrule(found.entry_id, found.resolved_by or "", **told, by=self.by)
        if entry is not None:
            await self.audit.note("resolution replaced", **noted)
            return entry
        situation = {field.name: getattr(found, field.name) for field in fields(NewEntry)}
        situation |= {"idempotency_key": None, "success_verified": found.success_verified, **told}
        beside = await self.capture(NewEntry(**situation))
        await self.audit.note("resolution kept beside", **noted, beside=str(beside))
        return await self.stores.entries.get(beside)

    async def _told_before(self, entry_id: EntryId, resolution: str) -> EntryId:
        """Return the entry that one repeats which is no more, for it was an echo. Raises NotFound for any other."""
        echoed = await told_before(self.stores, entry_id, resolution)
        if echoed is None:
            raise NotFound(f"there is no entry {entry_id} in workspace {self.stores.workspace}")
        return echoed

    async def get(self, entry_id: EntryId) -> Entry:
        """Return an entry. Raises NotFound."""
        return await self.stores.entries.get(EntryId(as_id("entry_id", entry_id)))

    async def unresolved(
        self, *, project_id: str | None = None, limit: int = 20, after: EntryId | None = None
    ) -> list[Entry]:
        """Return entries that wait for their resolution, of a project or of all, the latest first, from `after` on.

        Raises InvalidInput.
        """
        limit = as_whole("limit", limit, least=1, most=MAX_LISTED)
        last = None if after is None else EntryId(as_id("after", after))
        if project_id is not None:
            check_text("project_id", project_id)
        return await self.stores.entries.unresolved(project_id=project_id, limit=limit, after=last)

    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry with what rests on it alone; counts follow. Needs Postgres only, and is final.

        Its points go from the index at once where that answers, else with the next checkpoint or prune; no query shows
        them. Raises NotFound.
        """
        await self.stores.entries.delete(EntryId(as_id("entry_id", entry_id)))
        await settle_if_possible(self.stores, whole=False)
        await self.audit.note("entry deleted", entry=str(entry_id))

    async def delete_pattern(self, pattern_id: PatternId) -> None:
        """Delete a pattern with all the entries that are evidence for it, as a project is deleted. Raises NotFound.

        So it does for one that was joined to another: more would go than was meant.
        """
        entries, gone = self.stores.entries, 0
        pattern_id = PatternId(as_id("pattern_id", pattern_id))
        await self.stores.patterns.get(pattern_id, now=self.stores.clock.now())
        while found := await entries.of_pattern(pattern_id, limit=_SLICE):
            gone += await self._delete_all(found)
        await self.audit.note("pattern deleted", pattern=str(pattern_id), entries=gone)

    async def delete_project(self, project_id: str, *, progress: Progress | None = None) -> int:
        """Delete a project everywhere: its entries, what rests on them alone, its records; return how many entries.

        Some at a time: killed, it leaves no entry half deleted; called again, it goes on. Raises NotFound.
        """
        check_text("project_id", project_id)
        gone = 0
        while True:
            try:
                found = await self.stores.entries.of_project(project_id, limit=_SLICE)
            except NotFound:
                if gone:  # somebody else finished it
                    return gone
                raise
            gone += await self._delete_all(found)
            if progress:
                progress(gone, None)
            if await self.stores.entries.forget_project(project_id):
                await self.audit.note("project deleted", project=project_id, entries=gone)
                return gone

    async def _delete_all(self, entry_ids: Sequence[EntryId]) -> int:
        gone = await self.stores.entries.delete_all(entry_ids)
        await settle_if_possible(self.stores, whole=False)
        return gone

    @property
    def _preparing(self) -> Preparing:
        return Preparing(
            workspace=self.stores.workspace,
            clock=self.stores.clock,
            redaction=self.redaction,
            by=self.by,
            review=self.review,
        )

    async def _checked(
        self,
        prepared: Entry | InvalidInput,
        turned_down: Collection[_Gate] = (),
        before: Collection[_Event] = (),
    ) -> Entry:
        """Return an entry that may be stored beside what is stored.

        `turned_down`: the gates of rejections that are captured along with it; `before`: what those are known again by.
        """
        if isinstance(prepared, InvalidInput):
            raise prepared
        told_again = any(event in before for event in _events(prepared))
        is_approval = prepared.entry_type is EntryType.GATE_APPROVAL
        if is_approval and not told_again and await self._was_turned_down(prepared, turned_down):
            raise RejectionOnRecord(await self._on_record(prepared))
        return prepared

    async def _was_turned_down(self, approval: Entry, turned_down: Collection[_Gate]) -> bool:
        """Return whether a rejection came before an approval: not before one that is stored and told again."""
        entries, gate = self.stores.entries, _gate(approval)
        on_record = gate in turned_down or await entries.rejection_on_record(*gate)
        if not on_record or await entries.known(approval) is not None:
            return False
        return gate in turned_down or approval.low_trust or await self._was_by_trusted(gate)

    async def _was_by_trusted(self, gate: _Gate) -> bool:
        """Return whether somebody trusted told a rejection: no agent's key says that there was a first attempt."""
        project_id, gate_type, task_id = gate
        rejections = await self.stores.entries.of_task(
            project_id, task_id, EntryType.GATE_REJECTION, gate_type=gate_type
        )
        return not all([await told_by_agent(self.keys, each) for each in rejections])

    async def _on_record(self, approval: Entry) -> str:
        """Return why an approval was no first attempt, and what to do where something can be done."""
        project_id, gate_type, task_id = _gate(approval)
        task = f" and task {task_id}" if task_id else ", where all proposals without a task_id are one,"
        why = f"a rejection is on record for project {project_id}, gate {gate_type}{task}, so this was no first attempt"
        rejections = await self.stores.entries.of_task(
            project_id, task_id, EntryType.GATE_REJECTION, gate_type=gate_type, limit=1
        )
        if self.by.low_trust and any(each.source != self.by.source for each in rejections):
            return f"{why}: this approval is not kept"  # who reads nothing learns no id of it, nor what became of it
        which = "".join(f" (entry {each.entry_id})" for each in rejections)
        if all(each.status in {EntryStatus.OPEN, EntryStatus.QUARANTINED} for each in rejections):
            return f"{why}: resolve that rejection with the accepted revision instead{which}"
        return f"{why}, and the rejection is {rejections[0].status} already: this approval is not kept{which}"


def _check_type(found: Entry, entry_type: EntryType) -> None:
    """Raise Conflict for an entry that is resolved otherwise."""
    if found.entry_type is not entry_type:
        raise Conflict(
            f"entry {found.entry_id} is a {found.entry_type}: {_RESOLVED_BY[entry_type]} is for a {entry_type}"
        )


_Gate = tuple[str, str, str | None]
_Event = tuple[str, ...]


def _events(entry: Entry) -> set[_Event]:
    """Return what a store knows an entry again by: what it says of which task and run, and its key."""
    event = (entry.project_id, entry.task_id or "", entry.run_id or "", entry.content_hash)
    return {event} if entry.idempotency_key is None else {event, (entry.idempotency_key,)}


def _gate(entry: Entry) -> _Gate:
    """Return where a proposal was decided on: at which project's gate, for which task."""
    return entry.project_id, entry.gate_type or "", entry.task_id


def _refuse(answer: Captured) -> NoReturn:
    reason = answer.error or "it was refused"
    if answer.field == "idempotency_key":
        raise IdempotencyConflict(f"idempotency_key: {reason} ({answer.entry_id})")
    raise Conflict(reason)
