"""Events of tasks and gates, turned into entries and outcomes as they happen.

No state is kept between two events: an unresolved failure is an open entry, what was handed out is a context. So one
process may report a failure and another its solution, after any restart.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from hardwon.coercion import coerce_arguments
from hardwon.errors import InvalidInput, NotFound, NotOpen
from hardwon.models.reports import EventResult
from hardwon.validation import as_id, check_flag, check_text
from knowledge.memory.capture.outcomes import OutcomeService, attributable_pattern, echoed_pattern, merge_target
from knowledge.memory.capture.redaction import clean_text
from knowledge.memory.capture.service import KnowledgeCaptureService
from knowledge.memory.capture.trust import can_overrule, is_reported_by_agent
from knowledge.memory.rules.conditions import check_conditions
from knowledge.memory.rules.embedding_text import normalise, resolution, situation
from knowledge.memory.rules.validation import validate
from knowledge.models import (
    AppliesWhen,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    NewEntry,
    PatternId,
    StoredContext,
)
from knowledge.models.runs import is_of_attempt, is_same_day, run_of_day
from knowledge.ports import MAX_ENTRIES_OF_TASK, Stores
from knowledge.runtime.scheduling import run_in_thread_if_long
from knowledge.text.fitting import fit_ends
from knowledge.text.stack_traces import read_trace
from knowledge.text.tokens import token_texts

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


def _fit(text: Any) -> Any:
    """Return a text without its middle where it is too long for a field: most of a lesson is better than none of it."""
    return fit_ends(text, "cut: there was more here") if isinstance(text, str) else text


_SHORT_WORD = 3
_COMMON_WORDS = frozenset(
    {
        *("also", "been", "before", "does", "each", "from", "have", "into", "more", "once", "only", "over", "same"),
        *("than", "that", "their", "them", "then", "there", "they", "this", "used", "uses", "using", "were", "what"),
        *("when", "where", "which", "while", "will", "with", "without"),
    }
)
_MAX_NAMED = 5
"""Entries named in a message at most."""
_NOT_HANDED_OUT = "tried: ignored patterns that were not handed out for this task and run: {}"
_ON_RECORD = (
    "run_id: this failure is on record for this task together with its solution, and without a run_id it counts as the"
    " same event. Give each attempt a run_id, and it stays open for another solution"
)
_MORE_OF_AGENTS = "failures: open failures captured by agents' keys did not get this solution; name those it solved: {}"
_MORE_OF_TASK = f"failures: only {MAX_ENTRIES_OF_TASK} entries of this task were looked at; there may be more"
_NO_FAILURES = "failures: ignored ids that are not a failure of this task: {}"
_SEVERAL_OPEN = (
    "failures: not stored, since several failures of this task are open and nothing says which of them it solved:"
    " name it, or give the run_id it failed in: {}"
)
_NOT_KEPT = (
    "solution_steps: not stored, since no failure of this task is open: those on record are {}."
    " Capture the failure together with its solution to store it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEventService:
    """Turns events into entries and outcomes. Idempotent: an event may be reported again.

    `capture` stores the entries and `outcomes` the outcomes, each with the caller's provenance.
    """

    stores: Stores
    capture: KnowledgeCaptureService
    outcomes: OutcomeService

    @coerce_arguments
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
        """Open a failure until the task is solved; the first pattern handed out for this run did not work.

        `tried`: the patterns that the agent followed; only these get an outcome, which replaces one of the same run.
        A run without a hint failed unaided. Raises InvalidInput.
        """
        tried = _parse_tried(tried)
        failure = NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id=project_id,
            task_id=task_id,
            agent_type=agent_type,
            failure_description=_fit(failure_description),
            error_message=_fit(error_message),
            task_type=task_type,
            technology=technology,
            task_description=_fit(task_description),
            applies_when=applies_when,
            run_id=run_id,
        )
        entry_id, already_resolved = await self._open_failure(failure)
        result = await self._record_outcomes(project_id, task_id, run_id, worked=False, tried=tried)
        note = _ON_RECORD if already_resolved and run_id is None else None
        return replace(
            result,
            entry_ids=(entry_id,),
            already_resolved=already_resolved,
            degraded=_join_notes(note, result.degraded),
        )

    async def _open_failure(self, failure: NewEntry) -> tuple[EntryId, bool]:
        """Capture a failure; return its entry, and whether it is on record together with its solution.

        A run id that was used on another day is of another run: attempts are numbered anew. An agent is not told of
        solutions, since it must not learn an entry's status.
        """
        entry_id = await self.capture.capture(failure)
        with suppress(NotFound):
            entry = await self.stores.entries.get(entry_id)
            now = self.stores.clock.now()
            run_id = failure.run_id
            if run_id is not None and entry.run_id == run_id and not is_same_day(entry.captured_at, now):
                entry_id = await self.capture.capture(replace(failure, run_id=run_of_day(run_id, now)))
                entry = await self.stores.entries.get(entry_id)
            return entry_id, not self.capture.by.low_trust and bool(resolution(entry))
        return entry_id, False

    @coerce_arguments
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
        """Resolve the open failure of a task that a solution is about; one pattern handed out since it failed worked.

        It is that of this run, else of the same run id on another day, else the only one; of several, the one whose
        words the solution tells. Where none fits better, none is resolved, and `open_entry_ids` has them. A failure
        that several runs reported was solved once: only this run's or the latest is resolved, the others are abandoned,
        those of low-trust keys first. `failures`: the entries that this solved, one or more. An event that repeats a
        solution on record changes no entry and says so in `already_resolved`.

        Without `solution_steps` failures stay open: success alone is not a solution for others. But where one pattern
        was `tried`, its solution is what solved the failure. `tried`: the patterns that the agent followed; only these
        get an outcome. Without it, the one that `solution_steps` repeat worked, else the first. A run without a hint
        was solved unaided. Raises InvalidInput.
        """
        when_to_try = _fit(when_to_try)
        _check_texts(project_id=project_id, task_id=task_id, run_id=run_id)
        _check_texts(applies_when, verified_by=verified_by, when_to_try=when_to_try)
        tried = _parse_tried(tried)
        only = None if failures is None else {as_id("failures", entry_id) for entry_id in failures}
        steps, advice = None, await self._followed_pattern(project_id, task_id, run_id, tried, solution_steps)
        if solution_steps is not None:
            steps = solution_steps = self._clean_text("solution_steps", _fit(solution_steps))
            if verified_by is None:
                raise InvalidInput("verified_by", "is required: name the test or check that verified the solution")
        elif advice is not None:
            steps, verified_by = resolution(advice), verified_by or f"pattern {advice.pattern_id}"
        resolved = EventResult()
        if steps is not None and verified_by is not None:
            resolve = partial(
                replace(self.capture, solved_in=run_id).resolve_failure,
                solution_steps=steps,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
            )
            failures_of_task = await self.stores.entries.entries_of_task(
                project_id, task_id, EntryType.FAILURE_SOLUTION
            )
            told = " ".join(filter(None, (steps, verified_by, when_to_try, situation(advice) if advice else None)))
            resolved = await self._resolve_failures(
                failures_of_task, only, resolve, solution=steps, told=told, run_id=run_id
            )
        result = await self._record_outcomes(
            project_id, task_id, run_id, worked=True, tried=tried, solution=solution_steps
        )
        return replace(resolved, outcomes=result.outcomes, degraded=_join_notes(resolved.degraded, result.degraded))

    async def _followed_pattern(
        self,
        project_id: str,
        task_id: str,
        run_id: str | None,
        tried: Collection[PatternId] | None,
        solution: str | None,
    ) -> Entry | None:
        """Return the texts of the one pattern of the task's contexts that was followed; None where it is not told.

        It is the only one `tried`, else the one that the solution repeats.
        """
        if tried is None and solution is None:
            return None
        handed_out = await self.stores.contexts.contexts_of_run(project_id, task_id, run_id)
        if tried is None:
            pattern_id = await echoed_pattern(self.stores, handed_out, solution or "")
        elif len(set(tried)) == 1:
            pattern_id = await self._pattern_in_contexts(next(iter(tried)), handed_out)
        else:
            return None
        if pattern_id is None or not any(pattern_id in context.pattern_ids for context in handed_out):
            return None
        with suppress(NotFound):  # deleted meanwhile
            return (await self.stores.patterns.get(pattern_id, now=self.stores.clock.now())).words
        return None

    async def _resolve_failures(
        self,
        failures: Sequence[Entry],
        only: Collection[UUID] | None,
        resolve: Callable[[EntryId], Awaitable[EntryId]],
        *,
        solution: str,
        told: str,
        run_id: str | None,
    ) -> EventResult:
        """Resolve the one open failure of a task that `solution` is about, or `only` those that it solved."""
        selected = [entry for entry in failures if only is None or entry.entry_id in only]
        repeated = await self._find_repeated(selected, run_id)
        resolvable = await self._select_resolvable(selected, solution, repeated)
        deferred = self._earlier_agent_failures(resolvable) if only is None else []
        candidates = [entry for entry in resolvable if entry not in deferred]
        meant = candidates if only is not None else await self._select_meant(candidates, solution, told, run_id)
        has_it = bool(meant) and all(resolution(entry) == solution for entry in meant)
        if not has_it:
            ids = {entry.entry_id for entry in meant}
            await self._abandon([each for each, original in repeated.items() if original in ids])
        resolved = await _resolve_each(meant, resolve)
        unclear = [] if meant else self._without_others_entries(filter(_is_unresolved, candidates))
        several = _SEVERAL_OPEN.format(_name_entries(unclear)) if candidates and not meant else None
        not_stored = _NOT_KEPT.format(_describe_statuses(selected)) if selected and not (resolved or several) else None
        unknown = sorted(map(str, set(only or ()) - {entry.entry_id for entry in failures}))
        ignored = _NO_FAILURES.format(", ".join(unknown)) if unknown else None
        others = [] if only is not None or several else self._others_unresolved(resolvable, meant)
        more = _MORE_OF_AGENTS.format(_name_entries(others)) if others else None
        cut = _MORE_OF_TASK if len(failures) >= MAX_ENTRIES_OF_TASK else None
        return EventResult(
            entry_ids=resolved,
            degraded=_join_notes(several, not_stored, ignored, more, cut),
            already_resolved=has_it and not self.capture.by.low_trust,
            open_entry_ids=tuple(entry.entry_id for entry in unclear),
        )

    def _others_unresolved(self, entries: Sequence[Entry], meant: Collection[Entry]) -> list[Entry]:
        """Return the unresolved failures of agents' keys that a trusted caller's solution was not given to."""
        if self.capture.by.low_trust:
            return []
        return [entry for entry in entries if entry.low_trust and _is_unresolved(entry) and entry not in meant]

    async def _select_meant(
        self, candidates: Sequence[Entry], solution: str, told: str, run_id: str | None
    ) -> list[Entry]:
        """Return the failure that a solution is about, or those that have it already; nothing where it is not clear.

        The failures of this run come first, then those of its run id on other days, then all; those of other low-trust
        keys count only where there are no others, or a key could hold up the solution of what is not its own.
        """
        now = self.stores.clock.now()
        own = [entry for entry in candidates if entry.source in {None, self.capture.by.source}] or list(candidates)
        tiers = [own]
        if run_id is not None:
            of_attempt = [entry for entry in own if is_of_attempt(entry.run_id, run_id)]
            tiers = [[entry for entry in of_attempt if _is_of_run(entry, run_id, now)], of_attempt, own]
        nearest = next(filter(None, tiers), [])
        repeated = [entry for entry in nearest if resolution(entry) == solution]
        if repeated:
            return repeated
        if len(nearest) <= 1:
            return nearest
        length = sum(len(situation(entry)) for entry in nearest) + len(told)
        best = await run_in_thread_if_long(length, partial(_find_told, nearest, told))
        return [] if best is None else [best]

    def _without_others_entries(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that the caller may know of: an agent those of its own key alone."""
        by = self.capture.by
        return [entry for entry in entries if not by.low_trust or entry.source == by.source]

    def _earlier_agent_failures(self, waiting: Sequence[Entry]) -> list[Entry]:
        """Return the unresolved failures that other low-trust keys captured before their latest one.

        All of a key's failures where one of them has the resolution already: the event is a repetition.
        """
        others_entries = [entry for entry in waiting if entry.source not in {None, self.capture.by.source}]
        sources = {entry.source for entry in others_entries if not _is_unresolved(entry)}
        earlier = []
        for entry in filter(_is_unresolved, others_entries):
            if entry.source in sources:
                earlier.append(entry)
            sources.add(entry.source)
        return earlier

    @coerce_arguments
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
        """Open a rejection, resolve those on record with the accepted approach, or store a first-attempt approval.

        `approach`: what was accepted, by default the proposal. A rejection needs `human_feedback`; that of an
        acceptance is not stored. Raises InvalidInput, or RejectionOnRecord for another acceptance where the rejections
        of the same project, gate and task are resolved. A rejection captured by a low-trust key does not turn another
        caller's acceptance into a second attempt; its latest one is resolved with it.
        """
        _check_texts(project_id=project_id, gate_type=gate_type, task_id=task_id, run_id=run_id)
        check_flag("accepted", accepted)
        proposal, approach = _fit(proposal), _fit(approach)
        decision = NewEntry(
            entry_type=EntryType.GATE_APPROVAL if accepted else EntryType.GATE_REJECTION,
            project_id=project_id,
            gate_type=gate_type,
            proposal=proposal,
            approved_approach=approach or proposal if accepted else None,
            human_feedback=None if accepted else _fit(human_feedback),
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            task_description=_fit(task_description),
            task_id=task_id,
            run_id=run_id,
            verified_by=verified_by,
            when_to_try=_fit(when_to_try),
            applies_when=applies_when,
        )
        if not accepted or decision.approved_approach is not None:
            validate(decision)  # all of it, before a rejection is changed
        return (
            await self._accept(decision) if accepted else EventResult(entry_ids=(await self.capture.capture(decision),))
        )

    async def _accept(self, approval: NewEntry) -> EventResult:
        """Resolve a gate's open rejections with the accepted approach; capture an approval if it is a first attempt."""
        if approval.approved_approach is None:
            raise InvalidInput("approach", "is required: give the accepted approach or the proposal")
        approach = self._clean_text("approach", approval.approved_approach)
        rejections = await self.stores.entries.entries_of_task(
            approval.project_id, approval.task_id, EntryType.GATE_REJECTION, gate_type=approval.gate_type
        )
        repeated = await self._find_repeated(rejections, approval.run_id)
        await self._abandon(repeated)
        resolvable = await self._select_resolvable(rejections, approach, repeated)
        deferred = self._earlier_agent_failures(resolvable)
        resolve = partial(
            self.capture.resolve_gate_rejection,
            revision_approach=approach,
            verified_by=approval.verified_by,
            when_to_try=approval.when_to_try,
            applies_when=approval.applies_when,
        )
        resolved = await _resolve_each([entry for entry in resolvable if entry not in deferred], resolve)
        if resolved and not await self._is_first_attempt(rejections):
            return EventResult(entry_ids=resolved)
        return EventResult(
            entry_ids=(await self.capture.capture(replace(approval, approved_approach=approach)), *resolved)
        )

    async def _is_first_attempt(self, rejections: Sequence[Entry]) -> bool:
        """Return whether an acceptance is a first attempt because only low-trust keys recorded the rejections."""
        by_agents = [await is_reported_by_agent(self.capture.keys, entry) for entry in rejections]
        return not self.capture.by.low_trust and all(by_agents)

    async def _record_outcomes(
        self,
        project_id: str,
        task_id: str,
        run_id: str | None,
        *,
        worked: bool,
        tried: Collection[PatternId] | None,
        solution: str | None = None,
    ) -> EventResult:
        """Record outcomes of the patterns handed out for a run: of those `tried`, else of the one that is credited.

        `degraded` names patterns that were tried but not handed out.
        """
        if tried is None:
            handed_out = await self.stores.contexts.contexts_to_report(project_id, task_id, run_id)
            credited = await attributable_pattern(self.stores, handed_out, solution)
            pattern_ids = set() if credited is None else {credited}
            await self._record_unaided(project_id, task_id, run_id, worked=worked)
        else:
            handed_out = await self.stores.contexts.contexts_of_run(project_id, task_id, run_id)
            pattern_ids = {await self._pattern_in_contexts(pattern_id, handed_out) for pattern_id in tried}
        recorded: set[PatternId] = set()
        for context in handed_out:
            for pattern_id in pattern_ids.intersection(context.pattern_ids) - recorded:
                with suppress(NotFound):  # deleted meanwhile
                    await self.outcomes.record_outcome(context.context_id, pattern_id, worked=worked, run_id=run_id)
                    recorded.add(pattern_id)
        unknown = (
            [] if tried is None else sorted(map(str, pattern_ids - {p for c in handed_out for p in c.pattern_ids}))
        )
        return EventResult(
            outcomes=len(recorded), degraded=_NOT_HANDED_OUT.format(", ".join(unknown)) if unknown else None
        )

    async def _record_unaided(self, project_id: str, task_id: str, run_id: str | None, *, worked: bool) -> None:
        """Record the result of a task whose latest context held no hint; the first result of a context stands."""
        latest = await self.stores.contexts.contexts_of_run(project_id, task_id, run_id, limit=1)
        for context in latest:
            if context.reason is not None and not context.shown:
                with suppress(NotFound):  # pruned meanwhile
                    await self.outcomes.record_unaided(context.context_id, worked=worked)

    async def _pattern_in_contexts(self, pattern_id: PatternId, handed_out: Sequence[StoredContext]) -> PatternId:
        """Return the id under which a pattern is in the contexts: its own, or the pattern it was merged into."""
        if any(pattern_id in context.pattern_ids for context in handed_out):
            return pattern_id
        target = await merge_target(self.stores, pattern_id)
        return target if any(target in context.pattern_ids for context in handed_out) else pattern_id

    async def _find_repeated(self, entries: Sequence[Entry], run_id: str | None) -> dict[EntryId, EntryId]:
        """Return the open entries that repeat another, as of several runs, each with the one that it repeats."""
        length = sum(len(situation(entry)) for entry in entries if entry.status is EntryStatus.OPEN)
        now = self.stores.clock.now()
        return await run_in_thread_if_long(length, partial(_find_repeated, entries, run_id, now))

    async def _abandon(self, repeated: Collection[EntryId]) -> None:
        """Abandon entries that repeat one, before that is resolved: a kill in between leaves it to be resolved."""
        if repeated:
            await self.stores.entries.abandon_repeated(list(repeated))

    async def _select_resolvable(
        self, entries: Sequence[Entry], new_resolution: str, repeated: Collection[EntryId]
    ) -> list[Entry]:
        """Return the unresolved entries, and those with this very resolution, since an event may be repeated.

        Includes entries that an agent resolved and a trusted key may overrule, and quarantined ones without a
        resolution, which are reviewed with it; not those that repeat another.
        """
        who, keys = self.capture.by, self.capture.keys
        return [
            entry
            for entry in entries
            if entry.entry_id not in repeated
            and (_is_unresolved(entry) or resolution(entry) == new_resolution or await can_overrule(who, keys, entry))
        ]

    def _clean_text(self, field: str, text: str) -> str:
        return clean_text(field, text, redaction=self.capture.redaction)


async def _resolve_each(
    entries: Iterable[Entry], resolve: Callable[[EntryId], Awaitable[EntryId]]
) -> tuple[EntryId, ...]:
    """Resolve entries one by one; return those that have the resolution."""
    resolved: list[EntryId] = []
    for entry in entries:
        with suppress(NotOpen, NotFound):  # resolved by another caller meanwhile
            resolved.append(await resolve(entry.entry_id))
    return tuple(dict.fromkeys(resolved))


def _join_notes(*notes: str | None) -> str | None:
    """Join notes for `degraded`; None where there are none."""
    return "; ".join(filter(None, notes)) or None


def _name_entries(entries: Sequence[Entry]) -> str:
    return ", ".join(str(entry.entry_id) for entry in entries[:_MAX_NAMED])


def _is_of_run(entry: Entry, run_id: str | None, now: datetime) -> bool:
    """Return whether a failure is of the run of this id on this day."""
    return is_of_attempt(entry.run_id, run_id) and is_same_day(entry.captured_at, now)


def _find_told(entries: Sequence[Entry], told: str) -> Entry | None:
    """Return the entry whose own words a text tells most; None where no other has fewer of them.

    Only words count that not every entry has, and of at least four letters, or a digit or sign within.
    """
    words = [_long_words(situation(entry)) for entry in entries]
    common, told_words = set.intersection(*words), _long_words(told)
    scores = [len((each - common) & told_words) for each in words]
    best = max(scores)
    return entries[scores.index(best)] if best and scores.count(best) == 1 else None


def _long_words(text: str) -> set[str]:
    return {word for word in token_texts(text.casefold()) if len(word) > _SHORT_WORD and word not in _COMMON_WORDS}


def _describe_statuses(entries: Iterable[Entry]) -> str:
    """Return the statuses of entries in words."""
    words = {EntryStatus.ABANDONED: "abandoned"}
    return " or ".join(sorted({words.get(entry.status, "resolved with another solution") for entry in entries}))


def _parse_tried(tried: Collection[UUID | str] | None) -> list[PatternId] | None:
    return None if tried is None else [PatternId(as_id("tried", pattern_id)) for pattern_id in tried]


def _check_texts(applies_when: AppliesWhen | None = None, **texts: str | None) -> None:
    if applies_when is not None:
        check_conditions(applies_when)
    for name, value in texts.items():
        if value is not None:
            check_text(name, value)


def _find_repeated(entries: Iterable[Entry], run_id: str | None, now: datetime) -> dict[EntryId, EntryId]:
    """Return the open entries that repeat another, with that: of each situation all but that of this run, or the first.

    A task of several runs was solved once: resolved in each, it would count as a success in the failed runs, too.
    A low-trust entry never displaces another.
    """
    still_open = [entry for entry in entries if entry.status is EntryStatus.OPEN]
    still_open.sort(key=lambda entry: (entry.low_trust, not _is_of_run(entry, run_id, now)))
    first: dict[str, EntryId] = {}
    repeated = {}
    for entry in still_open:
        original = first.setdefault(_comparison_key(situation(entry)), entry.entry_id)
        if original != entry.entry_id:
            repeated[entry.entry_id] = original
    return repeated


def _comparison_key(text: str) -> str:
    """Return the text by which runs are compared: normalised; for a stack trace with its numbers masked."""
    normal = normalise(text)
    return _NUMBER.sub("0", normal) if read_trace(text) else normal


def _is_unresolved(entry: Entry) -> bool:
    held_back = entry.status is EntryStatus.QUARANTINED and not resolution(entry)
    return entry.status is EntryStatus.OPEN or held_back
