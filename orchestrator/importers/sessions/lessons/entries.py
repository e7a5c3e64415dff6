"""Entries of lessons: texts without folders, names of users and our own words, and the project that they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath

from hardwon.context.context_blocks import remove_blocks
from hardwon.errors import InvalidInput
from hardwon.models.ids import CONTEXT_CLOSING, CONTEXT_OPENING
from hardwon.text.truncation import escape_unstorable, truncate_middle
from knowledge.memory.capture.outcomes import repeats
from knowledge.memory.rules.validation import MAX_DEAD_END_BYTES, MAX_DEAD_ENDS
from knowledge.models import EntryType, NewEntry
from knowledge.text.error_summary import error_lines
from knowledge.text.fitting import fit_ends
from knowledge.text.redaction import redact
from orchestrator.importers.fields import key, main_technology
from orchestrator.importers.repository import open_repository
from orchestrator.importers.sessions.checks import ANSI
from orchestrator.importers.sessions.lessons.failing_tests import describe_tests, failing_tests, is_of_frame
from orchestrator.importers.sessions.pairing import Lesson, LessonKind
from orchestrator.importers.sessions.steps import Session, Step

SESSIONS = "sessions"
"""First part of the names of the runs that are learned from."""
OUTSIDE = ".outside"
"""Behind the tool's name where text from outside of the machine was read before."""
_WORDLESS = "refused by a person without a word"
_SHOWN_CHARS = 500
_REASON_LINES = 2
_READ_BYTES = 3 * 1024
"""Bytes of an output among which the lines that say what went wrong are looked for; ours."""
_MAX_VERIFIED_BY = 500
_MAX_REPORTER_ID = 40
_AGENT_TYPE = "developer"
_TECHNOLOGIES = {
    "python": "pytest unittest nose2 tox nox mypy ruff flake8 pylint pyright manage.py alembic python black build",
    "javascript": "jest vitest mocha npm pnpm yarn node eslint vite next webpack rollup prettier playwright",
    "typescript": "tsc vue-tsc",
    "rust": "cargo rustc",
    "go": "go golangci-lint staticcheck",
    "java": "mvn gradle ant javac",
    "c#": "dotnet msbuild",
    "ruby": "rspec rake rails rubocop",
    "php": "phpunit pest phpstan artisan composer",
    "c": "gcc cc",
    "c++": "g++ clang++ ctest",
    "elixir": "mix",
    "swift": "swift xcodebuild",
    "shell": "bats shellcheck",
    "terraform": "terraform tofu",
    "docker": "docker",
}
_BY_PROGRAM = {program: name for name, programs in _TECHNOLOGIES.items() for program in programs.split()}
_HOME = re.compile(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\][^/\\\s\"':]+|/root(?=[/\s\"':]|$)")
_TOLD_SOLUTION = re.compile(r"^- Solution: (.*?)(?=^- When to try: |^Pattern \d+ \(|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonEntry:
    """A lesson with its entry. `identity`: of the step that it rests on, the same in copies of the transcript.

    `reporter`: the run that tells it; of low trust. `is_echo`: its solution repeats what hardwon handed out
    in this session.
    """

    lesson: Lesson
    entry: NewEntry
    identity: str
    reporter: str
    is_echo: bool


def project_of(session: Session, given: str | None, *, opens_folder: bool = True) -> str:
    """Return the project of a session: the one given, else the one it names, else that of its folder.

    `opens_folder`: the folder is one of this machine, whose repository names the project; otherwise its own name does.
    """
    if given is not None or session.project is not None:
        return given or key(session.project or "") or "unknown"
    if not session.folder:
        return "unknown"
    folder = session.folder[-_MAX_FOLDER_CHARS:]
    return _project_of_folder(folder) if opens_folder else name_of_folder(folder)


_MAX_FOLDER_CHARS = 4096
"""Longest path of Linux; a caller may tell one of 2 MiB, and as many of them as the cache has room for."""


@lru_cache(maxsize=1024)
def _project_of_folder(folder: str) -> str:
    try:
        return open_repository(Path(folder)).project_id
    except (InvalidInput, OSError, ValueError):  # it is gone, or of another machine
        return name_of_folder(folder)


def name_of_folder(folder: str) -> str:
    """Return the project that the name of a folder stands for; nothing is looked for on this machine."""
    return key(PurePosixPath(folder.replace("\\", "/")).name) or "unknown"


def make_entry(lesson: Lesson, session: Session, *, project: str, with_prompts: bool = False) -> LessonEntry:
    """Return a lesson with its entry; the user's prompt is in it only if asked for."""
    task = session.prompts.get(lesson.step.task or "") if with_prompts else None
    make = _rejection if lesson.kind is LessonKind.REJECTION else _failure
    return LessonEntry(
        lesson=lesson,
        entry=make(lesson, session, project, tidy(task, session.folder) if task else None),
        identity=identity_of(lesson.step, session),
        reporter=_reporter(session, is_outside=lesson.is_outside),
        is_echo=bool(lesson.solution) and _is_echo(lesson, session),
    )


def identity_of(step: Step, session: Session) -> str:
    """Return the identity of a step: its id and time, which a copy of it in a resumed session has too."""
    return f"{session.tool} {step.id} {step.at.isoformat() if step.at else session.session_id}"


def _reporter(session: Session, *, is_outside: bool) -> str:
    """Return who reports the lessons of a session: each run by itself, since independent runs agree with each other."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", session.session_id)
    if len(name) > _MAX_REPORTER_ID:
        name = sha256(session.session_id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{SESSIONS}.{session.tool}{OUTSIDE if is_outside else ''}.{name}"


def _failure(lesson: Lesson, session: Session, project: str, task: str | None) -> NewEntry:
    check = lesson.check
    command = tidy(check.shown, session.folder) if check else ""
    output = tidy(lesson.step.text, session.folder)
    names = failing_tests(output)
    proof = tidy(lesson.proof_check.shown, session.folder) if lesson.proof_check else None
    is_fix = lesson.kind is LessonKind.FIX
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=key(project),
        agent_type=_AGENT_TYPE,
        task_type="bugfix",
        technology=_technology(lesson),
        task_description=task or describe_tests(names),
        failure_description=_describe(command, names, output),
        error_message=fit_ends(output, "cut: the output has more here") or None,
        solution_steps=tidy(lesson.solution, session.folder) or None,
        success_verified=is_fix,
        verified_by=proof[:_MAX_VERIFIED_BY] if is_fix and proof else None,
        dead_ends=_dead_ends(lesson, session),
        outside_text=lesson.is_outside,
        task_id=task_id_of(check.key if check else lesson.step.id, session.folder),
        run_id=key(f"{session.session_id}/{lesson.step.id}"),
        idempotency_key=key(f"{lesson.step.id}@{session.session_id}"),
    )


def _dead_ends(lesson: Lesson, session: Session) -> tuple[str, ...]:
    """Return what was tried and did not help, each once, the last ones where they are many."""
    texts = dict.fromkeys(tidy(text, session.folder) for text in lesson.dead_ends)
    return tuple(truncate_middle(text, MAX_DEAD_END_BYTES, "\n[...]\n") for text in texts if text)[-MAX_DEAD_ENDS:]


def _describe(command: str, names: Sequence[str], output: str) -> str:
    """Return what failed: the tests and what they say, else the command; then the first lines that say why."""
    lines = error_lines(truncate_middle(output, _READ_BYTES, "\n"), _SHOWN_CHARS, len)
    reasons = [re.sub(r"^E\s+", "", line) for line in lines if not is_of_frame(line)][:_REASON_LINES]
    if names:
        verb = "fails" if len(names) == 1 else "fail"
        told = ": ".join(filter(None, (f"{', '.join(names)} {verb}", describe_tests(names))))
        return "\n".join([told, *reasons])
    return "\n".join([f"`{command}` fails", *(reasons or lines[:_REASON_LINES])])


def _rejection(lesson: Lesson, session: Session, project: str, task: str | None) -> NewEntry:
    step = lesson.step
    words = "\n".join(filter(None, (step.command, step.proposal)))
    proposal = tidy(words or "\n".join(each.diff for each in step.edits), session.folder)
    return NewEntry(
        entry_type=EntryType.GATE_REJECTION,
        project_id=key(project),
        agent_type=_AGENT_TYPE,
        gate_type="permission",
        task_description=task,
        proposal=fit_ends(f"{step.tool}: {proposal}".strip(), "cut: it goes on here"),
        human_feedback=fit_ends(tidy(step.reason, session.folder), "cut: it goes on here") or _WORDLESS,
        revision_approach=tidy(lesson.solution, session.folder) or None,
        outside_text=lesson.is_outside,
        task_id=task_id_of(f"{step.tool}: {proposal}", session.folder),
        run_id=key(f"{session.session_id}/{step.id}"),
        idempotency_key=key(f"{step.id}@{session.session_id}"),
    )


def task_id_of(text: str, folder: str | None) -> str:
    """Return the id of a task, which is a check: without secrets, as in variables, since ids are not redacted."""
    return key(redact(tidy(text, folder)).text)


def _technology(lesson: Lesson) -> str | None:
    programs = lesson.check.programs if lesson.check else ()
    known = next((_BY_PROGRAM[program] for program in programs if program in _BY_PROGRAM), None)
    return known or main_technology((file, 1) for file in lesson.files)


def tidy(text: str, folder: str | None) -> str:
    """Return a text as it is stored: paths relative to the session's folder, no colours, homes or contexts of ours."""
    text = escape_unstorable(ANSI.sub("", remove_blocks(text)))
    if folder and len(folder.rstrip("/")) > 1:
        root = re.escape(folder.rstrip("/"))
        text = re.sub(rf"(?<![\w/.-]){root}/", "", text)
        text = re.sub(rf"(?<![\w/.-]){root}(?![\w.-])", ".", text)
    return _HOME.sub("~", text).strip()


def _is_echo(lesson: Lesson, session: Session) -> bool:
    """Return whether a solution repeats one that hardwon handed out in the session."""
    solution = tidy(lesson.solution, session.folder)
    return any(repeats(solution, told) for text in session.handed_out for told in told_solutions(text))


def told_solutions(text: str) -> Iterator[str]:
    """Yield the solutions of the patterns in the contexts that a text holds."""
    for block in text.split(CONTEXT_OPENING)[1:]:
        for match in _TOLD_SOLUTION.finditer(block.partition(CONTEXT_CLOSING)[0]):
            yield re.sub(r"^ {1,2}", "", match[1], flags=re.MULTILINE).strip()
