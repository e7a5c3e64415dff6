"""Contexts: what was handed to which task, why each candidate was shown or withheld, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from starlette.responses import Response

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.choices import Choice, ChoiceRecord, Reason, ScoredCandidate
from hardwon.models.lists import Attempt
from hardwon.models.patterns import Pattern
from hardwon.validation import as_id
from knowledge.models import ContextId, PatternId
from knowledge.wiring.open import Knowledge
from orchestrator.context.rendering import render
from orchestrator.http.pages.forms import read_form
from orchestrator.http.pages.shell import PageRequest

_Id = TypeVar("_Id")
SHOWN: Final = 30
SHOWN_CANDIDATES: Final = 10
"""Candidates of one context that are named, the likeliest first; the others are counted."""
_MAX_ATTEMPTS: Final = 1000
DONE: Final = {"told": "Noted: what came of it counts from now on"}


@dataclass(frozen=True, slots=True)
class Scores:
    """The numbers of a candidate; `successes` and `failures` are weighted by how near they were to the task."""

    pattern_id: PatternId
    relevance: float
    successes: float
    failures: float
    low_trust: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate of a context: its numbers, the decision and why; `pattern` is None where it is gone."""

    scored: Scores | None
    pattern_id: PatternId
    pattern: Pattern | None
    is_shown: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The chance that the first candidate helps, and the bar it had to reach; `why`: where the bar comes from."""

    sure: float
    bar: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The outcome of a pattern of the context in its task; `worked` is None where nobody told."""

    pattern_id: PatternId
    pattern: Pattern | None
    worked: bool | None


async def show_contexts(page: PageRequest) -> Response:
    """Show the contexts that the filters let through, the latest first."""
    chosen = {name: page.parameter(name) for name in ("given", "outcome", "project", "pattern", "days")}
    listed = await page.knowledge.contexts.list(
        given=chosen["given"],
        outcome=chosen["outcome"],
        project_id=chosen["project"],
        pattern_id=_parse_id("pattern", chosen["pattern"], PatternId),
        days=_parse_days(chosen["days"]),
        limit=SHOWN + 1,
        after=_parse_id("after", page.parameter("after"), ContextId),
    )
    shown = listed[:SHOWN]
    return await page.render(
        "contexts.html",
        here="contexts",
        contexts=shown,
        after=shown[-1].context_id if len(listed) > SHOWN else None,
        chosen=chosen,
        is_filtered=any(chosen.values()),
    )


async def show_context(page: PageRequest, *, status: int = 200, error: str | None = None) -> Response:
    """Show how a context was chosen, and what came of it; a silent one explains itself."""
    again = await page.knowledge.contexts.show(_context_id(page))
    record = again.record
    scored = _distinct(record)
    ids = [*dict.fromkeys([*record.shown, *(each.pattern_id for each in scored)])]
    named = ids[: max(SHOWN_CANDIDATES, len(record.shown))]
    patterns = await _find_patterns(page.knowledge, named)
    by_id = {each.pattern_id: each for each in scored}
    shown = [patterns[each] for each in record.shown if patterns[each] is not None]
    return await page.render(
        "context.html",
        status=status,
        here="contexts",
        record=record,
        candidates=[
            Candidate(
                scored=by_id.get(each),
                pattern_id=each,
                pattern=patterns[each],
                is_shown=each in record.shown,
                why=_explain(record, each, by_id.get(each)),
            )
            for each in named
        ],
        more=len(ids) - len(named),
        bar=_bar(record.choice),
        told=await _find_outcomes(page.knowledge, record, patterns),
        block=render([each for each in shown if each], max_tokens=page.knowledge.settings.context_max_tokens)[0],
        changes=again.changes,
        may_tell=page.principal.may("outcomes.record_outcome") and record.project_id is not None,
        error=error,
        done=page.notice(DONE),
    )


async def tell_outcome(page: PageRequest) -> Response:
    """Record what came of a context: of one of its patterns, or of a task without a hint."""
    form = await read_form(page.request)
    context_id, worked = _context_id(page), form.text("worked") == "yes"
    try:
        if form.text("pattern"):
            pattern_id = PatternId(as_id("pattern", form.text("pattern")))
            await page.knowledge.outcomes.record_outcome(context_id, pattern_id, worked=worked)
        else:
            await page.knowledge.outcomes.record_unaided(context_id, worked=worked)
    except InvalidInput as error:
        return await show_context(page, status=422, error=f"{error.field} {error.reason}")
    return page.redirect(f"contexts/{context_id}", done="told")


def _distinct(record: ChoiceRecord) -> Sequence[Scores]:
    """Return the candidates of a context, each pattern once, at its best place; where none was, what came nearest."""
    best: dict[PatternId, Scores] = {}
    for each in record.near if record.choice is None else record.choice.candidates:
        low_trust = isinstance(each, ScoredCandidate) and each.low_trust
        scores = Scores(each.pattern_id, each.relevance, each.successes, each.failures, low_trust)
        best.setdefault(each.pattern_id, scores)
    return list(best.values())


async def _find_patterns(knowledge: Knowledge, ids: Sequence[PatternId]) -> Mapping[PatternId, Pattern | None]:
    async def find(pattern_id: PatternId) -> Pattern | None:
        try:
            return await knowledge.queries.get(pattern_id)
        except NotFound:
            return None

    return dict(zip(ids, await asyncio.gather(*map(find, ids)), strict=True))


def _bar(choice: Choice | None) -> Bar | None:
    """Return how sure the first candidate was, and the bar, as `memory.rules.hints.decide` compares them."""
    if choice is None:
        return None
    if not choice.outcomes:
        why = "the bar of the settings, as no outcome has been told yet"
        return Bar(sure=choice.confidence, bar=choice.level, why=why)
    why = (
        f"agents solve such tasks alone at {choice.alone:.0%}, and a hint has to be {choice.margin:.0%} surer than that"
    )
    return Bar(sure=choice.right, bar=choice.alone + choice.margin, why=why)


def _explain(record: ChoiceRecord, pattern_id: PatternId, scored: Scores | None) -> str:
    """Return in a sentence why a candidate was shown or withheld."""
    if pattern_id in record.shown:
        place = record.shown.index(pattern_id)
        return "the likeliest to help" if place == 0 else f"fits too, shown in place {place + 1}"
    if record.reason == Reason.SPOKE:
        failing = scored is not None and scored.failures > scored.successes
        return "it failed more often than it worked near this task" if failing else "others fit better"
    return {
        Reason.NOT_SURE: "less sure to help than the bar",
        Reason.AGENT_KNOWS: "the agent is likelier to be right without it",
        Reason.HELD_OUT: "held out by chance, to measure the lift",
        Reason.NOTHING_NEAR: "too unlike the task",
    }.get(Reason(record.reason), "not looked at in time")


async def _find_outcomes(
    knowledge: Knowledge, record: ChoiceRecord, patterns: Mapping[PatternId, Pattern | None]
) -> Sequence[Told]:
    """Return what was told of each pattern of a context for its task."""

    async def find(pattern_id: PatternId) -> Told:
        attempts: Sequence[Attempt] = ()
        if patterns[pattern_id] is not None:
            attempts = await knowledge.lists.attempts(pattern_id, limit=_MAX_ATTEMPTS)
        worked = next((each.worked for each in attempts if _is_of_task(each, record)), None)
        return Told(pattern_id=pattern_id, pattern=patterns[pattern_id], worked=worked)

    return await asyncio.gather(*map(find, record.shown))


def _is_of_task(attempt: Attempt, record: ChoiceRecord) -> bool:
    """Return whether an attempt was made at the task of a context; a task without a run has one run of its own."""
    same_task = (attempt.project_id, attempt.task_id) == (record.project_id, record.task_id)
    return same_task and record.run_id in {None, attempt.run_id}


def _context_id(page: PageRequest) -> ContextId:
    return ContextId(page.segment_id(1))


def _parse_id(name: str, text: str | None, kind: Callable[[UUID], _Id]) -> _Id | None:
    """Return an id of the address. Raises NotFound for what is none."""
    try:
        return None if text is None else kind(as_id(name, text))
    except InvalidInput as error:
        raise NotFound("there is no such list of contexts: begin with the first page") from error


def _parse_days(text: str | None) -> int | None:
    """Return a number of days. Raises InvalidInput."""
    if text is None or text.isdecimal():
        return None if text is None else int(text[:9])
    raise InvalidInput("days", "must be a number of days")
