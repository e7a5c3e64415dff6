"""The demonstration `hardwon demo`: a story, then learning and querying on real input that was not written for it.

The story is that of `orchestrator.evaluation.story`. For the figures, one project learns a linter's rule catalogue
(each rule's documented problem and remedy), another the fix commits of the git repository around it. Then real
violations in installed Python sources are queried, each without the code and name of its rule.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import re
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import quantiles

from hardwon.errors import HardwonError, InvalidInput
from hardwon.installation import install_command
from knowledge.models import CaptureOutcome, CaptureResult, Context, EntryId, EntryType, NewEntry, Task
from knowledge.ports import Progress
from knowledge.settings import KnowledgeSettings
from orchestrator.connection import AnyKnowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from orchestrator.evaluation.bm25_memory import Bm25Memory
from orchestrator.evaluation.story import StoryStep, tell_story
from orchestrator.importers.git import read_fixes
from orchestrator.observability.progress import Stages

WORKSPACE = "demo"
"""Of the story; `demo-2` and so on for the next times, as a story needs a memory that is empty yet."""
RULES_WORKSPACE = "demo-rules"
LINT_PROJECT = "lint-rules"
MAX_PER_RULE = 2
MAX_VIOLATIONS = 330
"""Violations queried, one of each rule before a second of any; more take longer and show nothing new."""
_GIT_FIXES = 200
_MAX_LINE_CHARS = 1000
_MAX_CONTEXTS = 100
"""Violations of which contexts are built as well; more take longer and show nothing new."""

_PACKAGES = (
    "alembic", "asyncpg", "distlib", "fsspec", "google", "mako", "psutil", "rich", "starlette", "tqdm", "urllib3",
    "yaml",
)  # fmt: skip
"""Packages to lint; those that are not installed are skipped."""

_VIOLATION = re.compile(r"^(?P<path>.+?):(?P<line>\d+):\d+: (?P<name>[\w-]+):? (?:\[\*\] )?(?P<message>.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A documented rule: its code, its name, the problem and the remedy."""

    code: str
    name: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A real violation of a rule: the linter's message and the source line."""

    code: str
    message: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """Results of the demo. `surviving_right_hits`: share of right first hits above the failure threshold.

    `keyword_hit_at_1`, `keyword_hit_at_3`: the same violations asked of BM25 over the same rules. `hints`: of
    `contexts`, those with patterns; `right_hints`: of these, those with the right rule first. `story`: its steps, in
    `workspace`.
    """

    entries: int
    patterns: int
    violations: int
    rules: int
    hit_at_1: float
    hit_at_3: float
    surviving_right_hits: float
    query_p50_ms: float
    query_p95_ms: float
    entries_per_second: float
    stored: int
    already_known: int
    commits: int
    context: str
    contexts: int
    hints: int
    right_hints: int
    keyword_hit_at_1: float
    keyword_hit_at_3: float
    workspace: str = WORKSPACE
    story: tuple[StoryStep, ...] = ()


async def run_demo(
    knowledge: AnyKnowledge,
    *,
    repository: Path,
    progress: Stages,
    show: Callable[[StoryStep], None] = lambda _: None,
    show_total: Callable[[Sequence[StoryStep]], None] = lambda _: None,
) -> DemoReport:
    """Tell the story, step by step to `show`; then learn the catalogue and the commits, and query the violations.

    `show_total` gets the steps as soon as the story ends.

    Stores no rule and no commit twice. Raises InvalidInput if the linter is not installed.
    """
    rules = await asyncio.to_thread(read_rules)
    steps = []
    workspace = await _find_empty_workspace(knowledge)
    async for step in tell_story(knowledge.in_workspace(workspace)):
        show(step)
        steps.append(step)
    show_total(steps)
    report = await _measure(knowledge.in_workspace(RULES_WORKSPACE), rules, repository, progress)
    return replace(report, workspace=workspace, story=tuple(steps))


async def _find_empty_workspace(knowledge: AnyKnowledge) -> str:
    name, number = WORKSPACE, 1
    while (await knowledge.in_workspace(name).stats()).entries:
        number += 1
        name = f"{WORKSPACE}-{number}"
    return name


async def _measure(knowledge: AnyKnowledge, rules: Sequence[Rule], repository: Path, progress: Stages) -> DemoReport:
    progress.stage("Reading the repository's fix commits")
    fixes = await asyncio.to_thread(_read_fixes, repository)
    progress.stage(f"Capturing {len(rules)} rules and {len(fixes)} fix commits")
    entries = [entry_of(rule) for rule in rules] + fixes
    answers = await knowledge.capture.capture_all(entries)
    rate = await _checkpoint(knowledge, entries, progress.stage("Embedding new entries"))
    progress.stage("Looking for violations in installed packages")
    violations = await asyncio.to_thread(find_violations, rules)
    codes = _codes_by_entry(rules, answers)
    results = await _query_violations(knowledge, violations, codes, progress.stage("Querying each violation"))
    hints = await _give_hints(knowledge, violations, codes, progress.stage("Building contexts"))
    keywords = await asyncio.to_thread(_ask_keywords, rules, violations)
    stats = await knowledge.stats()
    outcomes = Counter(answer.outcome for answer in answers)
    return DemoReport(
        entries=sum(stats.entries.values()),
        patterns=stats.patterns,
        violations=len(violations),
        rules=len({violation.code for violation in violations}),
        hit_at_1=results.share(1),
        hit_at_3=results.share(3),
        surviving_right_hits=results.share_above(KnowledgeSettings().failure_relevance),
        query_p50_ms=results.percentile(50),
        query_p95_ms=results.percentile(95),
        entries_per_second=round(rate, 1),
        stored=outcomes[CaptureOutcome.ACCEPTED],
        already_known=outcomes[CaptureOutcome.DUPLICATE],
        commits=len(fixes),
        context=hints.example.text,
        contexts=hints.contexts,
        hints=hints.given,
        right_hints=hints.right,
        keyword_hit_at_1=keywords.share(1),
        keyword_hit_at_3=keywords.share(3),
    )


def read_rules() -> list[Rule]:
    """Return the rules that the installed linter documents with a problem and a remedy."""
    try:
        from ruff import find_ruff_bin  # noqa: PLC0415 - in the extra `demo`
    except ImportError as error:
        raise InvalidInput("demo", f"needs ruff: {install_command('demo')}") from error
    result = subprocess.run(  # noqa: S603 - the program beside this one
        [find_ruff_bin(), "rule", "--all", "--output-format", "json"], capture_output=True, check=True, timeout=60
    )
    rules = (_parse_rule(row) for row in json.loads(result.stdout))
    return [rule for rule in rules if rule is not None]


def _parse_rule(row: Mapping[str, str]) -> Rule | None:
    text = re.sub(r"\n## (?:References|Options)\b.*", "", row["explanation"], flags=re.DOTALL)
    problem, _, instead = text.partition("Use instead:")
    sections = re.split(r"^## ", instead, maxsplit=1, flags=re.MULTILINE)
    remedy = sections[0].strip() or _advice(problem)
    if not problem.strip() or not remedy:
        return None
    name = row["name"]
    code = row["code"] or name  # the newest rules have a name only
    return Rule(
        code=code, name=name, problem=remove_rule_name(problem, code, name), remedy=remove_rule_name(remedy, code, name)
    )


def _advice(problem: str) -> str:
    """Return the explanation of a rule without an example: the nearest it has to a remedy."""
    _, _, why = problem.partition("## Why is this bad?")
    return why.split("\n## ")[0].strip()


def remove_rule_name(text: str, code: str, name: str) -> str:
    """Return a text that says "this rule" for a rule's code and name, which would give the answer away."""
    return re.sub(rf"\b{re.escape(code)}\b|(?<![\w-]){re.escape(name)}(?![\w-])", "this rule", text).strip()


def entry_of(rule: Rule) -> NewEntry:
    """Return the entry of a project that broke the rule and followed its advice."""
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id=LINT_PROJECT,
        agent_type="coder",
        task_type="lint",
        technology="python",
        failure_description=rule.problem,
        solution_steps=rule.remedy,
        success_verified=True,
        verified_by="the rule's documentation",
        task_id=rule.code,
        run_id="rule catalogue",
    )


def _read_fixes(repository: Path) -> list[NewEntry]:
    try:
        return list(itertools.islice(read_fixes(repository, since=None, limit=_GIT_FIXES), _GIT_FIXES))
    except HardwonError:
        return []  # not in a repository: one project less


async def _checkpoint(knowledge: AnyKnowledge, entries: Sequence[NewEntry], progress: Progress | None) -> float:
    """Run a checkpoint for each project; return the number of entries embedded per second."""
    began = time.perf_counter()
    embedded = 0
    for project in dict.fromkeys(entry.project_id for entry in entries):
        report = await knowledge.checkpoints.process_checkpoint(project, "phase_completion", progress=progress)
        embedded += report.embedded
    return embedded / (time.perf_counter() - began)


def _codes_by_entry(rules: Sequence[Rule], answers: Sequence[CaptureResult]) -> dict[EntryId, str]:
    return {
        answer.entry_id: rule.code for rule, answer in zip(rules, answers, strict=False) if answer.entry_id is not None
    }


def find_violations(rules: Sequence[Rule]) -> list[Violation]:
    """Return real violations of the rules in installed sources: at most two of a rule, from different files."""
    by_name = {rule.name: rule for rule in rules} | {rule.code: rule for rule in rules}
    found: dict[str, dict[str, Violation]] = {}
    for line in _lint():
        match = _VIOLATION.match(line)
        rule = by_name.get(match["name"]) if match else None
        if match is None or rule is None:
            continue
        of_rule = found.setdefault(rule.code, {})
        if len(of_rule) >= MAX_PER_RULE or match["path"] in of_rule:
            continue
        source = remove_rule_name(_source_line(Path(match["path"]), int(match["line"])), rule.code, rule.name)
        if source:
            message = remove_rule_name(match["message"], rule.code, rule.name)
            of_rule[match["path"]] = Violation(code=rule.code, message=message, source=source)
    rounds = itertools.zip_longest(*(of_rule.values() for of_rule in found.values()))
    return [violation for each in rounds for violation in each if violation is not None][:MAX_VIOLATIONS]


def _lint() -> Iterator[str]:
    """Yield the linter's findings in the installed packages, one per line."""
    from ruff import find_ruff_bin  # noqa: PLC0415 - in the extra `demo`

    root = Path(sysconfig.get_path("purelib"))
    packages = [str(root / name) for name in _PACKAGES if (root / name).is_dir()]
    command = [find_ruff_bin(), "check", "--isolated", "--no-cache", "--preview", "--select", "ALL", "--quiet"]
    with subprocess.Popen(  # noqa: S603 - the program beside this one
        [*command, "--output-format", "concise", "--target-version", "py311", *packages],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as lint:
        if lint.stdout is not None:
            yield from lint.stdout


@functools.lru_cache(maxsize=64)
def _source_lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _source_line(path: Path, line: int) -> str:
    return "".join(_source_lines(path)[line - 1 : line])[:_MAX_LINE_CHARS].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueryResults:
    """For each violation the rank (1..3) of the right rule, None if it is missing, the best relevance and the time."""

    places: list[int | None]
    relevances: list[float]
    times_ms: list[float]

    def share(self, places: int) -> float:
        return round(sum(p is not None and p <= places for p in self.places) / max(1, len(self.places)), 6)

    def share_above(self, threshold: float) -> float:
        right = [r for p, r in zip(self.places, self.relevances, strict=True) if p == 1]
        return round(sum(r >= threshold for r in right) / max(1, len(right)), 6)

    def percentile(self, percent: int) -> float:
        return round(quantiles(self.times_ms, n=100)[percent - 1], 2) if len(self.times_ms) > 1 else 0.0


async def _query_violations(
    knowledge: AnyKnowledge, violations: Sequence[Violation], codes: Mapping[EntryId, str], progress: Progress | None
) -> _QueryResults:
    results = _QueryResults(places=[], relevances=[], times_ms=[])
    for number, violation in enumerate(violations, 1):
        began = time.perf_counter()
        patterns = await knowledge.queries.query_for_failure(_query_text(violation), max_results=3, min_relevance=0)
        results.times_ms.append((time.perf_counter() - began) * 1000)
        matches = [{codes.get(entry) for entry in pattern.entry_ids} for pattern in patterns]
        results.places.append(next((at for at, rules in enumerate(matches, 1) if violation.code in rules), None))
        results.relevances.append(patterns[0].relevance if patterns else 0.0)
        if progress:
            progress(number, len(violations))
    return results


def _ask_keywords(rules: Sequence[Rule], violations: Sequence[Violation]) -> _QueryResults:
    """Query each violation from BM25 over the rules' problems."""
    memory = Bm25Memory()
    for rule in rules:
        memory.add(rule.problem, rule.code)
    results = _QueryResults(places=[], relevances=[], times_ms=[])
    for violation in violations:
        ranked = memory.rank(_query_text(violation), limit=3)
        results.places.append(next((at for at, code in enumerate(ranked, 1) if code == violation.code), None))
    return results


def _query_text(violation: Violation) -> str:
    return f"{violation.message}\n{violation.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hints:
    """Of contexts: how many had a hint, in how many of them the right rule came first, and one to show."""

    contexts: int
    given: int
    right: int
    example: Context


async def _give_hints(
    knowledge: AnyKnowledge, violations: Sequence[Violation], codes: Mapping[EntryId, str], progress: Progress | None
) -> _Hints:
    """Build the contexts of the first violations, as an orchestrator would have them: silent where memory is unsure."""
    contexts = []
    for number, violation in enumerate(violations[:_MAX_CONTEXTS], 1):
        contexts.append(await _build_context(knowledge, violation))
        if progress:
            progress(number, min(len(violations), _MAX_CONTEXTS))
    given = [(each, context) for each, context in zip(violations, contexts, strict=False) if context.patterns]
    right = [
        context for each, context in given if each.code in {codes.get(entry) for entry in context.patterns[0].entry_ids}
    ]
    example = [*right, *(context for _, context in given), *contexts][0]
    return _Hints(contexts=len(contexts), given=len(given), right=len(right), example=example)


async def _build_context(knowledge: AnyKnowledge, violation: Violation) -> Context:
    task = Task(description=_query_text(violation), type="lint", technology="python")
    return await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "coder")
