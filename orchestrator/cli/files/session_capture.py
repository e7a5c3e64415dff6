"""The command that learns from the runs of coding agents, or shows what it would learn."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from hardwon.errors import InvalidInput
from hardwon.models.entries import CaptureResult
from hardwon.models.reports import Progress
from hardwon.owner.environment import data_directory
from hardwon.validation import check_text
from orchestrator.cli.files.capture_files import run_in_daemon_thread
from orchestrator.cli.reports.memory_report import CaptureReport, LeftOut
from orchestrator.cli.reports.session_report import print_lessons
from orchestrator.cli.support.session import connect
from orchestrator.cli.support.terminal import stages
from orchestrator.importers.sessions.formats import Found, Transcript, default_places, find_transcripts
from orchestrator.importers.sessions.lessons.learner import (
    LearnedSession,
    SessionLearner,
    SessionReader,
    select_changed,
)
from orchestrator.importers.sessions.lessons.read_marks import ReadMarks, open_marks

_NOTHING = "no run of a coding agent has a check that failed, or a refusal, that was not learned before"


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
    left_out = LeftOut(counts=reader.left_out, unread=reader.unread)
    with open_marks(data_directory(os.environ), workspace, for_writing=not dry_run) as marks:
        groups = select_changed(found, marks)
        if dry_run:
            with stages(quiet=as_json) as progress:
                read = [each async for each in _read_all(reader, groups, progress.stage("Reading"))]
            lessons = [lesson for _, sessions in read for each in sessions for lesson in each.lessons]
            print_lessons(lessons, left_out, as_json=as_json)
            return
        with CaptureReport(place="lesson", as_json=as_json, nothing=_NOTHING, left_out=left_out) as report:
            if groups:
                await _learn_all(reader, groups, marks, report, workspace)
            report.print()


async def _learn_all(
    reader: SessionReader, groups: Sequence[list[Transcript]], marks: ReadMarks, report: CaptureReport, workspace: str
) -> None:
    def tell(answer: CaptureResult) -> None:
        report.add(report.read + 1, answer)

    async with connect(workspace=workspace) as knowledge:
        learner = SessionLearner(knowledge=knowledge, marks=marks, tell=tell, left_out=reader.left_out)
        with stages(quiet=report.as_json) as progress:
            async for files, sessions in _read_all(reader, groups, progress.stage("Learning")):
                for session in sessions:
                    await learner.learn(session)
                learner.mark_read(files, reader.unread)


def _find(paths: Sequence[Path], since: datetime | None) -> Found:
    missing = next((path for path in paths if not os.path.lexists(path)), None)
    if missing is not None:
        raise InvalidInput("path", f"{missing} does not exist")
    return find_transcripts(paths or default_places(os.environ, Path.home()), since=since)


async def _read_all(
    reader: SessionReader, groups: Sequence[list[Transcript]], progress: Progress | None
) -> AsyncIterator[tuple[list[Transcript], list[LearnedSession]]]:
    """Yield the files of each session with what they teach, one at a time."""
    for number, files in enumerate(groups, 1):
        yield files, await run_in_daemon_thread(partial(reader.read, files))
        if progress:
            progress(number, len(groups))
