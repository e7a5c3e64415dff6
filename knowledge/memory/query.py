"""Queries: how were such situations resolved before?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from knowledge.errors import NotFound
from knowledge.forms import as_id, as_relevance, as_whole, check_flag
from knowledge.memory import texts
from knowledge.memory.applying import read_facts
from knowledge.memory.limits import MAX_TEXT_BYTES, check_text
from knowledge.memory.outcomes import joined_to
from knowledge.memory.ranking import Match, rank, rank_for_gate
from knowledge.memory.searching import Question, search
from knowledge.models import EntryType, Evidence, FactsTold, Pattern, PatternId, PointId, View, Where
from knowledge.ports import Stores
from knowledge.redaction import redact
from knowledge.steps import step
from knowledge.turns import aside_if_long

MAX_RESULTS = 100
_DECIDED = frozenset({EntryType.GATE_REJECTION, EntryType.GATE_APPROVAL})
_MAX_QUERY_CHARS = 16_000
"""A longer question keeps its ends, as what is embedded of an entry does; at four bytes each it fits MAX_TEXT_BYTES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The patterns to show, and how sure it is that the right one is known, 0..1 (`knowledge.search.silence`).

    `sure` is whether that is enough to say something unasked.
    """

    patterns: list[Pattern]
    confidence: float
    sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RAGQueryService:
    """Orchestrator-only service for querying what was learned."""

    stores: Stores
    task_relevance: float
    failure_relevance: float
    redaction: bool = True

    @step("query_for_task")
    async def query_for_task(
        self,
        task_description: str,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        max_results: int = 5,
        *,
        min_relevance: float | None = None,
        only_if_sure: bool = False,
        facts: FactsTold | None = None,
    ) -> list[Pattern]:
        """Return the patterns to know before a task is assigned, best first.

        The description is compared with task descriptions and with situations. A pattern of this agent type, task type
        and technology counts more than one of which they are not told, as of a gate's, and that more than one of
        others; none is left out for them (`knowledge.memory.fitting`). `min_relevance` (0..1) replaces the setting.
        `only_if_sure`: nothing at all where the best is likely no match (`knowledge.search.silence`), nor what was
        learned of another error of the same kind (`knowledge.search.error_codes`), for what is injected unasked.
        `facts` are what is known of where the task is done, of `technology`, its `version`, `tool` and `error`; what is
        known not to apply there is left out. Raises InvalidInput, Unavailable or SpaceMismatch.
        """
        check_flag("only_if_sure", only_if_sure)
        _check_told(agent_type=agent_type, task_type=task_type, technology=technology)
        question = Question(
            text=_asked("task_description", task_description),
            where=replace(self._where(), agent_type=agent_type, task_type=task_type, technology=technology),
            floor=_floor(min_relevance, self.task_relevance),
            max_results=_checked(max_results),
            facts=read_facts(facts, technology=technology),
            unasked=only_if_sure,
        )
        answer = await self._answer(question)
        return answer.patterns if answer.sure or not only_if_sure else []

    @step("query_for_failure")
    async def query_for_failure(
        self,
        failure_description: str,
        error_message: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        max_results: int = 3,
        *,
        technology: str | None = None,
        min_relevance: float | None = None,
        only_if_sure: bool = False,
        facts: FactsTold | None = None,
    ) -> list[Pattern]:
        """Return how failures like this one were solved, best first; weighs fields and raises as `query_for_task`.

        The error message is a fact, too.
        """
        check_flag("only_if_sure", only_if_sure)
        _check_told(agent_type=agent_type, task_type=task_type, technology=technology)
        question = Question(
            text=await self._failure(failure_description, error_message),
            where=replace(self._failures(), agent_type=agent_type, task_type=task_type, technology=technology),
            floor=_floor(min_relevance, self.failure_relevance),
            max_results=_checked(max_results),
            facts=read_facts(facts, technology=technology, error=error_message),
            unasked=only_if_sure,
        )
        answer = await self._answer(question)
        return answer.patterns if answer.sure or not only_if_sure else []

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
        """Return what people decided on proposals like this one at such a gate, best first.

        What they turned down, with the revision they accepted, and what passed at once: of both, while there are any.
        Another gate's decisions follow only where there are fewer than three of this one (of `max_results`, if that is
        less). What was decided in the project of `project_id` counts more. Raises as `query_for_task` does.
        """
        check_text("gate_type", gate_type)
        _check_told(project_id=project_id)
        question = Question(
            text=_asked("proposal", proposal),
            where=replace(self._where(), entry_types=_DECIDED, gate_type=gate_type),
            floor=_floor(min_relevance, self.task_relevance),
            max_results=_checked(max_results),
            project_id=project_id,
        )
        found = await search(self.stores, self._redacted(question))
        return _shown(rank_for_gate(found.matches, limit=max_results))

    async def weigh_failure(
        self, failure_description: str, error_message: str | None = None, *, without: Collection[PointId] = ()
    ) -> Answer:
        """Return what would be injected for a failure, and how sure it is; as if points `without` were not there.

        For measurements: what would be said of a failure that is not known.
        """
        question = Question(
            text=await self._failure(failure_description, error_message),
            where=replace(self._failures(), without=frozenset(without)),
            floor=self.failure_relevance,
            max_results=3,
            unasked=True,
        )
        answer = await self._answer(question)
        return answer if answer.sure else replace(answer, patterns=[])

    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern as a query would show it, with relevance 1. Raises NotFound.

        Where a person joined it to another one since, it is that one.
        """
        return to_pattern(await live(self.stores, PatternId(as_id("pattern_id", pattern_id))))

    async def browse(self, *, after: PatternId | None = None, limit: int = 20) -> list[Pattern]:
        """Return live patterns in the order of their ids, from behind `after` on, with relevance 1: for people."""
        after = None if after is None else PatternId(as_id("after", after))
        found = await self.stores.patterns.page(
            after=after, limit=_checked(limit, "limit"), now=self.stores.clock.now()
        )
        return [to_pattern(evidence) for evidence in found]

    def _where(self) -> Where:
        return Where(workspace=self.stores.workspace, live_at=self.stores.clock.now())

    def _failures(self) -> Where:
        return replace(self._where(), view=View.SITUATION, entry_types=frozenset({EntryType.FAILURE_SOLUTION}))

    async def _answer(self, question: Question) -> Answer:
        found = await search(self.stores, self._redacted(question))
        shown = _shown(rank(found.matches, limit=question.max_results))
        return Answer(patterns=shown, confidence=found.confidence, sure=found.speak)

    async def _failure(self, failure: str, error: str | None) -> str:
        """Return what is asked of a failure, of a long error its gist. Raises InvalidInput, naming the field."""
        failure = _asked("failure_description", failure)
        if error is None:
            return failure
        error = _asked("error_message", error, most=_as_an_entry_has(error))  # its gist is short
        return _ends(await aside_if_long(len(failure) + len(error), partial(self._in_short, failure, error)))

    def _in_short(self, failure: str, error: str) -> str:
        if self.redaction:  # first: half a secret is none that is known again
            failure, error = _redacted_together(failure, error)
        return texts.failure_in_short(failure, error)

    def _redacted(self, question: Question) -> Question:
        """Return what is asked in the words that entries are stored in."""
        return replace(question, text=redact(question.text).text) if self.redaction else question


def _check_told(**fields: object) -> None:
    """Raise InvalidInput, naming the field, for what no entry could have as that field, where anything is told."""
    for field, told in fields.items():
        if told is not None:
            check_text(field, told)


def _redacted_together(one: str, other: str) -> tuple[str, str]:
    """Return two texts redacted: a secret that one of them gives away is taken out of both."""
    lines = redact(f"{one}\n{other}", keep_lines=True).text.split("\n")
    of_one = one.count("\n") + 1
    return "\n".join(lines[:of_one]), "\n".join(lines[of_one:])


def _checked(most: int, field: str = "max_results") -> int:
    """Return how many results are asked for. Raises InvalidInput for too many, or none."""
    return as_whole(field, most, least=1, most=MAX_RESULTS)


def _floor(told: float | None, usual: float) -> float:
    """Return how like what is asked for a situation must be. Raises InvalidInput for what is no relevance."""
    if told is None:
        return usual
    return as_relevance("min_relevance", told)


def _asked(field: str, text: str, *, most: int = _MAX_QUERY_CHARS) -> str:
    """Return a text that is asked for, of a long one both ends. Raises InvalidInput, naming the field, for no text."""
    if isinstance(text, str):
        text = _ends(text, most)
    check_text(field, text)
    return text


def _as_an_entry_has(text: object) -> int:
    """Return how many characters of a text an entry could hold."""
    fits = not isinstance(text, str) or text.isascii() or len(text.encode(errors="replace")) <= MAX_TEXT_BYTES
    return MAX_TEXT_BYTES - 1 if fits else _MAX_QUERY_CHARS  # and a line's end between the two ends


def _ends(text: str, most: int = _MAX_QUERY_CHARS) -> str:
    """Return a text, or its beginning and its end, no word torn: half a secret is none that is known again."""
    if len(text) <= most:
        return text
    half, text = most // 2, text.strip()
    return f"{text[:half].rsplit(maxsplit=1)[0]}\n{text[-half:].split(maxsplit=1)[-1]}"


def _shown(matches: Sequence[Match]) -> list[Pattern]:
    return [replace(to_pattern(match.evidence), relevance=match.relevance) for match in matches]


async def live(stores: Stores, pattern_id: PatternId) -> Evidence:
    """Return a live pattern, or the one that a person joined it to. Raises NotFound."""
    now = stores.clock.now()
    try:
        return await stores.patterns.get(pattern_id, now=now)
    except NotFound:
        joined = await joined_to(stores, pattern_id)
        if joined == pattern_id:
            raise
        return await stores.patterns.get(joined, now=now)


def to_pattern(evidence: Evidence) -> Pattern:
    """Return a pattern as it is shown, in the words of its most trusted evidence; its relevance is 1."""
    words = evidence.words
    return Pattern(
        pattern_id=evidence.pattern_id,
        entry_type=evidence.entry_type,
        problem=texts.situation(words),
        solution=texts.resolution(words),
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
        distilled=evidence.distilled,
    )


def _when_to_try(evidence: Evidence) -> str:
    """Return what was captured; else what a model wrote, marked as such; else what is known of where it worked."""
    if evidence.distilled is not None and not evidence.when_to_try:
        return texts.model_written(evidence.distilled)
    return texts.when_to_try(evidence)
