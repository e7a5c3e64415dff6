"""The block of patterns that an agent gets with its task: rendered here, in the design's format, and nowhere else.

What is stored was written by agents and people, so no stored text may look like the block's own lines: continuation
lines are indented and the two markers are broken inside stored text. A structure, not a promise that a model obeys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from knowledge.models import EntryType, Pattern, Task
from knowledge.names import CONTEXT_CLOSING, CONTEXT_OPENING
from orchestrator.budget import INDENT, Keep, shared, tokens
from orchestrator.harmless import harmless

_INTRODUCTION: Final = "Similar situations have been resolved these ways:"
_RECOMMENDATION: Final = "Recommendation: Try patterns in order. Pattern 1 is most likely based on historical data."
CONTEXT_PATTERNS: Final = 3


def label(success_count: int) -> str:
    """Return the design's word for a number of successes."""
    if success_count >= 5:
        return "Most Common"
    return "Moderate" if success_count >= 3 else "Less Common"


def render(patterns: Sequence[Pattern], *, max_tokens: int) -> tuple[str, tuple[Pattern, ...]]:
    """Return the block for up to three patterns, never above `max_tokens`, and the patterns in it.

    Long texts are cut where it shows, problems in their middle, of which the lines stay that say what went wrong.
    Patterns that do not fit even so are left out, the last first; the text is empty if none fits.
    """
    shown = list(patterns[:CONTEXT_PATTERNS])
    while shown:
        texts = [(harmless(text) or "-", keep) for pattern in shown for text, keep in _texts(pattern)]
        frame = tokens(_block(shown, [""] * len(texts)))
        cut = shared(texts, max_tokens - frame)
        if cut is not None:
            return _block(shown, [harmless(text) for text in cut]), tuple(shown)
        shown.pop()
    return "", ()


def _texts(pattern: Pattern) -> tuple[tuple[str, Keep], ...]:
    is_failure = pattern.entry_type is EntryType.FAILURE_SOLUTION
    problem = (pattern.problem, Keep.ERRORS if is_failure else Keep.ENDS)
    return problem, (pattern.solution, Keep.BEGINNING), (pattern.when_to_try, Keep.BEGINNING)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + INDENT)


def _block(patterns: Sequence[Pattern], texts: Sequence[str]) -> str:
    lines = [CONTEXT_OPENING, "", _INTRODUCTION, ""]
    for number, pattern in enumerate(patterns, 1):
        problem, solution, when = (_indented(text) for text in texts[3 * number - 3 : 3 * number])
        successes = "1 success" if pattern.success_count == 1 else f"{pattern.success_count} successes"
        lines += [
            f"Pattern {number} ({label(pattern.success_count)} - {successes}):",
            f"- Problem: {problem}",
            f"- Solution: {solution}",
            f"- When to try: {when}",
        ]
        rival = _rival_of(pattern, patterns)
        if pattern.attempt_count > pattern.success_count or pattern.project_count > 1 or rival:
            projects = "1 project" if pattern.project_count == 1 else f"{pattern.project_count} projects"
            lines.append(f"- Record: {pattern.success_count} of {pattern.attempt_count} attempts, {projects}")
        if rival and rival < number:
            lines.append(f"- Alternative to: Pattern {rival}")
        lines.append("")
    return "\n".join([*lines, _RECOMMENDATION, "", CONTEXT_CLOSING, ""])


def _rival_of(pattern: Pattern, shown: Sequence[Pattern]) -> int | None:
    """Return the number of the first pattern of the block that is another way out of the same situation."""
    numbers = (number for number, other in enumerate(shown, 1) if other.pattern_id in pattern.rivals)
    return next(numbers, None)


def basic_context(task: Task) -> str:
    """Return what an agent is told of its task without any knowledge."""
    lines = [f"Task: {harmless(task.description)}"]
    if task.type:
        lines.append(f"Type: {harmless(task.type)}")
    if task.technology:
        lines.append(f"Technology: {harmless(task.technology)}")
    return "\n".join(lines)
