"""Results of measurements: the demo's story and figures, and what `hardwon evaluate` measured."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hardwon.text.pluralize import count_of
from orchestrator.cli.support.terminal import print_json, print_pairs, print_text

if TYPE_CHECKING:
    from orchestrator.evaluation.demo import DemoReport
    from orchestrator.evaluation.learning import Interval, LearningReport
    from orchestrator.evaluation.merging import MergingReport
    from orchestrator.evaluation.retrieval import AbstentionReport, RetrievalReport
    from orchestrator.evaluation.story import StoryStep

_STORY_COLUMNS = 100


def print_evaluation(report: RetrievalReport | MergingReport | AbstentionReport, *, as_json: bool) -> None:
    """Print an evaluation, under the name of its kind."""
    if as_json:
        print_json(report)
        return
    title = type(report).__name__.removesuffix("Report").lower()
    print_pairs(title, {name.replace("_", " "): value for name, value in asdict(report).items()})


def print_story_begin() -> None:
    """Print what the story is about, and who plays in it."""
    print_text(
        "hardwon is the memory of an orchestrator of coding agents. It keeps how failures were mended and why\n"
        "reviewers turned work down, and tells the next agent before it begins. Here a scripted agent mends\n"
        "small programs whose tests really run, each once without memory and once with it.\n\n"
    )


def print_story_step(number: int, step: StoryStep) -> None:
    """Print a step of the demo's story, and its result without memory beside that with it."""
    print_text(f"{number}. {step.title}")
    for line in step.lines:
        indent = " " * (3 + len(line) - len(line.lstrip()))
        print_text(textwrap.fill(line.strip(), _STORY_COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}  "))
    without, with_memory = count_of(step.without, step.unit), count_of(step.with_memory, step.unit)
    print_text(f"   => without memory {without}, with memory {with_memory}\n\n")


def print_story_total(steps: Sequence[StoryStep]) -> None:
    """Print what memory saved in all steps of the story, and what that shows."""
    without, with_memory = sum(step.without for step in steps), sum(step.with_memory for step in steps)
    print_text(
        f"Together: {without} attempts and proposals without memory, {with_memory} with it. The agent is scripted:\n"
        "this shows how memory works, not how much a model saves; hardwon stats measures that on your tasks.\n\n"
    )


def print_demo(report: DemoReport, *, as_json: bool) -> None:
    """Print the figures of the demo, beside keywords, and where to see what was learned in the story."""
    if as_json:
        print_json(report)
        return
    kinds = f"rules{' and fix commits' if report.commits else ''}"
    patterns = count_of(report.patterns, "pattern")
    print_text(
        f"Beyond the story, on input that nobody wrote for it: {report.violations:,} real violations of lint rules\n"
        f"in installed packages, the rule's name removed. Which of {patterns} ({kinds}) fits?\n"
        f"  right one first       {_beside_keywords(report.hit_at_1, report.keyword_hit_at_1)}\n"
        f"  among the first three {_beside_keywords(report.hit_at_3, report.keyword_hit_at_3)}\n"
        f"  an answer takes {report.query_p50_ms:.0f} ms. Of the first {report.contexts}, an agent would be told"
        f" {report.hints}, {report.right_hints} of them right:\n"
        "  what no task has tried yet is told only where it is near beyond doubt\n\n"
        "See what the second step was told, with its evidence, and all the rest from there:"
    )
    shown = next((step.pattern_id for step in report.story if step.pattern_id), None)
    print_text(f"  {_program_name()} serve, then http://127.0.0.1:8420/w/{report.workspace}/patterns/{shown or ''}")


def _beside_keywords(share: float, keywords: float) -> str:
    return f"hardwon {share:6.1%}   keyword search (BM25) {keywords:6.1%}"


def _program_name() -> str:
    """Return the command to type for this program: `make demo` runs it from an environment that is not on the PATH."""
    program = Path(sys.argv[0]).absolute()
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else "hardwon"


def print_learning(report: LearningReport, *, as_json: bool) -> None:
    """Print how many tasks were solved with each memory, a line each."""
    if as_json:
        print_json(report)
        return
    print_text(f"{report.tasks:,} tasks, seeds {', '.join(map(str, report.seeds))}; 95 % intervals over tasks")
    for row in report.rows:
        over = "" if row.over_bm25 is None else f"; over BM25 {_describe_interval(row.over_bm25)}"
        print_text(
            f"{row.agent} agent, {row.memory}: solved {row.solved:.3f}, lift {_describe_interval(row.lift)}, harm"
            f" {row.harm:.3f}, advised {row.used:.0%}{over}; by quarter"
            f" {' '.join(f'{quarter:.3f}' for quarter in row.quarters)}"
        )
    for agent, helped in report.outcomes_help.items():
        print_text(f"{agent} agent: reported outcomes add {_describe_interval(helped)}")


def _describe_interval(interval: Interval) -> str:
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
