"""Outcomes: what came of a pattern that was handed out, told by whoever saw it, or by an echo of its resolution."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from knowledge.errors import InvalidInput, NotFound, NotOpen
from knowledge.forms import as_id, check_flag
from knowledge.memory import texts
from knowledge.memory.differences import says_otherwise
from knowledge.memory.limits import check_ids, check_text
from knowledge.memory.ranking import shared
from knowledge.models import TRUSTED, ContextId, Entry, EntryId, Evidence, HandedOut, Outcome, PatternId, Provenance
from knowledge.ports import Stores
from knowledge.search.lexical import term_counts
from knowledge.search.tokens import NEGATIONS, written_words
from knowledge.search.wording import Reading, without_list_marks
from knowledge.turns import aside_if_long

ECHO = 0.8
"""A resolution that shares so much of its words with one that was handed out repeats it; ours."""

QUOTED = 5
"""A part of what was handed out repeats it from so many words on; ours."""

_MENTIONED = 3
"""Advice of fewer words may stand in a sentence of something else; ours."""

MOST_QUOTED = 200
"""Of a text of more sentences nobody asks whether they are quoted, which takes time; ours."""

_TURNING = NEGATIONS | {"rather", "instead", "avoid", "avoids", "avoiding", "wrong"}
"""With one of these beside it, what is quoted may be what a resolution advises against; ours."""

_SENTENCE = re.compile(r"[.;!?](?=\s|$)|\n")
_FRAME = re.compile(
    r"(?m)^[ \t>*]{0,20}(?:Pattern \d+ \(.*\):$|- (?:Record|Alternative to): .*$|- (?:Problem|Solution|When to try): )"
)
"""What stands around the texts of a pattern in a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeService:
    """Keeps whether what was handed out worked, in the name of `by`: the ledger that patterns are ranked by."""

    stores: Stores
    by: Provenance = TRUSTED

    async def record_outcome(
        self,
        context_id: ContextId,
        pattern_id: PatternId,
        *,
        worked: bool,
        project_id: str | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
    ) -> PatternId:
        """Count an attempt with a pattern of a context, and a success if it worked; return whose it is.

        A distinct (project, task, run) is one attempt: told again it adds nothing, told otherwise it replaces what was
        told. What is not given is taken from the context. Where the pattern was joined to another one since, it is that
        one's. Raises NotFound for an unknown context or a pattern that is gone, InvalidInput for one that was not in
        the context, or without a project.
        """
        context_id = ContextId(as_id("context_id", context_id))
        pattern_id = PatternId(as_id("pattern_id", pattern_id))
        check_flag("worked", worked)
        handed_out = await self.stores.contexts.get(context_id)
        if pattern_id not in handed_out.pattern_ids:
            pattern_id = await joined_to(self.stores, pattern_id)
        if pattern_id not in handed_out.pattern_ids:
            raise InvalidInput("pattern_id", f"names a pattern that was not in context {context_id}")
        for name, value in (("project_id", project_id), ("task_id", task_id), ("run_id", run_id)):
            if value is not None:
                check_text(name, value)
        project = project_id or handed_out.project_id
        if project is None:
            raise InvalidInput("project_id", "is required: the context was built without one")
        task = task_id or handed_out.task_id or str(context_id)
        run = run_id or handed_out.run_id or ""
        check_ids(workspace=self.stores.workspace, project_id=project, task_id=task, run_id=run)
        outcome = Outcome(
            context_id=context_id,
            pattern_id=pattern_id,
            project_id=project,
            task_id=task,
            run_id=run,
            worked=worked,
            recorded_by=self.by.source or self.by.key_id,
            low_trust=self.by.low_trust,
        )
        await self.stores.contexts.record_outcomes([outcome], self.stores.clock.now())
        return pattern_id


async def joined_to(stores: Stores, pattern_id: PatternId) -> PatternId:
    """Return the pattern that a person joined this one to, itself where nobody did.

    Whoever was given it before knows no other.
    """
    return await stores.patterns.bound_to(texts.pattern_key(pattern_id)) or pattern_id


async def certain(stores: Stores, handed_out: Sequence[HandedOut], solution: str | None) -> set[PatternId]:
    """Return, of the patterns of which nothing was told, those that share the fate of their task.

    Of rivals that were shown for it one was tried at most, and nobody said which: none counts but the one that the
    `solution` repeats. Nor does one of which that says not to do so.
    """
    untold = {pattern_id for each in handed_out for pattern_id in each.pattern_ids}
    shown = untold.union(*(each.worked for each in handed_out))
    if len(shown) < 2 and solution is None:
        return untold
    found = set()
    for pattern_id in untold:
        with suppress(NotFound):  # it went meanwhile: there is nothing left to rank
            evidence = await stores.patterns.get(pattern_id, now=stores.clock.now())
            if await _aside(partial(_shares, solution, evidence, shown), solution or "", evidence):
                found.add(pattern_id)
    return found


def _shares(solution: str | None, evidence: Evidence, shown: set[PatternId]) -> bool:
    """Return whether a pattern shares the fate of a task that these were shown for."""
    if solution is not None and echoes(solution, evidence):
        return True
    alone = shown.isdisjoint(evidence.rivals)
    return alone and not (solution is not None and denies(solution, evidence))


async def taken_for_outcome(stores: Stores, entry: Entry, *, solved_in: str | None = None) -> EntryId | None:
    """Take an entry that repeats what was handed out for its very task for an outcome of that pattern, and delete it.

    Returns the entry whose resolution it repeats, None where it is no echo. An agent that is told a solution and tells
    it back has proven it once more, but learned nothing new: without this, a pattern would feed on itself. What was
    `solved_in` a later run than it failed in worked in that one.
    """
    resolution = texts.resolution(entry)
    if entry.task_id is None or not resolution:
        return None
    now = stores.clock.now()
    worked_in = solved_in or entry.run_id
    runs = dict.fromkeys((worked_in, entry.run_id))
    contexts = [await stores.contexts.handed_out(entry.project_id, entry.task_id, run) for run in runs]
    others: set[PatternId] = set()  # a task that is tried often is handed the same patterns each time
    for handed_out in itertools.chain.from_iterable(contexts):
        for pattern_id in handed_out.pattern_ids:
            if pattern_id in others:
                continue
            others.add(pattern_id)
            try:
                evidence = await stores.patterns.get(pattern_id, now=now)
            except NotFound:
                continue
            words = evidence.words
            repeated = partial(echoes, resolution, evidence)
            if words.entry_id == entry.entry_id or not await _aside(repeated, resolution, evidence):
                continue
            others.discard(pattern_id)
            outcome = Outcome(
                context_id=handed_out.context_id,
                pattern_id=pattern_id,
                project_id=entry.project_id,
                task_id=entry.task_id,
                # an agent makes up no runs: what was handed out once worked once
                run_id=(None if entry.low_trust else worked_in) or handed_out.run_id or "",
                worked=True,
                recorded_by=entry.source or entry.resolved_by or entry.captured_by,
                low_trust=entry.low_trust,
            )
            try:
                await stores.contexts.record_outcomes([outcome], now, instead_of=entry.entry_id)
            except NotFound:  # the context or the pattern went just now: nothing was handed out any more
                continue
            return words.entry_id
    return None


async def told_before(stores: Stores, entry_id: EntryId, resolution: str) -> EntryId | None:
    """Return the entry whose resolution one repeated that was taken for an outcome and deleted, None for any other.

    So a call whose answer was lost may be repeated. Raises NotOpen where it was another resolution.
    """
    pattern_id = await stores.contexts.told_by(entry_id)
    if pattern_id is None:
        return None
    evidence = await stores.patterns.get(pattern_id, now=stores.clock.now())
    if not await _aside(partial(echoes, resolution, evidence), resolution, evidence):
        raise NotOpen(
            f"entry {entry_id} was resolved with what had been handed out, and is an outcome of pattern {pattern_id}:"
            " it cannot be given another resolution"
        )
    return evidence.words.entry_id


async def _aside(look: Callable[[], bool], told: str, evidence: Evidence) -> bool:
    """Return what comes of comparing a text with what a pattern says; in a thread where they are long."""
    words = evidence.words
    return await aside_if_long(len(told) + len(texts.resolution(words)) + len(texts.situation(words)), look)


def echoes(told: str, evidence: Evidence) -> bool:
    """Return whether a text says what a pattern does: repeats its resolution, or quotes it in part.

    With code that is put otherwise it does not: `git branch -D` is what put `git branch -d` right.
    """
    words = evidence.words
    known = texts.resolution(words)
    if Reading(told).put_otherwise(Reading(known)):
        return False
    return repeats(told, known) or _quotes(told, known, f"{texts.situation(words)}\n{texts.when_to_try(evidence)}")


def denies(told: str, evidence: Evidence) -> bool:
    """Return whether a text quotes what a pattern advises, and says beside it that this is not to be done."""
    said = set(_sentences(_FRAME.sub("", told)))
    advised = [each for each in _sentences(texts.resolution(evidence.words)) if each.count(" ") > _MENTIONED]
    if len(said) > MOST_QUOTED or len(advised) > MOST_QUOTED:
        return False
    return any(part in sentence and not _stands_in(sentence, part) for part in advised for sentence in said)


def _quotes(told: str, known: str, beside: str) -> bool:
    """Return whether each sentence of a text stands in a resolution, or some `beside` it, and enough words of it do."""
    sentences = set(_sentences(_FRAME.sub("", told)))
    if len(sentences) > MOST_QUOTED:
        return False
    own, others, quoted = "\n".join(_sentences(known)), "\n".join(_sentences(beside)), 0
    for sentence in sentences:
        if _stands_in(own, sentence):
            quoted += sentence.count(" ") - 1
        elif not _stands_in(others, sentence):
            return False
    return quoted >= QUOTED


def _sentences(text: str) -> list[str]:
    """Return the words of each sentence, a blank around each."""
    split = (written_words(each.casefold()) for each in _SENTENCE.split(text))
    return [f" {' '.join(words)} " for words in split if words]


def _stands_in(text: str, part: str) -> bool:
    """Whether words stand together in a sentence of a text, and what else that one says does not deny them."""
    at = text.find(part)
    if at < 0:
        return False
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    rest = text[begin:at] + text[at + len(part) - 1 : end if end >= 0 else None]
    return _TURNING.isdisjoint(rest.split())


def repeats(told: str, known: str) -> bool:
    """Whether a text says what another one does in nearly its words: at least `ECHO` of all their words are shared.

    With another number, name or sign, or denied, it says something else: what was handed out, put right.
    """
    if texts.normalise(told) == texts.normalise(known):
        return True
    return shared(term_counts(told), term_counts(known)) >= ECHO and not says_otherwise(_listed(told), _listed(known))


def _listed(text: str) -> Reading:
    return Reading(without_list_marks(text))
