"""Outcomes of patterns that were handed out: reported, or detected as an echo of a pattern's resolution."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from hardwon.coercion import coerce_arguments
from hardwon.errors import InvalidInput, NotFound, NotOpen
from hardwon.validation import as_id, check_flag, check_text
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.contradictions import says_otherwise
from knowledge.memory.rules.entry_profile import number_words
from knowledge.memory.rules.ranking import word_overlap
from knowledge.memory.rules.validation import check_ids
from knowledge.models import TRUSTED, ContextId, Entry, EntryId, Evidence, Outcome, PatternId, Provenance, StoredContext
from knowledge.ports import Stores
from knowledge.runtime.scheduling import run_in_thread_if_long
from knowledge.text.bm25 import term_counts
from knowledge.text.profile import ParsedText, without_list_marks
from knowledge.text.tokens import NEGATIONS, token_texts

MIN_ECHO_OVERLAP = 0.8
"""Share of common words from which a resolution repeats one that was handed out; ours."""

MIN_QUOTED_WORDS = 5
"""Quoted words from which a text that only quotes a pattern repeats it; ours."""

_MIN_ADVICE_WORDS = 3
"""Shorter advice may occur in an unrelated sentence; ours."""

MAX_QUOTED_SENTENCES = 200
"""Texts of more sentences are not searched for quotes, which would take too long; ours."""

_DENIAL_WORDS = NEGATIONS | {"rather", "instead", "avoid", "avoids", "avoiding", "wrong"}
"""With one of these words in the sentence, a quote may be what the text advises against; ours."""

_SENTENCE = re.compile(r"[.;!?](?=\s|$)|\n")
_CONTEXT_LABELS = re.compile(
    r"(?m)^[ \t>*]{0,20}(?:Pattern \d+ \(.*\):$|- (?:Record|Verify|Did not help|Alternative to): .*$"
    r"|- (?:Problem|Solution|When to try): )"
)
"""The labels around a pattern's texts in a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeService:
    """Records whether patterns that were handed out worked, on behalf of `by`; patterns are ranked by these records."""

    stores: Stores
    by: Provenance = TRUSTED

    @coerce_arguments
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
        """Count an attempt with a pattern of a context, and a success if it worked; return the pattern it counts for.

        A distinct (project, task, run) is one attempt: a repeated report adds nothing, a different one replaces the
        first. Missing ids are taken from the context. For a pattern that was merged into another since, it counts for
        that one. Raises NotFound for an unknown context or a deleted pattern, InvalidInput for a pattern that was not
        in the context, or without a project.
        """
        context_id = ContextId(as_id("context_id", context_id))
        pattern_id = PatternId(as_id("pattern_id", pattern_id))
        check_flag("worked", worked)
        handed_out = await self.stores.contexts.get(context_id)
        if pattern_id not in handed_out.pattern_ids:
            pattern_id = await merge_target(self.stores, pattern_id)
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
        arms = await self.stores.records.arms_of(context_id)
        await self.stores.contexts.record_outcomes([outcome], self.stores.clock.now(), arms=arms)
        return pattern_id

    @coerce_arguments
    async def record_unaided(self, context_id: ContextId, *, worked: bool) -> None:
        """Record whether a task was solved whose context held no pattern; the first result stands.

        Raises NotFound for an unknown context, InvalidInput for one with patterns: name the pattern that was tried.
        """
        context_id = ContextId(as_id("context_id", context_id))
        check_flag("worked", worked)
        if (await self.stores.contexts.get(context_id)).shown:
            raise InvalidInput(
                "context_id", f"names context {context_id}, which holds patterns: give the id of the one that was tried"
            )
        await self.stores.records.record_unaided(context_id, worked=worked, by=self.by, now=self.stores.clock.now())


async def merge_target(stores: Stores, pattern_id: PatternId) -> PatternId:
    """Return the pattern that a person merged this one into, or its own id.

    Contexts from before the merge hold the old id.
    """
    return await stores.patterns.pattern_of_key(embedding_text.pattern_key(pattern_id)) or pattern_id


async def attributable_pattern(
    stores: Stores, handed_out: Sequence[StoredContext], solution: str | None
) -> PatternId | None:
    """Return the pattern that a task's outcome is credited to, of those handed out for it without an outcome yet.

    It is one that the `solution` repeats, else the first of the latest context: agents try them in order. A pattern
    whose advice the `solution` denies gets nothing. None where the credited pattern has its outcome already.
    """
    if solution is not None:
        for context in handed_out:
            for pattern_id in (*context.pattern_ids, *context.worked):
                evidence = await _live(stores, pattern_id)
                if evidence and await _run_comparison(partial(echoes, solution, evidence), solution, evidence):
                    return pattern_id if pattern_id in context.pattern_ids else None
    shown = next((each.shown for each in handed_out if each.shown), ())
    first = next(iter(shown), None)
    unreported = {pattern_id for each in handed_out for pattern_id in each.pattern_ids}
    if first is None or first not in unreported:
        return None
    evidence = await _live(stores, first)
    if evidence is None:
        return None
    if solution is not None and await _run_comparison(partial(denies, solution, evidence), solution, evidence):
        return None
    return first


async def echoed_pattern(stores: Stores, handed_out: Sequence[StoredContext], solution: str) -> PatternId | None:
    """Return the pattern of a task's contexts that a solution repeats; None where it repeats none."""
    for pattern_id in dict.fromkeys(pattern_id for context in handed_out for pattern_id in context.pattern_ids):
        evidence = await _live(stores, pattern_id)
        if evidence and await _run_comparison(partial(echoes, solution, evidence), solution, evidence):
            return pattern_id
    return None


async def _live(stores: Stores, pattern_id: PatternId) -> Evidence | None:
    """Return a live pattern, None where it was deleted meanwhile."""
    with suppress(NotFound):
        return await stores.patterns.get(pattern_id, now=stores.clock.now())
    return None


async def record_echo(stores: Stores, entry: Entry, *, solved_in: str | None = None) -> EntryId | None:
    """Replace an entry that repeats a pattern handed out for its own task by an outcome of that pattern.

    Returns the entry whose resolution it repeats, None where it is not an echo. An agent that reports back a solution
    it was given confirms it, but teaches nothing new: counted as evidence, a pattern would reinforce itself.
    `solved_in`: the run that solved it, where that is a later one than it failed in; the outcome is of that run.
    """
    resolution = embedding_text.resolution(entry)
    if entry.task_id is None or not resolution:
        return None
    now = stores.clock.now()
    worked_in = solved_in or entry.run_id
    contexts = [
        await stores.contexts.contexts_of_run(entry.project_id, entry.task_id, run)
        for run in _whole_runs(worked_in, entry.run_id)
    ]
    checked: set[PatternId] = set()  # a task that is retried gets the same patterns each time
    for handed_out in itertools.chain.from_iterable(contexts):
        for pattern_id in handed_out.pattern_ids:
            if pattern_id in checked:
                continue
            checked.add(pattern_id)
            try:
                evidence = await stores.patterns.get(pattern_id, now=now)
            except NotFound:
                continue
            words = evidence.words
            is_echo = partial(echoes, resolution, evidence)
            if words.entry_id == entry.entry_id or not await _run_comparison(is_echo, resolution, evidence):
                continue
            checked.discard(pattern_id)
            outcome = Outcome(
                context_id=handed_out.context_id,
                pattern_id=pattern_id,
                project_id=entry.project_id,
                task_id=entry.task_id,
                # an agent's own run ids do not count: what was handed out once worked once
                run_id=(None if entry.low_trust else worked_in) or handed_out.run_id or "",
                worked=True,
                recorded_by=entry.source or entry.resolved_by or entry.captured_by,
                low_trust=entry.low_trust,
            )
            try:
                arms = await stores.records.arms_of(handed_out.context_id)
                await stores.contexts.record_outcomes([outcome], now, arms=arms, instead_of=entry.entry_id)
            except NotFound:  # the context or the pattern was deleted meanwhile
                continue
            return words.entry_id
    return None


def _whole_runs(*run_ids: str | None) -> Iterable[str | None]:
    """Return runs, and those that they are steps of: a session's failures are told as steps, `SESSION/STEP`."""
    wholes = (run.rpartition("/")[0] for run in run_ids if run and "/" in run)
    return dict.fromkeys((*run_ids, *wholes))


async def record_dead_ends(stores: Stores, entry: Entry) -> None:
    """Record of each pattern handed out for an entry's task that a dead end repeats that it did not work."""
    if entry.task_id is None or not entry.dead_ends:
        return
    now = stores.clock.now()
    checked: set[PatternId] = set()
    for run in _whole_runs(entry.run_id):
        for handed_out in await stores.contexts.contexts_of_run(entry.project_id, entry.task_id, run):
            for pattern_id in (*handed_out.pattern_ids, *handed_out.worked):
                if pattern_id in checked:
                    continue
                checked.add(pattern_id)
                evidence = await _live(stores, pattern_id)
                if evidence is None or evidence.words.entry_id == entry.entry_id:
                    continue
                if not any(
                    [await _run_comparison(partial(echoes, text, evidence), text, evidence) for text in entry.dead_ends]
                ):
                    continue
                outcome = Outcome(
                    context_id=handed_out.context_id,
                    pattern_id=pattern_id,
                    project_id=entry.project_id,
                    task_id=entry.task_id,
                    run_id=handed_out.run_id or entry.run_id or "",
                    worked=False,
                    recorded_by=entry.source or entry.captured_by,
                    low_trust=entry.low_trust,
                )
                with suppress(NotFound):  # deleted meanwhile
                    arms = await stores.records.arms_of(handed_out.context_id)
                    await stores.contexts.record_outcomes([outcome], now, arms=arms)


async def find_echoed_entry(stores: Stores, entry_id: EntryId, resolution: str) -> EntryId | None:
    """Return the entry that a deleted echo repeated, None where `entry_id` was not an echo.

    So a call whose response was lost can be retried. Raises NotOpen for another resolution than the echo's.
    """
    pattern_id = await stores.contexts.pattern_reported_by(entry_id)
    if pattern_id is None:
        return None
    evidence = await stores.patterns.get(pattern_id, now=stores.clock.now())
    if not await _run_comparison(partial(echoes, resolution, evidence), resolution, evidence):
        raise NotOpen(
            f"entry {entry_id} was resolved with a solution that had been handed out, and is now an outcome of pattern"
            f" {pattern_id}: it cannot get another resolution"
        )
    return evidence.words.entry_id


async def _run_comparison(compare: Callable[[], bool], text: str, evidence: Evidence) -> bool:
    """Run a comparison of a text with a pattern's texts, in a thread where they are long."""
    words = evidence.words
    return await run_in_thread_if_long(
        len(text) + len(embedding_text.resolution(words)) + len(embedding_text.situation(words)), compare
    )


def echoes(text: str, evidence: Evidence) -> bool:
    """Return whether a text repeats a pattern's resolution or quotes part of it.

    False where the code differs: `git branch -D` is the correction of `git branch -d`.
    """
    words = evidence.words
    resolution = embedding_text.resolution(words)
    if ParsedText(text).is_reworded(ParsedText(resolution)):
        return False
    return repeats(text, resolution) or _quotes(
        text, resolution, f"{embedding_text.situation(words)}\n{embedding_text.when_to_try(evidence)}"
    )


def denies(text: str, evidence: Evidence) -> bool:
    """Return whether a text quotes a pattern's advice in a sentence that denies it."""
    sentences = set(_sentences(_CONTEXT_LABELS.sub("", text)))
    advice = [
        each for each in _sentences(embedding_text.resolution(evidence.words)) if each.count(" ") > _MIN_ADVICE_WORDS
    ]
    if len(sentences) > MAX_QUOTED_SENTENCES or len(advice) > MAX_QUOTED_SENTENCES:
        return False
    return any(part in sentence and not _contains_undenied(sentence, part) for part in advice for sentence in sentences)


def _quotes(text: str, resolution: str, other: str) -> bool:
    """Return whether every sentence of a text is a quote of `resolution` or `other`, enough of them of the first."""
    sentences = set(_sentences(_CONTEXT_LABELS.sub("", text)))
    if len(sentences) > MAX_QUOTED_SENTENCES:
        return False
    own_sentences, other_sentences, quoted = "\n".join(_sentences(resolution)), "\n".join(_sentences(other)), 0
    for sentence in sentences:
        if _contains_undenied(own_sentences, sentence):
            quoted += sentence.count(" ") - 1
        elif not _contains_undenied(other_sentences, sentence):
            return False
    return quoted >= MIN_QUOTED_WORDS


def _sentences(text: str) -> list[str]:
    """Return each sentence as its words in lower case, with a space around each word."""
    split = (token_texts(each.casefold()) for each in _SENTENCE.split(text))
    return [f" {' '.join(words)} " for words in split if words]


def _contains_undenied(text: str, part: str) -> bool:
    """Return whether a sentence of the text contains these words and its other words do not deny them."""
    at = text.find(part)
    if at < 0:
        return False
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    rest = text[begin:at] + text[at + len(part) - 1 : end if end >= 0 else None]
    return _DENIAL_WORDS.isdisjoint(rest.split())


def repeats(text: str, other: str) -> bool:
    """Return whether two texts say the same in nearly the same words: `MIN_ECHO_OVERLAP` of all words are shared.

    False where a number, name or sign differs, or one denies the other: that is a correction.
    """
    if embedding_text.normalise(text) == embedding_text.normalise(other):
        return True
    words, other_words = (number_words(term_counts(each)) for each in (text, other))
    return word_overlap(words, other_words) >= MIN_ECHO_OVERLAP and not says_otherwise(
        _read_without_marks(text), _read_without_marks(other)
    )


def _read_without_marks(text: str) -> ParsedText:
    return ParsedText(without_list_marks(text))
