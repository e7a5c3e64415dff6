"""The commands that learn from git history, reports and reviews, and the capture of the entries they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardwon.errors import InvalidInput
from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.run import Json, Workspace, run

if TYPE_CHECKING:
    from hardwon.models.entries import NewEntry
    from orchestrator.cli.reports.memory_report import LeftOut

learn = typer.Typer(help="Learn from git, reports, reviews and the runs of agents.", no_args_is_help=True)


def capture_and_report(
    rows: Iterator[tuple[int, NewEntry | InvalidInput]],
    workspace: str,
    *,
    as_json: bool,
    place: str,
    nothing: str,
    all_of_it: bool = False,
    left_out: LeftOut | None = None,
) -> None:
    """Capture the entries of a reader and print the result of each, or `nothing` where there are none.

    `all_of_it`: a refused entry is an error, exit code 1, since the user wrote each of them. `left_out`: items of the
    source that the reader did not turn into entries, by reason.
    """
    from orchestrator.cli.files.capture_files import capture_batches, read_batch
    from orchestrator.cli.reports.memory_report import CaptureReport
    from orchestrator.cli.support.session import connect
    from orchestrator.cli.support.terminal import stages

    async def work() -> None:
        with CaptureReport(place=place, as_json=as_json, nothing=nothing, each=all_of_it, left_out=left_out) as report:
            first = await read_batch(rows)  # an unreadable file is reported before any store is opened
            async with connect(workspace=workspace) as knowledge:
                with stages(quiet=as_json) as progress:
                    await capture_batches(knowledge.capture, first, rows, report, progress.stage("Capturing"))
            report.print()
            if all_of_it and report.refusal_count:
                raise typer.Exit(1)

    run(work)


@learn.command("git")
def learn_git(
    path: Annotated[Path, typer.Argument(help="A git repository.")],
    since: Annotated[str | None, typer.Option(help="Commits after this revision or date.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many fixes, the latest.")] = None,
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Learn the fix commits of a repository. The message is the failure, the diff the solution."""
    from orchestrator.cli.reports.memory_report import LeftOut
    from orchestrator.importers.git import read_fixes

    passed_over: Counter[str] = Counter()
    capture_and_report(
        enumerate(read_fixes(path, since=since, limit=limit, passed_over=passed_over), 1),
        workspace,
        as_json=as_json,
        place="commit",
        nothing="no commit says that it fixes something (fix, bug, hotfix, regression, closes #1, in many languages)"
        ", and none changes a test beside the code",
        left_out=LeftOut(counts=passed_over),
    )


@learn.command("sarif")
def learn_sarif(
    files: Annotated[list[Path], typer.Argument(help="SARIF, Checkstyle or GitLab code quality; also folders, zips.")],
    after: Annotated[list[Path] | None, typer.Option(help="A report of a later run. Repeatable.")] = None,
    project: Annotated[
        str | None, typer.Option(help="The project; else the report's or the file's repository.")
    ] = None,
    solution: Annotated[str | None, typer.Option(help="What mended the findings that are gone.")] = None,
    diff: Annotated[Path | None, typer.Option(help="The change that mended them, as a file.")] = None,
    *,
    same_files: Annotated[bool, typer.Option("--same-files", help="The later run looked at the same files.")] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Learn the findings of reports. Those that a later run shows gone, with a remedy, are verified."""
    from orchestrator.cli.files.finding_capture import learn_findings

    if solution is not None and diff is not None:
        raise typer.BadParameter("give either --solution or --diff")
    if after is None and (solution is not None or diff is not None or same_files):
        raise typer.BadParameter("--solution, --diff and --same-files need --after: it shows which findings are gone")
    run(
        lambda: learn_findings(
            files,
            after or [],
            project=project,
            solution=solution,
            diff=diff,
            same_files=same_files,
            workspace=workspace,
            as_json=as_json,
        )
    )


@learn.command("junit")
def learn_junit(
    before: Annotated[Path | None, typer.Argument(help="The JUnit XML reports of the run that failed.")] = None,
    after: Annotated[Path | None, typer.Argument(help="The JUnit XML reports of a later run.")] = None,
    more_before: Annotated[
        list[Path] | None,
        typer.Option("--before", help="A report, folder, archive or quoted glob of the run that failed; repeatable."),
    ] = None,
    more_after: Annotated[
        list[Path] | None,
        typer.Option("--after", help="A report, folder, archive or quoted glob of the later run; repeatable."),
    ] = None,
    solution: Annotated[str | None, typer.Option(help="What made the tests pass.")] = None,
    diff: Annotated[Path | None, typer.Option(help="The change that made them pass, as a file.")] = None,
    project: Annotated[str | None, typer.Option(help="The project; else the name of this directory.")] = None,
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Learn the tests that failed and pass again. Without a solution they stay open."""
    from orchestrator.cli.reports.memory_report import LeftOut
    from orchestrator.importers.ci_reports.proof import REASON_WORDS
    from orchestrator.importers.junit import read_repaired_tests

    if solution is not None and diff is not None:
        raise typer.BadParameter("give either --solution or --diff")
    if before is not None and (more_before or more_after):
        raise typer.BadParameter("give either BEFORE AFTER or --before and --after, and quote globs")
    first = [before] if before is not None else more_before
    later = [after] if after is not None else more_after
    if not first or not later:
        raise typer.BadParameter("give the reports of both runs: BEFORE AFTER, or --before and --after")
    tests = read_repaired_tests(
        first, later, project=Path.cwd().name if project is None else project, solution=solution, diff=diff
    )
    capture_and_report(
        enumerate(tests.entries, 1),
        workspace,
        as_json=as_json,
        place="test",
        nothing="no test failed first and passed later",
        left_out=LeftOut(counts=tests.left_out, words=REASON_WORDS, unread=tests.unread),
    )


@learn.command("job")
def learn_job(
    before: Annotated[Path, typer.Argument(help="The log of a job of GitHub Actions or GitLab CI that failed.")],
    after: Annotated[Path, typer.Argument(help="The log of a later run of the job.")],
    repository: Annotated[
        Path | None, typer.Option("--repo", help="Take the commits between the two runs as the solution.")
    ] = None,
    solution: Annotated[str | None, typer.Option(help="What made the command end well.")] = None,
    diff: Annotated[Path | None, typer.Option(help="The change that did, as a file.")] = None,
    project: Annotated[str | None, typer.Option(help="The project; else the name of this directory.")] = None,
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Learn the commands of a CI job that failed and end well later. Without a solution they stay open."""
    from orchestrator.cli.reports.memory_report import LeftOut
    from orchestrator.importers.jobs import read_mended_commands

    if sum(each is not None for each in (solution, diff, repository)) > 1:
        raise typer.BadParameter("give one of --solution, --diff and --repo")
    commands = read_mended_commands(
        before,
        after,
        project=Path.cwd().name if project is None else project,
        solution=solution,
        diff=diff,
        repository=repository,
    )
    capture_and_report(
        enumerate(commands.entries, 1),
        workspace,
        as_json=as_json,
        place="command",
        nothing="no command failed first and ended well later, on another commit",
        left_out=LeftOut(counts=commands.left_out),
    )


@learn.command("sessions")
def learn_sessions(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Transcripts, or folders of them; else where the agents' tools keep them."),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Those written since then: 7d, 12h, 2w or a date.")] = None,
    project: Annotated[str | None, typer.Option(help="The project; else the repository of a run's folder.")] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be learned, and why.")] = False,
    with_prompts: Annotated[
        bool, typer.Option("--with-prompts", help="Keep the user's prompt as the task's description.")
    ] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Learn what the runs of coding agents mended, and how."""
    from datetime import UTC, datetime

    from knowledge.settings import KnowledgeSettings
    from orchestrator.cli.files.session_capture import learn_sessions as learn_from
    from orchestrator.importers.sessions.checks import split_named
    from orchestrator.importers.sessions.formats import parse_since

    named = split_named(KnowledgeSettings().check_commands)
    begin = None if since is None else parse_since(since, datetime.now(UTC))
    run(
        lambda: learn_from(
            paths or [],
            since=begin,
            project=project,
            named=named,
            with_prompts=with_prompts,
            dry_run=dry_run,
            workspace=workspace,
            as_json=as_json,
        )
    )


@learn.command("reviews")
def learn_reviews(
    file: Annotated[Path, typer.Argument(help="Pull requests, reviews and review comments, as `gh api` prints them.")],
    *,
    workspace: Workspace = DEFAULT_WORKSPACE,
    as_json: Json = False,
) -> None:
    """Learn what reviewers on GitHub asked for and then accepted. Also what they approved at once."""
    from orchestrator.importers.reviews import read_reviews

    capture_and_report(
        enumerate(read_reviews(file), 1),
        workspace,
        as_json=as_json,
        place="decision",
        nothing="no pull request was approved, or changed and then approved",
    )
