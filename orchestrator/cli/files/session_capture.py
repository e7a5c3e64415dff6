"""Capture of the lessons of coding agents' runs: each once, however often its transcript is read."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.errors import AccessDenied, Conflict, InvalidInput, NotFound
from hardwon.models.entries import CaptureOutcome, CaptureResult, EntryStatus
from hardwon.models.ids import EntryId
from hardwon.models.reports import Progress
from hardwon.owner.environment import data_directory
from hardwon.validation import as_id, check_text
from orchestrator.cli.files.capture_files import run_in_daemon_thread
from orchestrator.cli.reports.memory_report import CaptureReport, LeftOut
from orchestrator.cli.reports.session_report import print_lessons
from orchestrator.cli.support.session import connect
from orchestrator.cli.support.terminal import stages
from orchestrator.importers.sessions.formats import (
    Found,
    Transcript,
    default_places,
    find_transcripts,
    read_sessions,
)
from orchestrator.importers.sessions.lessons.entries import LessonEntry, identity_of, make_entry, project_of
from orchestrator.importers.sessions.lessons.read_marks import KnownLesson, ReadMarks, open_marks
from orchestrator.importers.sessions.pairing import LessonKind, pair

_NOTHING = "no run of a coding agent has a check that failed, or a refusal, that was not learned before"
_ECHO = "solutions that repeat what hardwon handed out"
_UNCHANGED = "sessions that were read before"
_KEPT = "lessons that no longer hold and that this key may not delete"
_CONTEXTS = 1000
"""Latest contexts of a project among which those of a session are looked for; ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSession:
    """The lessons of one session."""

    session_id: str
    tool: str
    lessons: tuple[LessonEntry, ...]
    dropped: tuple[str, ...] = ()
    """Identities of failures that teach nothing by now."""


@dataclass(slots=True, kw_only=True)
class SessionReader:
    """Reads transcripts, a session at a time. `named`: beginnings of commands that a setting makes checks."""

    project: str | None
    named: Sequence[str]
    with_prompts: bool
    left_out: Counter[str]
    unread: list[str]

    def read(self, transcripts: Sequence[Transcript]) -> list[LearnedSession]:
        """Return what the sessions in some transcripts teach."""
        learned = []
        for session in read_sessions(transcripts, self.unread):
            pairing = pair(session, named=self.named)
            self.left_out += pairing.left_out
            self.left_out.update({f"lines: {reason}": count for reason, count in session.passed_over.items()})
            project = project_of(session, self.project)
            lessons = (
                make_entry(each, session, project=project, with_prompts=self.with_prompts) for each in pairing.lessons
            )
            learned.append(
                LearnedSession(
                    session_id=session.session_id,
                    tool=session.tool,
                    lessons=tuple(lessons),
                    dropped=tuple(identity_of(step, session) for step in pairing.dropped),
                )
            )
        return learned


async def learn_sessions(
    paths: Sequence[Path],
    *,
    since: datetime | None,
    project: str | None,
    named: Sequence[str],
    with_prompts: bool,
    dry_run: bool,
    workspace: str,
    as_json: bool,
) -> None:
    """Read the runs of coding agents and capture what they teach; print the counts, or with `dry_run` the lessons."""
    if project is not None:
        check_text("project", project)
    found = await run_in_daemon_thread(lambda: _find(paths, since))
    reader = SessionReader(
        project=project, named=named, with_prompts=with_prompts, left_out=found.left_out, unread=found.unread
    )
    with open_marks(data_directory(os.environ), workspace, for_writing=not dry_run) as marks:
        groups = _select_changed(found, marks)
        left_out = LeftOut(counts=reader.left_out, unread=reader.unread)
        with stages(quiet=as_json) as progress:
            told = progress.stage("Reading")
            if dry_run:
                lessons = [each async for each in _read_all(reader, groups, told)]
                print_lessons([lesson for each in lessons for lesson in each.lessons], left_out, as_json=as_json)
                return
        with CaptureReport(place="lesson", as_json=as_json, nothing=_NOTHING, left_out=left_out) as report:
            if groups:
                async with connect(workspace=workspace) as knowledge:
                    with stages(quiet=as_json) as progress:
                        capture = _SessionCapture(knowledge=knowledge, marks=marks, report=report, reader=reader)
                        await capture.capture_all(groups, progress.stage("Learning"))
            report.print()


def _find(paths: Sequence[Path], since: datetime | None) -> Found:
    missing = next((path for path in paths if not os.path.lexists(path)), None)
    if missing is not None:
        raise InvalidInput("path", f"{missing} does not exist")
    return find_transcripts(paths or default_places(os.environ, Path.home()), since=since)


def _select_changed(found: Found, marks: ReadMarks) -> list[list[Transcript]]:
    """Return the files of each session of which one is new, or has changed since it was read."""
    changed = []
    for _, members in groupby(found.transcripts, key=lambda each: each.group):
        files = list(members)
        if all(map(marks.is_read, files)):
            found.left_out[_UNCHANGED] += 1
        else:
            changed.append(files)
    return changed


async def _read_all(
    reader: SessionReader, groups: Sequence[list[Transcript]], progress: Progress | None
) -> AsyncIterator[LearnedSession]:
    for number, files in enumerate(groups, 1):
        for each in await run_in_daemon_thread(partial(reader.read, files)):
            yield each
        if progress:
            progress(number, len(groups))


@dataclass(kw_only=True)
class _SessionCapture:
    """Captures the lessons of sessions in one workspace."""

    knowledge: KnowledgeClient
    marks: ReadMarks
    report: CaptureReport
    reader: SessionReader
    _number: int = 0
    _contexts: dict[tuple[str, str], tuple[str, str] | None] = field(default_factory=dict)

    async def capture_all(self, groups: Sequence[list[Transcript]], progress: Progress | None) -> None:
        """Read and capture each session; its files are marked as read when its lessons are stored."""
        for number, files in enumerate(groups, 1):
            for session in await run_in_daemon_thread(partial(self.reader.read, files)):
                await self._capture(session)
            self._mark_read(files)
            if progress:
                progress(number, len(groups))

    def _mark_read(self, files: Sequence[Transcript]) -> None:
        unread = tuple(line.partition(": ")[0] for line in self.reader.unread)
        for file in files:
            if str(file.path) not in unread:
                try:
                    self.marks.mark_read([file])
                except OSError as error:
                    self.reader.unread.append(f"{file.path}: {error.strerror}")

    async def _capture(self, session: LearnedSession) -> None:
        await self._withdraw(session)
        new: dict[str, list[LessonEntry]] = defaultdict(list)
        for lesson in session.lessons:
            known = self.marks.find(lesson.identity)
            if known is not None:
                await self._settle(lesson, known, session)
            elif not lesson.is_echo:
                new[lesson.reporter].append(lesson)
            elif (context := await self._find_context(lesson, session)) is not None:
                task_id, run_id = context
                echo = replace(lesson.entry, task_id=task_id, run_id=run_id, idempotency_key=None)
                new[lesson.reporter].append(replace(lesson, entry=echo))
            else:
                self.reader.left_out[_ECHO] += 1
        for reporter, lessons in new.items():
            capture = self.knowledge.report_as(reporter).capture
            answers = await capture.capture_all([each.entry for each in lessons])
            for lesson, answer in zip(lessons, answers, strict=True):
                await self._add(lesson, answer, session)

    async def _add(self, lesson: LessonEntry, answer: CaptureResult, session: LearnedSession) -> None:
        """Report an answer, and remember the entry; one that was captured open by a run without marks is resolved."""
        if answer.entry_id is not None and answer.field == "idempotency_key":
            known = KnownLesson(identity=lesson.identity, entry_id=str(answer.entry_id), kind=LessonKind.OPEN)
            await self._settle(lesson, known, session)
            return
        self._tell(answer)
        if answer.entry_id is not None:
            self._save(lesson, answer.entry_id, session)

    async def _settle(self, lesson: LessonEntry, known: KnownLesson, session: LearnedSession) -> None:
        """Resolve the open entry of a failure that was mended since; another lesson is known already."""
        entry_id = EntryId(as_id("entry_id", known.entry_id))
        kind, entry = lesson.lesson.kind, lesson.entry
        capture = self.knowledge.report_as(lesson.reporter).capture
        try:
            if kind is LessonKind.FIX and known.kind == LessonKind.OPEN and entry.solution_steps:
                await capture.resolve_failure(
                    entry_id, solution_steps=entry.solution_steps, verified_by=entry.verified_by or "the same check"
                )
            elif kind is LessonKind.REJECTION and known.kind != _kind_of(lesson) and entry.revision_approach:
                await capture.resolve_gate_rejection(entry_id, revision_approach=entry.revision_approach)
            else:
                self._tell(CaptureResult(outcome=CaptureOutcome.DUPLICATE, entry_id=entry_id))
                return
        except (Conflict, InvalidInput, NotFound) as error:
            self._tell(CaptureResult(outcome=CaptureOutcome.REFUSED, entry_id=entry_id, error=str(error)))
            return
        self._tell(CaptureResult(outcome=CaptureOutcome.ACCEPTED, entry_id=entry_id, status=EntryStatus.STAGED))
        self._save(lesson, entry_id, session)

    async def _withdraw(self, session: LearnedSession) -> None:
        """Delete the entries of failures that teach nothing by now, such as of a fix that fails again later."""
        for identity in session.dropped:
            known = self.marks.find(identity)
            if known is None:
                continue
            try:
                await self.knowledge.capture.delete(EntryId(as_id("entry_id", known.entry_id)))
            except AccessDenied:
                self.reader.left_out[_KEPT] += 1
                continue
            except NotFound:
                pass
            self.marks.forget(identity)

    async def _find_context(self, lesson: LessonEntry, session: LearnedSession) -> tuple[str, str] | None:
        """Return the task and run of the latest context with patterns that the session was handed; None if unknown."""
        key = (lesson.entry.project_id, session.session_id)
        if key not in self._contexts:
            try:
                contexts = await self.knowledge.contexts.list(project_id=key[0], limit=_CONTEXTS)
            except (AccessDenied, NotFound):
                contexts = []
            ids = ((each.task_id, each.run_id) for each in contexts if each.run_id == session.session_id and each.shown)
            self._contexts[key] = next(((task, run) for task, run in ids if task and run), None)
        return self._contexts[key]

    def _save(self, lesson: LessonEntry, entry_id: EntryId, session: LearnedSession) -> None:
        known = KnownLesson(identity=lesson.identity, entry_id=str(entry_id), kind=_kind_of(lesson))
        self.marks.save(known, session.session_id)

    def _tell(self, answer: CaptureResult) -> None:
        self._number += 1
        self.report.add(self._number, answer)


def _kind_of(lesson: LessonEntry) -> str:
    """Return the kind of a lesson as it is remembered; a rejection with its revision is another one than without."""
    if lesson.lesson.kind is LessonKind.REJECTION and lesson.entry.revision_approach:
        return f"{LessonKind.REJECTION} with its revision"
    return lesson.lesson.kind
