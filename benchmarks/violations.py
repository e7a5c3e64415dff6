"""Linter violations in installed sources as labelled sets: the rules' problems, asked for as `hardwon demo` asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.sets import LabelledSet

# What the demo looks at, so that both speak of the same places; it publishes no line numbers.
from orchestrator.evaluation.demo import (
    _VIOLATION,
    Rule,
    _lint,
    _query_text,
    _source_line,
    find_violations,
    read_rules,
    remove_rule_name,
)


def violation_sets() -> list[LabelledSet]:
    """Return two sets: asked with message and flagged line, and with one line more on either side.

    Raises InvalidInput where the linter is not installed.
    """
    rules = read_rules()
    violations = find_violations(rules)
    around = _neighbours(rules)
    at = {rule.code: place for place, rule in enumerate(rules)}
    asked = {
        "violations": [_query_text(violation) for violation in violations],
        "violations, 3 lines": [
            f"{violation.message}\n{around[violation.code, violation.message, violation.source]}"
            for violation in violations
        ],
    }
    return [
        LabelledSet(
            name=name,
            documents=[rule.problem for rule in rules],
            queries=queries,
            query_ids=[str(number) for number in range(len(queries))],
            relevant=[frozenset({at[violation.code]}) for violation in violations],
        )
        for name, queries in asked.items()
    ]


def _neighbours(rules: Sequence[Rule]) -> dict[tuple[str, str, str], str]:
    """Return the three lines about each finding, by rule, message and flagged line; the first place of each."""
    known = {rule.name: rule for rule in rules} | {rule.code: rule for rule in rules}
    found: dict[tuple[str, str, str], str] = {}
    for finding in _lint():
        match = _VIOLATION.match(finding)
        rule = known.get(match["name"]) if match else None
        if match is None or rule is None:
            continue
        path, line = Path(match["path"]), int(match["line"])
        three = [
            remove_rule_name(_source_line(path, at), rule.code, rule.name)
            for at in (line - 1, line, line + 1)
            if at > 0
        ]
        key = (rule.code, remove_rule_name(match["message"], rule.code, rule.name), three[min(1, line - 1)])
        found.setdefault(key, "\n".join(three))
    return found
