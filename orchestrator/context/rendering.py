"""The block of patterns that an agent gets with its task: rendered here, in the design's format, and nowhere else.

Stored text was written by agents and people, so none of it may look like the block's own lines: continuation lines are
indented and the two markers are broken inside stored text. That is structure; it cannot make a model obey it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hardwon.context.sanitize import sanitize
from hardwon.models.entries import EntryType
from hardwon.models.ids import CONTEXT_CLOSING, CONTEXT_OPENING
from hardwon.models.patterns import Pattern, label
from hardwon.text.truncation import truncate_middle
from orchestrator.context.token_budget import INDENT, Truncation, estimate_tokens, fit_texts

_INTRODUCTION: Final = "Similar situations have been resolved these ways:"
_RECOMMENDATION: Final = "Recommendation: Try patterns in order. Pattern 1 is most likely based on historical data."
CONTEXT_PATTERNS: Final = 3
_SHOWN_DEAD_ENDS: Final = 2
_DEAD_END_BYTES: Final = 400
"""Bytes of a dead end that are shown: which way it went, not how; ours."""


def render(patterns: Sequence[Pattern], *, max_tokens: int) -> tuple[str, tuple[Pattern, ...]]:
    """Return the block for up to three patterns, never above `max_tokens`, and the patterns in it.

    Long texts are cut, with a mark where. Problems are cut in the middle; lines that state the error are preserved.
    Patterns that still do not fit are dropped, the last first; the text is empty if none fits.
    """
    shown = list(patterns[:CONTEXT_PATTERNS])
    while shown:
        texts = [(sanitize(text) or "-", keep) for pattern in shown for text, keep in _texts(pattern)]
        frame = estimate_tokens(_block(shown, [""] * len(texts)))
        cut = fit_texts(texts, max_tokens - frame)
        if cut is not None:
            return _block(shown, [sanitize(text) for text in cut]), tuple(shown)
        if any(pattern.dead_ends for pattern in shown):
            shown = [replace(pattern, dead_ends=()) for pattern in shown]
            continue
        shown.pop()
    return "", ()


def _texts(pattern: Pattern) -> tuple[tuple[str, Truncation], ...]:
    is_failure = pattern.entry_type is EntryType.FAILURE_SOLUTION
    problem = (pattern.problem, Truncation.ERRORS if is_failure else Truncation.ENDS)
    return problem, (pattern.solution, Truncation.BEGINNING), (pattern.when_to_try, Truncation.BEGINNING)


def _indent_lines(text: str) -> str:
    return text.replace("\n", "\n" + INDENT)


def _block(patterns: Sequence[Pattern], texts: Sequence[str]) -> str:
    lines = [CONTEXT_OPENING, "", _INTRODUCTION, ""]
    for number, pattern in enumerate(patterns, 1):
        problem, solution, when = (_indent_lines(text) for text in texts[3 * number - 3 : 3 * number])
        successes = "1 success" if pattern.success_count == 1 else f"{pattern.success_count} successes"
        lines += [
            f"Pattern {number} ({label(pattern.success_count)} - {successes}):",
            f"- Problem: {problem}",
            f"- Solution: {solution}",
            f"- When to try: {when}",
        ]
        rival = _rival_number(pattern, patterns)
        if pattern.attempt_count > pattern.success_count or pattern.project_count > 1 or rival:
            projects = "1 project" if pattern.project_count == 1 else f"{pattern.project_count} projects"
            lines.append(f"- Record: {pattern.success_count} of {pattern.attempt_count} attempts, {projects}")
        lines += [f"- Did not help: {_dead_end(text)}" for text in pattern.dead_ends[:_SHOWN_DEAD_ENDS]]
        if pattern.verify:
            lines.append(f"- Verify: {_indent_lines(sanitize(pattern.verify))}")
        if rival and rival < number:
            lines.append(f"- Alternative to: Pattern {rival}")
        lines.append("")
    return "\n".join([*lines, _RECOMMENDATION, "", CONTEXT_CLOSING, ""])


def _dead_end(text: str) -> str:
    return _indent_lines(sanitize(truncate_middle(text, _DEAD_END_BYTES, "\n[...]\n")) or "-")


def _rival_number(pattern: Pattern, shown: Sequence[Pattern]) -> int | None:
    """Return the number of the first pattern in the block that is a rival of this one."""
    numbers = (number for number, other in enumerate(shown, 1) if other.pattern_id in pattern.rivals)
    return next(numbers, None)
