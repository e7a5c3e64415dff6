"""What happens to tasks and at gates, told as it happens: the entries and outcomes that come of it.

Nothing is held here between two events. What waits for its resolution is an open entry, what was handed out a context;
so a failure may be told by one process and its solution by another, after any restart.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from knowledge.errors import InvalidInput, NotFound, NotOpen
from knowledge.forms import as_id, check_flag
from knowledge.memory.agents import overrules, told_by_agent
from knowledge.memory.capture import KnowledgeCaptureService
from knowledge.memory.limits import check_text
from knowledge.memory.outcomes import OutcomeService, certain, joined_to
from knowledge.memory.redacting import as_stored
from knowledge.memory.texts import normalise, resolution, situation
from knowledge.models import (
    AppliesWhen,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    HandedOut,
    NewEntry,
    PatternId,
)
from knowledge.ports import MOST_OF_TASK, Stores
from knowledge.search.traces import read_trace
from knowledge.turns import aside_if_long

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_NAMED = 5
"""Entries that an answer names."""
_NOT_HANDED_OUT = "tried: passed over what was not handed out for this task and run: {}"
_ON_RECORD = (
    "run_id: this failure is on record for this task, with what solved it; without a run_id it counts as told again."
    " Give each attempt one, and it waits for another solution"
)
_MORE_OF_AGENTS = (
    "failures: of what one agent's key told, the latest failure has this solution; name others that it solved: {}"
)
_MORE_OF_TASK = f"failures: {MOST_OF_TASK} entries of this task were looked at, and there may be more"
_NO_FAILURES = "failures: passed over what is no failure of this task: {}"
_NOT_KEPT = (
    "solution_steps: not kept, as no failure of this task waits for a solution: what is on record of it is {}."
    " Capture the failure with its solution to keep it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventResult:
    """What was kept of an event: the entries opened, resolved or added, and of how many patterns an outcome was told.

    `degraded` says what a hook could not keep, all of the event or a part, and why.
    """

    entry_ids: tuple[EntryId, ...] = ()
    outcomes: int = 0
    degraded: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEventService:
    """Turns events into entries and outcomes. Each event may be told again: it comes to the same.

    `capture` keeps the entries and `outcomes` the outcomes, each in the name of whoever it is of.
    """

    stores: Stores
    capture: KnowledgeCaptureService
    outcomes: OutcomeService

    async def task_failed(
        self,
        *,
        project_id: str,
        task_id: str,
        agent_type: str,
        failure_description: str,
        error_message: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        task_description: str | None = None,
        applies_when: AppliesWhen | None = None,
        run_id: str | None = None,
        tried: Collection[UUID | str] | None = None,
    ) -> EventResult:
        """Open a failure until the task is solved; what was handed out for this run and is untold of did not work.

        `tried`: the patterns that the agent went by, whatever was told of them in this run before; of others nothing is
        told. Without it, nothing is told of rivals. Raises InvalidInput.
        """
        tried = _as_tried(tried)
        entry_id = await self.capture.capture(
            NewEntry(
                entry_type=EntryType.FAILURE_SOLUTION,
                project_id=project_id,
                task_id=task_id,
                agent_type=agent_type,
                failure_description=failure_description,
                error_message=error_message,
                task_type=task_type,
                technology=technology,
                task_description=task_description,
                applies_when=applies_when,
                run_id=run_id,
            )
        )
        told = await self._tell(project_id, task_id, run_id, worked=False, tried=tried)
        again = await self._if_solved_before(entry_id) if run_id is None else None
        return replace(told, entry_ids=(entry_id,), degraded=_joined(again, told.degraded))

    async def _if_solved_before(self, entry_id: EntryId) -> str | None:
        """Return what to say of a failure that is on record with its solution: nobody can tell whether it came back.

        Nothing to an agent, which learns of no entry what became of it.
        """
        if self.capture.by.low_trust:
            return None
        with suppress(NotFound):
            return _ON_RECORD if resolution(await self.stores.entries.get(entry_id)) else None
        return None

    async def task_solved(
        self,
        *,
        project_id: str,
        task_id: str,
        solution_steps: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        run_id: str | None = None,
        tried: Collection[UUID | str] | None = None,
        failures: Collection[UUID | str] | None = None,
    ) -> EventResult:
        """Resolve the open failures of a task, of whichever run; what was handed out since this run failed worked.

        Of one that several runs told alike, only this run's or the latest, as it was solved once: others are abandoned,
        a key's of low trust before all others. Of what such a key told, only the latest has a solution that somebody
        else tells: whoever may tell failures would have it for any that it makes up. `failures`: the entries of those
        that this solved, where it did not solve all, or more of those; others stay open.

        Without `solution_steps` failures stay open: that it works is no solution for others. `tried`: the patterns
        that the agent went by; of others nothing is told. Without it, of rivals only the one that `solution_steps`
        repeat worked. Raises InvalidInput.
        """
        _check(project_id=project_id, task_id=task_id, run_id=run_id)
        tried = _as_tried(tried)
        only = None if failures is None else {as_id("failures", entry_id) for entry_id in failures}
        resolved = EventResult()
        if solution_steps is not None:
            solution_steps = self._text("solution_steps", solution_steps)
            if verified_by is None:
                raise InvalidInput("verified_by", "is required: what showed that the solution works?")
            resolve = partial(
                replace(self.capture, solved_in=run_id).resolve_failure,
                solution_steps=solution_steps,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
            )
            known = await self.stores.entries.of_task(project_id, task_id, EntryType.FAILURE_SOLUTION)
            resolved = await self._resolve_failures(known, only, resolve, by=solution_steps, run_id=run_id)
        told = await self._tell(project_id, task_id, run_id, worked=True, tried=tried, solution=solution_steps)
        return replace(told, entry_ids=resolved.entry_ids, degraded=_joined(resolved.degraded, told.degraded))

    async def _resolve_failures(
        self,
        known: Sequence[Entry],
        only: Collection[UUID] | None,
        resolve: Callable[[EntryId], Awaitable[EntryId]],
        *,
        by: str,
        run_id: str | None,
    ) -> EventResult:
        """Resolve failures of a task that wait for the solution `by`: all of them, or `only` those that it solved."""
        meant = [entry for entry in known if only is None or entry.entry_id in only]
        waiting = await self._to_resolve(meant, by, run_id)
        left = self._more_of_agents(waiting) if only is None else []
        resolved = await _resolve_each([entry for entry in waiting if entry not in left], resolve)
        dropped = _NOT_KEPT.format(_statuses(meant)) if meant and not resolved else None
        strange = sorted(map(str, set(only or ()) - {entry.entry_id for entry in known}))
        passed_over = _NO_FAILURES.format(", ".join(strange)) if strange else None
        more = _MORE_OF_AGENTS.format(", ".join(str(entry.entry_id) for entry in left[:_NAMED])) if left else None
        cut = _MORE_OF_TASK if len(known) >= MOST_OF_TASK else None
        return EventResult(entry_ids=resolved, degraded=_joined(dropped, passed_over, more, cut))

    def _more_of_agents(self, waiting: Sequence[Entry]) -> list[Entry]:
        """Return of what waits for a resolution what other keys of low trust told before their latest.

        All of what such a key told, where one has it already: the event is told again.
        """
        theirs = [entry for entry in waiting if entry.source not in {None, self.capture.by.source}]
        heard = {entry.source for entry in theirs if not _is_unresolved(entry)}
        more = []
        for entry in filter(_is_unresolved, theirs):
            if entry.source in heard:
                more.append(entry)
            heard.add(entry.source)
        return more

    async def gate_decided(
        self,
        *,
        project_id: str,
        gate_type: str,
        accepted: bool,
        proposal: str | None = None,
        approach: str | None = None,
        human_feedback: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        task_description: str | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
    ) -> EventResult:
        """Open a rejection, resolve those on record with what was accepted, or keep a first-attempt approval.

        `approach` is what was accepted, the proposal where it is not given. A rejection needs `human_feedback`; that of
        an acceptance is not kept. Raises InvalidInput, or RejectionOnRecord for another acceptance where the rejections
        of the same project, gate and task have their revision. What a key of low trust told of a gate does not make an
        acceptance by somebody else a second attempt; it has what was accepted, its latest.
        """
        _check(project_id=project_id, gate_type=gate_type, task_id=task_id, run_id=run_id)
        check_flag("accepted", accepted)
        decision = NewEntry(
            entry_type=EntryType.GATE_APPROVAL if accepted else EntryType.GATE_REJECTION,
            project_id=project_id,
            gate_type=gate_type,
            proposal=proposal,
            approved_approach=approach or proposal if accepted else None,
            human_feedback=None if accepted else human_feedback,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            task_description=task_description,
            task_id=task_id,
            run_id=run_id,
            verified_by=verified_by,
            when_to_try=when_to_try,
            applies_when=applies_when,
        )
        return (
            await self._accept(decision) if accepted else EventResult(entry_ids=(await self.capture.capture(decision),))
        )

    async def _accept(self, approval: NewEntry) -> EventResult:
        """Give the rejections of a gate that wait for it what was accepted; keep the approval of a first attempt."""
        if approval.approved_approach is None:
            raise InvalidInput("approach", "is required: what was accepted?")
        approach = self._text("approach", approval.approved_approach)
        rejections = await self.stores.entries.of_task(
            approval.project_id, approval.task_id, EntryType.GATE_REJECTION, gate_type=approval.gate_type
        )
        waiting = await self._to_resolve(rejections, approach, approval.run_id)
        left = self._more_of_agents(waiting)
        resolve = partial(
            self.capture.resolve_gate_rejection,
            revision_approach=approach,
            verified_by=approval.verified_by,
            when_to_try=approval.when_to_try,
            applies_when=approval.applies_when,
        )
        resolved = await _resolve_each([entry for entry in waiting if entry not in left], resolve)
        if resolved and not await self._is_first(rejections):
            return EventResult(entry_ids=resolved)
        return EventResult(
            entry_ids=(await self.capture.capture(replace(approval, approved_approach=approach)), *resolved)
        )

    async def _is_first(self, rejections: Sequence[Entry]) -> bool:
        """Return whether an acceptance is of a first attempt though these are on record: agents' keys alone say so."""
        heard = [await told_by_agent(self.capture.keys, entry) for entry in rejections]
        return not self.capture.by.low_trust and all(heard)

    async def _tell(
        self,
        project_id: str,
        task_id: str,
        run_id: str | None,
        *,
        worked: bool,
        tried: Collection[PatternId] | None,
        solution: str | None = None,
    ) -> EventResult:
        """Tell the outcome of what was handed out for a run: of what was `tried`, else of what is untold of since.

        What was tried and not handed out is named in `degraded`.
        """
        if tried is None:
            handed_out = await self.stores.contexts.untold(project_id, task_id, run_id)
            told_of = await certain(self.stores, handed_out, solution)
        else:
            handed_out = await self.stores.contexts.handed_out(project_id, task_id, run_id)
            told_of = {await self._as_handed_out(pattern_id, handed_out) for pattern_id in tried}
        done: set[PatternId] = set()
        for context in handed_out:
            for pattern_id in told_of.intersection(context.pattern_ids) - done:
                with suppress(NotFound):  # it went meanwhile: there is nothing left to rank
                    await self.outcomes.record_outcome(context.context_id, pattern_id, worked=worked, run_id=run_id)
                    done.add(pattern_id)
        strange = [] if tried is None else sorted(map(str, told_of - {p for c in handed_out for p in c.pattern_ids}))
        return EventResult(outcomes=len(done), degraded=_NOT_HANDED_OUT.format(", ".join(strange)) if strange else None)

    async def _as_handed_out(self, pattern_id: PatternId, handed_out: Sequence[HandedOut]) -> PatternId:
        """Return a pattern as it stands in contexts: where it was joined to another since, that one may."""
        if any(pattern_id in context.pattern_ids for context in handed_out):
            return pattern_id
        joined = await joined_to(self.stores, pattern_id)
        return joined if any(joined in context.pattern_ids for context in handed_out) else pattern_id

    async def _to_resolve(self, entries: Sequence[Entry], by: str, run_id: str | None) -> list[Entry]:
        """Return those that wait for it, each once, and those that have this very one: an event may be told again.

        Those, too, that an agent resolved before somebody trusted did. What waits for a person waits for its resolution
        as well, until it has one: it is looked at with it. Open ones that tell again what another run told are
        abandoned first: a kill in between leaves what is to be resolved.
        """
        who, keys = self.capture.by, self.capture.keys
        read = sum(len(situation(entry)) for entry in entries if entry.status is EntryStatus.OPEN)
        repeated = await aside_if_long(read, partial(_repeated, entries, run_id))
        if repeated:
            await self.stores.entries.abandon_repeated([entry.entry_id for entry in repeated])
        return [
            entry
            for entry in entries
            if entry not in repeated
            and (_is_unresolved(entry) or resolution(entry) == by or await overrules(who, keys, entry))
        ]

    def _text(self, field: str, text: str) -> str:
        return as_stored(field, text, redaction=self.capture.redaction)


async def _resolve_each(
    entries: Iterable[Entry], resolve: Callable[[EntryId], Awaitable[EntryId]]
) -> tuple[EntryId, ...]:
    """Resolve entries one after the other; return those that have the resolution."""
    resolved: list[EntryId] = []
    for entry in entries:
        with suppress(NotOpen, NotFound):  # somebody else told of it meanwhile, and was first
            resolved.append(await resolve(entry.entry_id))
    return tuple(dict.fromkeys(resolved))


def _joined(*notes: str | None) -> str | None:
    """Return several notes of what was not kept as one; None where there is none."""
    return "; ".join(filter(None, notes)) or None


def _statuses(entries: Iterable[Entry]) -> str:
    """Return what became of entries, in words."""
    words = {EntryStatus.ABANDONED: "abandoned"}
    return " or ".join(sorted({words.get(entry.status, "resolved in other words") for entry in entries}))


def _as_tried(tried: Collection[UUID | str] | None) -> list[PatternId] | None:
    return None if tried is None else [PatternId(as_id("tried", pattern_id)) for pattern_id in tried]


def _check(**told: str | None) -> None:
    for name, value in told.items():
        if value is not None:
            check_text(name, value)


def _repeated(entries: Iterable[Entry], run_id: str | None) -> list[Entry]:
    """Return the open entries that tell what another one tells: of each situation all but that of a run, or the first.

    What takes several runs was solved once: resolved in each, it would count as a success in those that failed, too.
    One of low trust takes the place of no other.
    """
    still_open = [entry for entry in entries if entry.status is EntryStatus.OPEN]
    still_open.sort(key=lambda entry: (entry.low_trust, entry.run_id != run_id))
    kept: set[str] = set()
    repeated = []
    for entry in still_open:
        told = _telling(situation(entry))
        if told in kept:
            repeated.append(entry)
        kept.add(told)
    return repeated


def _telling(text: str) -> str:
    """Return what two runs tell alike: the words; of a stack trace but for its numbers, as traces are merged."""
    told = normalise(text)
    return _NUMBER.sub("0", told) if read_trace(text) else told


def _is_unresolved(entry: Entry) -> bool:
    held_back = entry.status is EntryStatus.QUARANTINED and not resolution(entry)
    return entry.status is EntryStatus.OPEN or held_back
