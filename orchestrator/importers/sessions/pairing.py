"""Pairing: a check that fails, what was changed, and the same check that passes afterwards; refusals and what followed.

Pure. `pair` goes through a session's steps once, in the order in which they began.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from knowledge.text.error_summary import error_lines
from knowledge.text.volatile import mask_volatile
from orchestrator.importers.sessions.checks import Check, Verdict, judge, read_call, read_check
from orchestrator.importers.sessions.lessons.changes import Change, changes_of, render_changes
from orchestrator.importers.sessions.lessons.failing_tests import failing_tests
from orchestrator.importers.sessions.shell.words import split_commands
from orchestrator.importers.sessions.steps import MAIN, Decider, Session, Step, StepOutcome

NO_CHECK = "commands that fail and check nothing"
FLAKY = "checks that pass again without an edit"
WITHDRAWN = "fixes that fail again later"
UNCLEAR = "checks whose outcome is hidden or unclear"
HEADLESS = "refusals with nobody there"
WORDLESS = "refusals without a reason"
TOOL_TROUBLE = "tool errors and time limits"
SEARCHES = "searches without a match"
REPEATED = "the same refusal again"
HIDDEN_CHANGES = "it passed afterwards, and the run does not show what was changed"
OTHERS_EDITS = "passes that another agent's edits may have caused"


class LessonKind(StrEnum):
    """The kinds of lessons of a session."""

    FIX = "fix"
    """A failure, what was changed, and the passing check that proves it."""
    OPEN = "open failure"
    REJECTION = "rejection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A lesson of a session. `step`: the failure, or the refused step. `check`: of a failure.

    `solution`: what was changed, or the revision that was accepted after a refusal; empty where there is none. `proof`:
    the step that passed. `why_open`: the reason why a solution is not verified. `dead_ends`: changes that were tried
    before it and did not help. `files`: those that were changed. `is_outside`: text from outside of the machine was
    read before.
    """

    kind: LessonKind
    step: Step
    check: Check | None = None
    solution: str = ""
    proof: Step | None = None
    proof_check: Check | None = None
    why_open: str = ""
    dead_ends: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The lessons of a session in order, and how many steps taught nothing, by the reason.

    `dropped`: failures that teach nothing by now, though they may have been open when less of the session was there.
    """

    lessons: tuple[Lesson, ...]
    left_out: Counter[str]
    dropped: tuple[Step, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Failure:
    """A failing run of a check, and the changes up to the next run of it."""

    step: Step
    check: Check
    changes: list[Change] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Open:
    """A check that fails: its runs, the first one first. `seen`: number of changes before the last run.

    `withdrawn`: solutions after which it passed, and then failed again in the same way. `before`: the agent's changes
    between the run before, if any, and the first one that failed.
    """

    agent: str
    failures: list[_Failure]
    seen: int
    withdrawn: tuple[str, ...] = ()
    before: tuple[Change, ...] = ()


@dataclass(slots=True, kw_only=True)
class _State:
    session: Session
    named: Sequence[str]
    parents: dict[str, str | None]
    begins: dict[str, int]
    left_out: Counter[str] = field(default_factory=Counter)
    changes: list[tuple[str, Change, Check | None]] = field(default_factory=list)
    """Each with its agent, and with the check that it was itself."""
    open: dict[tuple[str, str], _Open] = field(default_factory=dict)
    fixes: defaultdict[str, list[Lesson]] = field(default_factory=lambda: defaultdict(list))
    """By the key of the check."""
    runs: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of changes before the last run of a check, by agent and key."""
    dropped: list[Step] = field(default_factory=list)
    is_outside: bool = False


def pair(session: Session, *, named: Sequence[str] = ()) -> Pairing:
    """Return the lessons of a session; `named`: beginnings of commands that a setting makes checks."""
    steps = sorted(session.steps, key=lambda step: step.order)
    state = _State(
        session=session,
        named=named,
        parents={step.agent: step.parent for step in steps},
        begins={step.agent: step.order for step in reversed(steps)},
    )
    for step in steps:
        state.is_outside = state.is_outside or step.is_outside
        if step.outcome is StepOutcome.DENIED:
            continue
        _follow_step(state, step)
    still_open = [_open_lesson(state, each) for each in state.open.values()]
    rejections = _find_rejections(state, steps)
    fixes = [fix for of_key in state.fixes.values() for fix in of_key]
    lessons = sorted([*fixes, *still_open, *rejections], key=lambda lesson: lesson.step.order)
    return Pairing(lessons=tuple(lessons), left_out=state.left_out, dropped=tuple(state.dropped))


def _follow_step(state: _State, step: Step) -> None:
    session = state.session
    if step.is_call:
        named = (*state.named, step.tool) if step.is_check else state.named
        check = read_call(step.command, named=named, folder=step.folder, root=session.folder)
    else:
        check = read_check(step.command, named=state.named, folder=step.folder, root=session.folder)
    for change in changes_of(step, root=session.folder, check=check):
        own = check if check is not None and change.program in check.programs else None
        state.changes.append((step.agent, change, own))
    if check is None:
        _count_noise(state, step)
        return
    verdict = judge(step, check)
    match verdict:
        case Verdict.FAILED:
            _fail(state, step, check)
        case Verdict.PASSED:
            _pass(state, step, check)
        case Verdict.NOTHING:
            state.left_out[TOOL_TROUBLE if step.outcome is StepOutcome.TOOL_ERROR else UNCLEAR] += 1
    if verdict is not Verdict.NOTHING:
        state.runs[step.agent, check.key] = len(state.changes)


def _count_noise(state: _State, step: Step) -> None:
    if step.is_search:
        state.left_out[SEARCHES] += 1
    elif step.outcome is StepOutcome.TOOL_ERROR:
        state.left_out[TOOL_TROUBLE] += 1
    elif step.outcome is StepOutcome.FAILED:
        state.left_out[NO_CHECK] += 1


def _fail(state: _State, step: Step, check: Check) -> None:
    fixes = state.fixes[check.key]
    withdrawn: list[str] = []
    for fix in list(fixes):
        if _is_near(state, step.agent, fix.step.agent) or (fix.proof and _is_near(state, step.agent, fix.proof.agent)):
            fixes.remove(fix)
            state.dropped.append(fix.step)
            state.left_out[WITHDRAWN] += 1
            if _signature(fix.step) == _signature(step):
                withdrawn.append(fix.solution)
    failure = _Failure(step=step, check=check)
    is_open = state.open.get((step.agent, check.key))
    if is_open is None:
        since = state.runs.get((step.agent, check.key), 0)
        state.open[step.agent, check.key] = _Open(
            agent=step.agent,
            failures=[failure],
            seen=len(state.changes),
            withdrawn=tuple(withdrawn),
            before=tuple(change for agent, change, _ in state.changes[since:] if agent == step.agent),
        )
        return
    last = is_open.failures[-1]
    last.changes += _take_changes(state, is_open, step.agent)
    if last.changes or check.is_hidden is last.check.is_hidden:
        is_open.failures.append(failure)
    elif last.check.is_hidden:  # nothing was changed since, and a pipe cut the output: this one tells the failure whole
        is_open.failures[-1] = failure
        state.dropped.append(last.step)


def _pass(state: _State, step: Step, check: Check) -> None:
    """Close the failures that a passing check proves mended: those of its own agent and of that one's sub-agents."""
    for agent in state.parents:
        is_open = state.open.get((agent, check.key))
        if is_open is None or not _is_above(state, step.agent, agent):
            continue
        del state.open[agent, check.key]
        had_others = len(state.changes) > is_open.seen
        is_open.failures[-1].changes += _take_changes(state, is_open, step.agent)
        if state.session.may_hide_changes and not state.changes:
            state.fixes[check.key].append(_open_lesson(state, is_open, HIDDEN_CHANGES))
            continue
        if not any(failure.changes for failure in is_open.failures):
            state.left_out[OTHERS_EDITS if had_others else FLAKY] += 1
            state.dropped += [failure.step for failure in is_open.failures]
            continue
        lesson = _fix(state, is_open, step, check)
        state.fixes[check.key].append(lesson)
        state.dropped += [failure.step for failure in is_open.failures if failure.step.id != lesson.step.id]


def _take_changes(state: _State, is_open: _Open, by: str) -> list[Change]:
    """Return the changes since the last run of a check by the agents that ran it, or by those whom they then asked to.

    A sub-agent that was at work before the failure works on something else.
    """
    failed_at = is_open.failures[0].step.order
    runners = {is_open.agent, by}
    taken = [
        change
        for agent, change, own in state.changes[is_open.seen :]
        if (own is None or own.key != is_open.failures[0].check.key)  # a migration is a change, but not for itself
        and (
            agent in runners
            or (state.begins[agent] > failed_at and any(_is_above(state, each, agent) for each in runners))
        )
    ]
    is_open.seen = len(state.changes)
    return taken


def _is_above(state: _State, agent: str, other: str) -> bool:
    """Return whether an agent is another one, or one of its parents."""
    seen: set[str] = set()
    current: str | None = other
    while current is not None and current not in seen:
        if current == agent:
            return True
        seen.add(current)
        current = state.parents.get(current) or (None if current == MAIN else MAIN)
    return False


def _is_near(state: _State, agent: str, other: str) -> bool:
    return _is_above(state, agent, other) or _is_above(state, other, agent)


def _fix(state: _State, is_open: _Open, proof: Step, check: Check) -> Lesson:
    """Return the lesson of a check that passes after changes.

    The changes behind runs that failed with the same error did not help: they are dead ends, unless nothing else was
    changed. So is a change from before the first failure that the solution replaced: some agents change first, and test
    then. The situation is the first run with the error that the last change mended.
    """
    failures = is_open.failures
    first = len(failures) - 1
    last = _signature(failures[-1].step) if first else None
    while first > 0 and _signature(failures[first - 1].step) == last:
        first -= 1
    helped = [*failures[:first], failures[-1]]
    tried = [failure for failure in failures[first:-1] if failure.changes]
    if not any(failure.changes for failure in helped):
        helped, tried = [*helped, *tried], []
    changes = sorted((each for failure in helped for each in failure.changes), key=lambda change: change.order)
    why_open = ""
    if all(change.is_of_check for change in changes):
        why_open = "only tests or the check's own settings were changed"
    situation = failures[first]
    return Lesson(
        kind=LessonKind.OPEN if why_open else LessonKind.FIX,
        step=situation.step,
        check=situation.check,
        solution=render_changes(changes),
        proof=proof,
        proof_check=check,
        why_open=why_open,
        dead_ends=(
            *is_open.withdrawn,
            *(render_changes([change]) for change in is_open.before if _is_replaced(change, changes)),
            *(render_changes(failure.changes) for failure in tried),
        ),
        files=_files(changes),
        is_outside=state.is_outside,
    )


def _is_replaced(change: Change, later: Sequence[Change]) -> bool:
    """Return whether later changes took away every line that a change had put in."""
    added = _lines(change, "+")
    gone = {line for each in later if set(each.files) & set(change.files) for line in _lines(each, "-")}
    return bool(added) and added <= gone


def _lines(change: Change, sign: str) -> set[str]:
    rows = change.text.splitlines()[1:]  # below the file's name
    return {line for row in rows if row.startswith(sign) and (line := row[1:].strip())}


def _files(changes: Sequence[Change]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file for change in changes for file in change.files))


_MAX_TESTS = 1000
_NUMBERS = re.compile(r"\d+")


def _signature(step: Step) -> tuple[str, frozenset[str]]:
    """Return what is equal of two runs that fail in the same way: the lines of the error, and the tests that fail."""
    names = frozenset(failing_tests(step.text, most=_MAX_TESTS))
    lines = "\n".join(error_lines(step.text, 400, len))
    return _NUMBERS.sub("0", mask_volatile(lines)), names


def _open_lesson(state: _State, is_open: _Open, why_open: str = "it never passed afterwards") -> Lesson:
    """Return the lesson of a check that still fails: its latest run, and what was tried in vain."""
    failures = is_open.failures
    tried = tuple(render_changes(each.changes) for each in failures[:-1] if each.changes)
    return Lesson(
        kind=LessonKind.OPEN,
        step=failures[0].step,
        check=failures[0].check,
        why_open=why_open,
        dead_ends=(*is_open.withdrawn, *tried),
        files=(),
        is_outside=state.is_outside,
    )


_DECIDERS = frozenset({Decider.PERSON, Decider.RULE})
_REVISION_STEPS = 12
"""Steps of the agent after a refusal among which its revision is looked for; ours."""
_AIM_WORD = re.compile(r"[\w.-]{3,}")
_COMMON_WORDS = frozenset({"the", "and", "for", "with", "sudo", "bash", "python", "python3", "true", "file", "this"})


def _find_rejections(state: _State, steps: Sequence[Step]) -> list[Lesson]:
    """Return what a person or a named rule refused, with what was accepted in its place.

    Without a reason only a person's refusal with a revision teaches something: what passes by a rule that says nothing
    may be the way around it.
    """
    rejections: list[Lesson] = []
    seen: set[tuple[str, str, str]] = set()
    by_agent: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_agent[step.agent].append(step)
    for step in steps:
        if step.outcome is not StepOutcome.DENIED:
            continue
        if step.decided_by not in _DECIDERS:
            state.left_out[HEADLESS] += 1
            continue
        revision = _find_revision(step, by_agent[step.agent])
        if not step.reason.strip() and (revision is None or step.decided_by is not Decider.PERSON):
            state.left_out[WORDLESS] += 1
        elif (identity := (step.tool, _proposal(step), step.reason)) in seen:
            state.left_out[REPEATED] += 1
        else:
            seen.add(identity)
            rejections.append(_rejection(state, step, revision))
    return rejections


def _rejection(state: _State, step: Step, revision: Step | None) -> Lesson:
    return Lesson(
        kind=LessonKind.REJECTION,
        step=step,
        solution=_proposal(revision) if revision else "",
        proof=revision,
        why_open="" if revision else "no accepted revision follows",
        is_outside=state.is_outside,
    )


def _proposal(step: Step) -> str:
    return step.command or step.proposal or render_changes(changes_of(replace(step, outcome=StepOutcome.OK), root=None))


def _find_revision(denied: Step, steps: Sequence[Step]) -> Step | None:
    """Return the next accepted step of the same tool towards the same aim; None where the same step was accepted."""
    later = [step for step in steps if step.order > denied.order][:_REVISION_STEPS]
    aim = _aim(denied)
    for step in later:
        if step.tool != denied.tool or step.outcome is not StepOutcome.OK:
            continue
        if _proposal(step) == _proposal(denied):
            return None
        if denied.proposal or _aim(step) & aim:
            return step
    return None


def _aim(step: Step) -> set[str]:
    """Return the words that tell what a step is about: the files that it changes, or the arguments of a command."""
    if step.edits:
        return {edit.path for edit in step.edits}
    words = [word for each in split_commands(step.command or "") for word in each.words[1:]]
    names = {part for word in words for part in _AIM_WORD.findall(word)}
    return {name for name in names if name.lower() not in _COMMON_WORDS and not name.startswith("-")}
