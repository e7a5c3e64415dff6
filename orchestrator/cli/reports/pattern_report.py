"""Patterns and pairs of patterns, for people or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from hardwon.context.sanitize import sanitize
from hardwon.models.choices import ChoiceRecord, RecomputedChoice
from hardwon.models.entries import Entry
from hardwon.models.patterns import Pattern, PatternDetails, PatternPair
from hardwon.text.pluralize import count_of
from orchestrator.cli.support.terminal import one_line, out, print_json, print_text

_MAX_TEXT_CHARS = 300
AFTER_OUTSIDE_TEXT = ", after text from outside was read"


def print_pairs_of_patterns(pairs: Sequence[PatternPair], *, as_json: bool) -> None:
    """Print likely duplicates, with the command that joins them."""
    if as_json:
        print_json({"pairs": [asdict(pair) for pair in pairs]})
        return
    if not pairs:
        print_text("no two patterns look like the same one")
    for number, pair in enumerate(pairs, 1):
        out.print(f"{number}. likely the same: {pair.probability:.0%}", style="bold")
        _print_why(pair)
        for pattern in pair.patterns:
            _print_pattern(pattern)
        keep, other = (pattern.pattern_id for pattern in pair.patterns)
        out.print(f"   hardwon patterns join {keep} {other}", style="dim")
        out.print()


def print_details(details: PatternDetails, *, as_json: bool) -> None:
    """Print a pattern with its entries, likely duplicates and rivals."""
    if as_json:
        print_json(details)
        return
    _print_pattern(details.pattern)
    for text in details.pattern.dead_ends:
        out.print(f"     Did not help: {one_line(text, _MAX_TEXT_CHARS)}")
    for entry in details.entries:
        _print_entry(entry)
    for name, pairs in (("likely the same", details.twins), ("another way out", details.rivals)):
        for pair in pairs:
            (other,) = (each for each in pair.patterns if each.pattern_id != details.pattern.pattern_id)
            out.print(f"   {name} ({pair.probability:.0%}):", style="bold")
            _print_why(pair)
            _print_pattern(other)


def print_grouped(pattern: Pattern, *, as_json: bool) -> None:
    """Print the pattern that a join or a split made."""
    if as_json:
        print_json(pattern)
        return
    _print_pattern(pattern)


def print_tags(pattern: Pattern, *, as_json: bool) -> None:
    """Print a pattern with its tags."""
    if as_json:
        print_json(pattern)
        return
    _print_pattern(pattern)
    if not pattern.tags:
        out.print("     it has no tags")


def _print_pattern(pattern: Pattern) -> None:
    out.print(
        f"   {pattern.pattern_id}  worked {pattern.success_count} of {pattern.attempt_count} times"
        f" in {pattern.project_count} project{'' if pattern.project_count == 1 else 's'}  [{pattern.entry_type}]",
    )
    for name, text in (("Problem", pattern.problem), ("Solution", pattern.solution)):
        out.print(f"     {name}: {one_line(text, _MAX_TEXT_CHARS)}")
    if pattern.tags:
        out.print(f"     Tags: {one_line(', '.join(pattern.tags), _MAX_TEXT_CHARS)}")


def _print_entry(entry: Entry) -> None:
    task = f", task {entry.task_id}" if entry.task_id else ""
    line = f"   entry {entry.entry_id}  {entry.captured_at:%Y-%m-%d}, project {entry.project_id}{task}: {entry.status}"
    line += AFTER_OUTSIDE_TEXT if entry.outside_text else ""
    out.print(one_line(line, _MAX_TEXT_CHARS))


def _print_why(pair: PatternPair) -> None:
    if pair.why:
        out.print(f"   because {'; '.join(pair.why)}")


def print_choices(rows: Sequence[ChoiceRecord], *, as_json: bool) -> None:
    """Print contexts, a line each."""
    if as_json:
        print_json({"contexts": rows})
        return
    if not rows:
        print_text("no context was built here yet: hardwon context TEXT --agent-type A builds one")
    for row in rows:
        task = sanitize(" ".join(filter(None, (row.project_id, row.task_id, row.run_id))) or "-")
        sure = "" if row.confidence is None else f"  confidence {row.confidence:.2f}"
        shown = count_of(len(row.shown), "pattern")
        result = "" if row.worked is None else f"  {'worked' if row.worked else 'failed'}"
        print_text(
            f"{row.context_id}  {row.created_at:%Y-%m-%d %H:%M} UTC  {row.reason}  {shown}{sure}{result}  {task}"
        )


def print_choice(found: RecomputedChoice, *, recomputed: bool, as_json: bool) -> None:
    """Print the candidates of a context and the numbers that decided; `recomputed`: and what comes out now."""
    if as_json:
        print_json(found if recomputed else found.record)
        return
    record = found.record
    print_choices([record], as_json=False)
    choice = record.choice
    for near in record.near:
        print_text(f"       {near.pattern_id}  relevance {near.relevance:.2f}  {near.withheld}")
    if choice is None and record.near:
        return
    if choice is None:
        print_text("nothing was near enough to be weighed, or it was built before choices were stored")
        return
    print_text(
        f"right {choice.right:.3f}, alone {choice.alone:.3f}, margin {choice.margin:g}; confidence of the store"
        f" {choice.confidence:.3f}, level {choice.level:g}; outcomes known: {choice.outcomes}"
    )
    for each in choice.candidates:
        mark = "shown" if each.pattern_id in record.shown else "     "
        print_text(
            f"{mark}  {each.pattern_id}  score {each.score:+.3f}  likeness {each.likeness:+.2f}  relevance"
            f" {each.relevance:.2f}  {each.successes:.2f} worked, {each.failures:.2f} failed"
        )
    if recomputed:
        since = "; these records changed since:" if found.changes else ""
        print_text(f"made again: the same{since}" if not found.differences else "made again, these differ:")
        for line in (*found.differences, *found.changes):
            print_text(f"  {line}")
