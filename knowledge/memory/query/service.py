"""Queries for earlier resolutions of similar situations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from hardwon.coercion import Alias, coerce_arguments
from hardwon.context.deadline import Patience
from hardwon.errors import NotFound
from hardwon.models.patterns import KNOWN_ONLY, MAX_RESULTS, FoundPatterns
from hardwon.validation import MAX_TEXT_BYTES, as_id, as_integer, as_relevance, check_flag, check_text
from knowledge.access.seals import collect_refused, describe_refused
from knowledge.memory.capture.outcomes import merge_target
from knowledge.memory.query.arm_counts import SearchResult
from knowledge.memory.query.choice import choose
from knowledge.memory.query.search import Question, search
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import error_key
from knowledge.memory.rules.conditions import read_facts
from knowledge.memory.rules.ranking import Match, rank, rank_for_gate
from knowledge.models import (
    Entry,
    EntryType,
    Evidence,
    Hint,
    NearPattern,
    Pattern,
    PatternId,
    PointFilter,
    PointId,
    Reason,
    Task,
    TaskFacts,
    View,
)
from knowledge.ports import Stores
from knowledge.runtime.instrumentation import step
from knowledge.runtime.scheduling import run_in_thread_if_long
from knowledge.text.error_summary import log_start
from knowledge.text.redaction import redact

_GATE_ENTRY_TYPES = frozenset({EntryType.GATE_REJECTION, EntryType.GATE_APPROVAL})
_MAX_NEAR = 5
"""Patterns that explain a silence; ours."""
_TASK_HINTS, _FAILURE_HINTS = 5, 3
"""Patterns weighed for the places of a context, as many as queries return by default."""
_MAX_QUERY_CHARS = 16_000
"""Longer queries are cut in the middle, as embedded texts of entries are; at four bytes each it fits MAX_TEXT_BYTES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The patterns to show, and the confidence that the right one is known, 0..1 (`knowledge.retrieval.confidence`)."""

    patterns: list[Pattern]
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RAGQueryService:
    """Orchestrator-only service for querying what was learned."""

    stores: Stores
    task_relevance: float
    failure_relevance: float
    redaction: bool = True
    margin: float = 0.0

    @coerce_arguments
    @step("query_for_task")
    async def query_for_task(
        self,
        task_description: Annotated[str, Alias(("description",))],
        agent_type: str | None = None,
        task_type: Annotated[str | None, Alias(("type",))] = None,
        technology: str | None = None,
        max_results: int = 5,
        *,
        min_relevance: float | None = None,
        only_if_sure: bool = False,
        facts: TaskFacts | None = None,
    ) -> list[Pattern]:
        """Return the relevant patterns for a task before it is assigned, best first.

        The description is compared with task descriptions and situations. A pattern of this agent type, task type and
        technology ranks above one without them, such as a gate's, and that above one with others; these fields exclude
        none. `min_relevance` (0..1) replaces the setting. `only_if_sure`: for injection unasked; returns nothing where
        the best is likely not a match (`retrieval.confidence`), and excludes patterns of another error of the same
        kind (`text.error_summary`). `facts`: the task's `technology`, its `version`, `tool` and `error`;
        patterns known not to apply are excluded. Raises InvalidInput, Unavailable or SpaceMismatch.
        """
        check_flag("only_if_sure", only_if_sure)
        question = self._task_question(
            task_description,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            max_results=max_results,
            min_relevance=min_relevance,
            facts=facts,
        )
        if only_if_sure:
            hint = await self._hint(question, agent_type)
            return FoundPatterns(hint.patterns, degraded=_note(hint.index_error, hint.altered))
        return await self._answer(question)

    @step("query_for_task")
    async def hint_for_task(
        self, task: Task, agent_type: str, *, embed_by: float | None = None, patience: Patience | None = None
    ) -> Hint:
        """Return the patterns to give with a task, if any, and the choice; for contexts. Raises as `query_for_task`.

        `embed_by`: the time of the event loop after which the question is compared by its words alone. `patience`: how
        long it waits for the index; with it no IndexUnavailable is raised, and the hint tells the reason.
        """
        question = self._task_question(
            task.description,
            agent_type=agent_type,
            task_type=task.type,
            technology=task.technology,
            max_results=_TASK_HINTS,
            facts=task.facts,
        )
        return await self._hint(replace(question, embed_by=embed_by, patience=patience), agent_type)

    def _task_question(
        self,
        task_description: str,
        *,
        agent_type: str | None,
        task_type: str | None,
        technology: str | None,
        max_results: int,
        min_relevance: float | None = None,
        facts: TaskFacts | None = None,
    ) -> Question:
        _check_fields(agent_type=agent_type, task_type=task_type, technology=technology)
        return Question(
            text=_query_text("task_description", task_description),
            situation=task_description,
            error_key=partial(self._error_key, task_description),
            where=replace(self._where(), agent_type=agent_type, task_type=task_type, technology=technology),
            floor=_relevance_floor(min_relevance, self.task_relevance),
            max_results=_parse_limit(max_results),
            facts=read_facts(facts, technology=technology),
        )

    @coerce_arguments
    @step("query_for_failure")
    async def query_for_failure(
        self,
        failure_description: str,
        error_message: str | None = None,
        agent_type: str | None = None,
        task_type: Annotated[str | None, Alias(("type",))] = None,
        max_results: int = 3,
        *,
        technology: str | None = None,
        min_relevance: float | None = None,
        only_if_sure: bool = False,
        facts: TaskFacts | None = None,
    ) -> list[Pattern]:
        """Return the patterns that solved similar failures, best first; ranks and raises as `query_for_task`.

        The error message is used as a fact, too.
        """
        check_flag("only_if_sure", only_if_sure)
        question = await self._failure_question(
            failure_description,
            error_message,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            max_results=max_results,
            min_relevance=min_relevance,
            facts=facts,
        )
        if only_if_sure:
            hint = await self._hint(question, agent_type)
            return FoundPatterns(hint.patterns, degraded=_note(hint.index_error, hint.altered))
        return await self._answer(question)

    @step("query_for_failure")
    async def hint_for_failure(
        self,
        failure: Entry,
        task: Task,
        agent_type: str,
        *,
        embed_by: float | None = None,
        patience: Patience | None = None,
    ) -> Hint:
        """Return the patterns to give with a task after its failure, if any, and the choice; raises likewise."""
        question = await self._failure_question(
            failure.failure_description or "",
            failure.error_message,
            agent_type=agent_type,
            task_type=task.type,
            technology=task.technology,
            max_results=_FAILURE_HINTS,
            facts=task.facts,
        )
        return await self._hint(replace(question, embed_by=embed_by, patience=patience), agent_type)

    async def _failure_question(
        self,
        failure_description: str,
        error_message: str | None,
        *,
        agent_type: str | None,
        task_type: str | None,
        technology: str | None,
        max_results: int,
        min_relevance: float | None = None,
        facts: TaskFacts | None = None,
    ) -> Question:
        _check_fields(agent_type=agent_type, task_type=task_type, technology=technology)
        return Question(
            text=await self._failure_text(failure_description, error_message),
            situation=embedding_text.failure_situation(failure_description, error_message),
            error_key=partial(self._error_key, failure_description, error_message),
            where=replace(self._failures(), agent_type=agent_type, task_type=task_type, technology=technology),
            floor=_relevance_floor(min_relevance, self.failure_relevance),
            max_results=_parse_limit(max_results),
            facts=read_facts(facts, technology=technology, error=error_message),
        )

    @coerce_arguments
    @step("query_for_gate")
    async def query_for_gate(
        self,
        gate_type: str,
        proposal: str,
        *,
        project_id: str | None = None,
        max_results: int = 5,
        min_relevance: float | None = None,
    ) -> list[Pattern]:
        """Return decisions of people on similar proposals at such a gate, best first.

        Both rejections, with the accepted revision, and first-attempt approvals, where there are any. Other gates'
        decisions follow only where there are fewer than three of this one (or fewer than `max_results`). Decisions of
        the project `project_id` rank higher. Raises as `query_for_task` does.
        """
        check_text("gate_type", gate_type)
        _check_fields(project_id=project_id)
        question = Question(
            text=_query_text("proposal", proposal),
            where=replace(self._where(), entry_types=_GATE_ENTRY_TYPES, gate_type=gate_type),
            floor=_relevance_floor(min_relevance, self.task_relevance),
            max_results=_parse_limit(max_results),
            project_id=project_id,
        )
        question = self._redact_question(question)
        with collect_refused() as refused:
            result = await search(self.stores, question)
        matches = rank_for_gate(_relevant(result, question), limit=max_results)
        return _to_answer(matches, result, describe_refused(refused))

    async def weigh_failure(
        self, failure_description: str, error_message: str | None = None, *, without: Collection[PointId] = ()
    ) -> Answer:
        """Return the patterns that would be injected for a failure, with the confidence; ignores points `without`.

        For measuring the answer to an unknown failure.
        """
        question = Question(
            text=await self._failure_text(failure_description, error_message),
            where=replace(self._failures(), without=frozenset(without)),
            floor=self.failure_relevance,
            max_results=_FAILURE_HINTS,
        )
        hint = await self._hint(question, None)
        confidence = 0.0 if hint.choice is None else hint.choice.confidence
        return Answer(patterns=list(hint.patterns), confidence=confidence)

    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern as a query would show it, with relevance 1. Raises NotFound.

        Returns the pattern that it was merged into, if any.
        """
        pattern = to_pattern(await get_live(self.stores, PatternId(as_id("pattern_id", pattern_id))))
        return await with_dead_ends(self.stores, pattern)

    def _where(self) -> PointFilter:
        return PointFilter(workspace=self.stores.workspace, live_at=self.stores.clock.now())

    def _failures(self) -> PointFilter:
        return replace(self._where(), view=View.SITUATION, entry_types=frozenset({EntryType.FAILURE_SOLUTION}))

    async def _answer(self, question: Question) -> list[Pattern]:
        question = self._redact_question(question)
        with collect_refused() as refused:
            result = await search(self.stores, question)
        matches = rank(_relevant(result, question), limit=question.max_results)
        return _to_answer(matches, result, describe_refused(refused))

    async def _hint(self, question: Question, agent_type: str | None) -> Hint:
        question = replace(self._redact_question(question), unasked=True, asked_by=agent_type)
        with collect_refused() as refused:
            result = await search(self.stores, question)
        ranked = choose(result, question, margin=self.margin)
        is_unknown = result.index_error is not None and ranked.reason is Reason.NOTHING_NEAR
        return Hint(
            patterns=tuple(_to_patterns(ranked.shown)),
            reason=Reason.DEGRADED if is_unknown else ranked.reason,
            choice=ranked.choice,
            words_only=result.words_only,
            embedder_failed=result.embedder_failed,
            index_error=result.index_error,
            index_failed=result.index_failed,
            near=_find_near(result.matches, question.floor) if ranked.choice is None else (),
            altered=describe_refused(refused),
        )

    async def _failure_text(self, failure: str, error: str | None) -> str:
        """Return the query text of a failure, with the gist of a log or a long error.

        Raises InvalidInput, naming the field.
        """
        is_log = _is_log(failure)
        failure = _query_text(
            "failure_description", failure, max_chars=_max_chars(failure) if is_log else _MAX_QUERY_CHARS
        )
        if error is None and not is_log:
            return failure
        if error is not None:
            error = _query_text("error_message", error, max_chars=_max_chars(error))  # its gist is short
        return _truncate_middle(
            await run_in_thread_if_long(
                len(failure) + len(error or ""), partial(self._failure_gist, failure, error or "")
            )
        )

    def _failure_gist(self, failure: str, error: str) -> str:
        if self.redaction:  # before truncation: half a secret is not recognised
            failure, error = _redact_together(failure, error)
        return embedding_text.failure_gist(failure, error)

    def _error_key(self, description: str, error: str | None = None) -> str:
        """Return the key of the error of a question, as of an entry."""
        if self.redaction:
            description, error = _redact_together(description, error or "")
        return error_key(error, description)

    def _redact_question(self, question: Question) -> Question:
        """Return the question redacted, as entries are stored."""
        if not self.redaction:
            return question
        text = redact(question.text).text
        whole = question.situation
        situation = text if whole is None or whole == question.text else redact(whole[:_MAX_QUERY_CHARS]).text
        return replace(question, text=text, situation=situation)


def _check_fields(**fields: object) -> None:
    """Raise InvalidInput, naming the field, for a value other than None that no entry could have in that field."""
    for field, value in fields.items():
        if value is not None:
            check_text(field, value)


def _redact_together(one: str, other: str) -> tuple[str, str]:
    """Return two texts redacted; a secret found in one is removed from both."""
    lines = redact(f"{one}\n{other}", keep_lines=True).text.split("\n")
    of_one = one.count("\n") + 1
    return "\n".join(lines[:of_one]), "\n".join(lines[of_one:])


def _parse_limit(limit: int, field: str = "max_results") -> int:
    """Return a number of results. Raises InvalidInput unless it is 1 to `MAX_RESULTS`."""
    return as_integer(field, limit, least=1, most=MAX_RESULTS)


def _relevance_floor(min_relevance: float | None, default: float) -> float:
    """Return the minimum relevance of a situation. Raises InvalidInput for a value that is not a relevance."""
    if min_relevance is None:
        return default
    return as_relevance("min_relevance", min_relevance)


def _query_text(field: str, text: str, *, max_chars: int = _MAX_QUERY_CHARS) -> str:
    """Return a query text, cut in the middle where it is long. Raises InvalidInput, naming the field.

    Of a task's description that is a log the gist is returned, redacted beforehand: half a secret is not recognised.
    """
    if isinstance(text, str):
        text = _truncate_middle(text, max_chars)
    check_text(field, text)
    if field == "task_description" and _is_log(text):
        return embedding_text.description_gist(redact(text, keep_lines=True).text)
    return text


def _is_log(text: object) -> bool:
    return isinstance(text, str) and log_start(text) is not None


def _max_chars(text: object) -> int:
    """Return the number of characters of this text that an entry could hold."""
    fits = not isinstance(text, str) or text.isascii() or len(text.encode(errors="replace")) <= MAX_TEXT_BYTES
    return MAX_TEXT_BYTES - 1 if fits else _MAX_QUERY_CHARS  # minus the line break between the two ends


def _truncate_middle(text: str, max_chars: int = _MAX_QUERY_CHARS) -> str:
    """Return a text, or its beginning and end, cut between words: half a secret is not recognised."""
    if len(text) <= max_chars:
        return text
    half, text = max_chars // 2, text.strip()
    return f"{text[:half].rsplit(maxsplit=1)[0]}\n{text[-half:].split(maxsplit=1)[-1]}"


def _relevant(result: SearchResult, question: Question) -> list[Match]:
    return [match for match in result.matches if match.relevance >= question.floor]


def _to_answer(matches: Sequence[Match], result: SearchResult, altered: str | None) -> FoundPatterns:
    return FoundPatterns(_to_patterns(matches), degraded=_note(result.index_error, altered))


def _note(index_error: str | None, altered: str | None) -> str | None:
    without_index = None if index_error is None else f"{KNOWN_ONLY}: {index_error}"
    return "; ".join(filter(None, (without_index, altered))) or None


def _to_patterns(matches: Sequence[Match]) -> list[Pattern]:
    return [replace(to_pattern(match.evidence), relevance=match.relevance) for match in matches]


def _find_near(matches: Sequence[Match], needed: float) -> tuple[NearPattern, ...]:
    """Return the likeliest patterns of a search, none of which was chosen."""
    nearest: dict[PatternId, NearPattern] = {}
    for match in matches:
        if len(nearest) == _MAX_NEAR:
            break
        pattern_id = match.evidence.pattern_id
        near = NearPattern(pattern_id=pattern_id, relevance=match.relevance, needed=needed, is_failing=match.is_failing)
        nearest.setdefault(pattern_id, near)
    return tuple(nearest.values())


async def get_live(stores: Stores, pattern_id: PatternId) -> Evidence:
    """Return a live pattern, or the one that it was merged into. Raises NotFound."""
    now = stores.clock.now()
    try:
        return await stores.patterns.get(pattern_id, now=now)
    except NotFound:
        target = await merge_target(stores, pattern_id)
        if target == pattern_id:
            raise
        return await stores.patterns.get(target, now=now)


async def with_dead_ends(stores: Stores, pattern: Pattern) -> Pattern:
    """Return a pattern with what was tried in its situation and did not help."""
    found = await stores.entries.find_dead_ends([pattern.pattern_id])
    return replace(pattern, dead_ends=found.get(pattern.pattern_id, ()))


def to_pattern(evidence: Evidence) -> Pattern:
    """Return a pattern for display, in the words of its most trusted evidence; its relevance is 1."""
    words = evidence.words
    return Pattern(
        pattern_id=evidence.pattern_id,
        entry_type=evidence.entry_type,
        problem=embedding_text.situation(words),
        solution=embedding_text.resolution(words),
        when_to_try=_when_to_try(evidence),
        success_count=evidence.success_count,
        attempt_count=evidence.attempt_count,
        project_count=evidence.project_count,
        relevance=1.0,
        agent_type=words.agent_type,
        task_type=words.task_type,
        technology=words.technology,
        gate_type=words.gate_type,
        entry_ids=evidence.entry_ids,
        source=words.source,
        founded_at=evidence.founded_at,
        rivals=evidence.rivals,
        tags=evidence.tags,
        distilled=evidence.distilled,
        verify=embedding_text.verifying_command(words),
    )


def _when_to_try(evidence: Evidence) -> str:
    """Return the captured sentence; else a model's, marked as such; else one built from the evidence."""
    if evidence.distilled is not None and not evidence.when_to_try:
        return embedding_text.model_written(evidence.distilled)
    return embedding_text.when_to_try(evidence)
