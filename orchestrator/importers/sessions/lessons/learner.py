"""Learning from sessions: each lesson is captured once, resolved when it is mended, withdrawn when it no longer holds.

Over HTTP and in process alike; reading is apart from capturing, since it takes a thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Protocol

from hardwon.errors import AccessDenied, Conflict, InvalidInput, NotFound
from hardwon.models.choices import ChoiceRecord
from hardwon.models.entries import CaptureOutcome, CaptureResult, Entry, EntryStatus, NewEntry
from hardwon.models.ids import EntryId
from hardwon.validation import as_id
from orchestrator.importers.sessions.formats import Found, Transcript, read_sessions
from orchestrator.importers.sessions.lessons.entries import LessonEntry, identity_of, make_entry, project_of
from orchestrator.importers.sessions.lessons.read_marks import KnownLesson, ReadMarks
from orchestrator.importers.sessions.pairing import LessonKind, pair
from orchestrator.importers.sessions.steps import Session

ECHO = "solutions that repeat what hardwon handed out"
UNCHANGED = "sessions that were read before"
KEPT = "lessons that no longer hold and that this key may not delete"
_CONTEXTS = 1000
"""Latest contexts of a project among which those of a session are looked for; ours."""


class Capture(Protocol):
    """The part of a capture service that lessons need."""

    async def capture_all(self, entries: Sequence[NewEntry]) -> list[CaptureResult]:
        """Capture entries, each on its own, in order."""

    async def resolve_failure(
        self, entry_id: EntryId, *, solution_steps: str, verified_by: str, dead_ends: Sequence[str], outside_text: bool
    ) -> EntryId:
        """Give an open failure its verified solution."""

    async def resolve_gate_rejection(self, entry_id: EntryId, *, revision_approach: str) -> EntryId:
        """Give an open rejection the accepted revision."""

    async def get(self, entry_id: EntryId) -> Entry:
        """Return an entry."""

    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry."""


class Contexts(Protocol):
    """The part of the log of contexts that lessons need."""

    async def list(self, *, project_id: str | None, limit: int) -> list[ChoiceRecord]:
        """Return the latest contexts of a project."""


class LearningKnowledge(Protocol):
    """The services that lessons go to, in process or over HTTP."""

    @property
    def capture(self) -> Capture: ...  # noqa: D102

    @property
    def contexts(self) -> Contexts: ...  # noqa: D102

    def report_as(self, reporter: str) -> LearningKnowledge:
        """Return the services whose captures are an agent's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSession:
    """The lessons of one session. `dropped`: failures that teach nothing by now, the ids of their steps by identity."""

    session_id: str
    lessons: tuple[LessonEntry, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SessionReader:
    """Reads transcripts, a session at a time. `named`: beginnings of commands that a setting makes checks.

    `opens_folders`: the folders that sessions name are of this machine; not those that a caller from afar may choose.
    """

    project: str | None = None
    named: Sequence[str] = ()
    with_prompts: bool = False
    opens_folders: bool = True
    left_out: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)

    def read(self, transcripts: Sequence[Transcript]) -> list[LearnedSession]:
        """Return what the sessions in some transcripts teach."""
        learned = []
        for session in read_sessions(transcripts, self.unread):
            self.left_out.update({f"lines: {reason}": count for reason, count in session.passed_over.items()})
            learned.append(self.find_lessons(session))
        return learned

    def find_lessons(self, session: Session) -> LearnedSession:
        """Return what a session teaches."""
        pairing = pair(session, named=self.named)
        self.left_out += pairing.left_out
        project = project_of(session, self.project, opens_folder=self.opens_folders)
        lessons = (
            make_entry(each, session, project=project, with_prompts=self.with_prompts) for each in pairing.lessons
        )
        dropped = {identity_of(step, session): step.id for step in pairing.dropped}
        return LearnedSession(session_id=session.session_id, lessons=tuple(lessons), dropped=dropped)


def select_changed(found: Found, marks: ReadMarks) -> list[list[Transcript]]:
    """Return the files of each session of which one is new, or has changed since it was read."""
    changed = []
    for _, members in groupby(found.transcripts, key=lambda each: each.group):
        files = list(members)
        if all(map(marks.is_read, files)):
            found.left_out[UNCHANGED] += 1
        else:
            changed.append(files)
    return changed


@dataclass(kw_only=True)
class SessionLearner:
    """Captures the lessons of sessions in one workspace. `tell` gets the result of each; `left_out` is added to."""

    knowledge: LearningKnowledge
    marks: ReadMarks
    tell: Callable[[CaptureResult], None]
    left_out: Counter[str]
    _contexts: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)

    async def learn(self, session: LearnedSession) -> None:
        """Capture what a session teaches and is not known yet."""
        await self._withdraw(session)
        new: dict[str, list[LessonEntry]] = defaultdict(list)
        for lesson in session.lessons:
            known = self.marks.find(lesson.identity)
            if known is not None and not (lesson.is_echo and known.kind == LessonKind.OPEN):
                is_told_again = lesson.lesson.kind == known.kind == LessonKind.OPEN and lesson.entry.dead_ends
                await (self._tell_again(lesson) if is_told_again else self._settle(lesson, known))
                continue
            if known is not None:  # it was told open, before the agent was handed what mended it
                await self._delete(known, lesson.lesson.step.id)
            if not lesson.is_echo:
                new[lesson.reporter].append(lesson)
            elif (context := await self._find_context(lesson, session)) is not None:
                task_id, run_id = context
                echo = replace(lesson.entry, task_id=task_id, run_id=run_id, idempotency_key=None)
                new[lesson.reporter].append(replace(lesson, entry=echo))
            else:
                self.left_out[ECHO] += 1
        for reporter, lessons in new.items():
            answers = await self.knowledge.report_as(reporter).capture.capture_all([each.entry for each in lessons])
            for lesson, answer in zip(lessons, answers, strict=True):
                await self._add(lesson, answer)

    async def learn_files(self, files: Sequence[Transcript], reader: SessionReader) -> None:
        """Read the files of a session in a thread, capture what they teach, and remember that they were read."""
        for session in await asyncio.to_thread(reader.read, files):
            await self.learn(session)
        self.mark_read(files, reader.unread)

    def mark_read(self, files: Sequence[Transcript], unread: list[str]) -> None:
        """Remember that files were read, but for those that could not be."""
        names = {line.partition(": ")[0] for line in unread}
        for file in files:
            if str(file.path) not in names:
                try:
                    self.marks.mark_read([file])
                except OSError as error:
                    unread.append(f"{file.path}: {error.strerror}")

    async def _add(self, lesson: LessonEntry, answer: CaptureResult) -> None:
        """Report an answer, and remember the entry; one that was captured open by a run without marks is resolved."""
        if answer.entry_id is not None and answer.field == "idempotency_key":
            known = KnownLesson(identity=lesson.identity, entry_id=str(answer.entry_id), kind=LessonKind.OPEN)
            await self._settle(lesson, known)
            return
        self.tell(answer)
        if answer.entry_id is not None:
            self._save(lesson, answer.entry_id)

    async def _tell_again(self, lesson: LessonEntry) -> None:
        """Capture an open failure again, for what was tried since."""
        (answer,) = await self.knowledge.report_as(lesson.reporter).capture.capture_all([lesson.entry])
        self.tell(answer)

    async def _settle(self, lesson: LessonEntry, known: KnownLesson) -> None:
        """Resolve the open entry of a failure that was mended since; another lesson is known already."""
        entry_id = EntryId(as_id("entry_id", known.entry_id))
        kind, entry = lesson.lesson.kind, lesson.entry
        capture = self.knowledge.report_as(lesson.reporter).capture
        try:
            if kind is LessonKind.FIX and known.kind == LessonKind.OPEN and entry.solution_steps:
                await capture.resolve_failure(
                    entry_id,
                    solution_steps=entry.solution_steps,
                    verified_by=entry.verified_by or "the same check",
                    dead_ends=entry.dead_ends,
                    outside_text=entry.outside_text,
                )
            elif kind is LessonKind.REJECTION and known.kind != _kind_of(lesson) and entry.revision_approach:
                await capture.resolve_gate_rejection(entry_id, revision_approach=entry.revision_approach)
            else:
                self.tell(CaptureResult(outcome=CaptureOutcome.DUPLICATE, entry_id=entry_id))
                return
        except (Conflict, InvalidInput, NotFound) as error:
            self.tell(CaptureResult(outcome=CaptureOutcome.REFUSED, entry_id=entry_id, error=str(error)))
            return
        self.tell(CaptureResult(outcome=CaptureOutcome.ACCEPTED, entry_id=entry_id, status=EntryStatus.STAGED))
        self._save(lesson, entry_id)

    async def _withdraw(self, session: LearnedSession) -> None:
        """Delete the entries of failures that teach nothing by now, such as of a fix that fails again later."""
        for identity, step_id in session.dropped.items():
            if (known := self.marks.find(identity)) is not None:
                await self._delete(known, step_id)

    async def _delete(self, known: KnownLesson, step_id: str) -> None:
        """Delete the entry of a lesson that no longer holds, as far as this key may, and unless it is another run's."""
        entry_id = EntryId(as_id("entry_id", known.entry_id))
        try:
            entry = await self.knowledge.capture.get(entry_id)
            if (entry.run_id or "").endswith(f"/{step_id}"):  # else the one that it repeated
                await self.knowledge.capture.delete(entry_id)
        except AccessDenied:
            self.left_out[KEPT] += 1
            return
        except NotFound:
            pass
        self.marks.forget(known.identity)

    async def _find_context(self, lesson: LessonEntry, session: LearnedSession) -> tuple[str, str] | None:
        """Return the task and run of a context with patterns that the session was handed; None if unknown.

        Of several, that of the lesson's own check, else the latest.
        """
        name = (lesson.entry.project_id, session.session_id)
        if name not in self._contexts:
            try:
                contexts = await self.knowledge.contexts.list(project_id=name[0], limit=_CONTEXTS)
            except (AccessDenied, NotFound):
                contexts = []
            self._contexts[name] = [
                (each.task_id, each.run_id)
                for each in contexts
                if each.run_id == session.session_id and each.shown and each.task_id
            ]
        known = self._contexts[name]
        return next((each for each in known if each[0] == lesson.entry.task_id), next(iter(known), None))

    def _save(self, lesson: LessonEntry, entry_id: EntryId) -> None:
        self.marks.save(KnownLesson(identity=lesson.identity, entry_id=str(entry_id), kind=_kind_of(lesson)))


def _kind_of(lesson: LessonEntry) -> str:
    """Return the kind of a lesson as it is remembered; a rejection with its revision is another one than without."""
    if lesson.lesson.kind is LessonKind.REJECTION and lesson.entry.revision_approach:
        return f"{LessonKind.REJECTION} with its revision"
    return lesson.lesson.kind
