"""Results of measurements: the demo's story and figures, and what `hardwon evaluate` measured."""

from __future__ import annotations

import sys
import textwrap
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


def print_demo(report: DemoReport, *, as_json: bool) -> None:
    """Print the figures of the demo, beside keywords, and where to see what was learned in the story."""
    if as_json:
        print_json(report)
        return
    without = sum(step.without for step in report.story)
    with_memory = sum(step.with_memory for step in report.story)
    print_text(
        f"Together: {without} tries without memory, {with_memory} with it. The agent is scripted: this shows how\n"
        "memory works, not how much a model saves. hardwon stats measures that on your own tasks.\n\n"
        f"Beyond the story, on input that nobody wrote for it: {report.violations:,} real violations of lint rules\n"
        "in installed packages, the rule's name removed. Which of"
        f" {count_of(report.patterns, 'pattern')} (rules{' and fix commits' if report.commits else ''}) fits?\n"
        f"  right one first       hardwon {report.hit_at_1:6.1%}   keywords (BM25) {report.keyword_hit_at_1:6.1%}\n"
        f"  among the first three hardwon {report.hit_at_3:6.1%}   keywords (BM25) {report.keyword_hit_at_3:6.1%}\n"
        f"  told to an agent: {report.hints} of {report.contexts}, {report.right_hints} of them right; while no outcome"
        f" is known it speaks\n  only where it is sure. Answered in {report.query_p50_ms:.0f} ms (p50)\n\n"
        "See it all, with the evidence of each pattern:"
    )
    shown = next((step.pattern_id for step in report.story if step.pattern_id), None)
    print_text(f"  {_program_name()} serve, then http://127.0.0.1:8420/w/{report.workspace}/patterns/{shown or ''}")


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
