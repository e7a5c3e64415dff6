"""Entries as JSON lines: in our own format, or in a neutral format for failures, gate rejections and approvals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hardwon.coercion import json_problem
from hardwon.errors import InvalidInput
from knowledge.models import EntryType, NewEntry
from orchestrator.entries import parse_entry

_OURS = (EntryType.FAILURE_SOLUTION, EntryType.GATE_APPROVAL)
"""Types of our own format, which the neutral one does not have."""


def read_lines(lines: Iterable[str]) -> Iterator[tuple[int, NewEntry | InvalidInput]]:
    """Yield the number of each line that is not blank, with its entry or an error.

    A line with `entry_type` is an entry; one with `type` (failure, gate_rejection, approval) is in the neutral format.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, _parse_line(line)
        except InvalidInput as error:
            yield number, error


def _parse_line(line: str) -> NewEntry:
    try:
        line.encode()
    except UnicodeEncodeError:
        raise InvalidInput("line", "is not UTF-8") from None
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInput("line", json_problem(error)) from error
    except ValueError as error:
        raise InvalidInput("line", f"is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInput("line", "is nested too deeply") from error
    if isinstance(record, dict) and "entry_type" not in record and "type" in record and record["type"] not in _OURS:
        record = _from_neutral(record)
    return parse_entry(record)


def _from_neutral(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry for one record of the neutral format."""
    common = {"project_id": record.get("source"), "task_id": record.get("id")}
    match record["type"]:
        case "failure":
            fields = _failure_fields(record)
        case "gate_rejection":
            fields = {
                "entry_type": EntryType.GATE_REJECTION,
                "gate_type": "review",
                "proposal": _join_texts(record.get("task"), record.get("output")),
                "human_feedback": record.get("feedback"),
                "revision_approach": record.get("revision") or None,
            }
        case "approval":
            fields = {
                "entry_type": EntryType.GATE_APPROVAL,
                "gate_type": "review",
                "task_description": record.get("task"),
                "proposal": record.get("task"),
                "approved_approach": record.get("output"),
            }
        case other:
            raise InvalidInput("type", f"must be failure, gate_rejection or approval, not {other!r}")
    return {name: value for name, value in (common | fields).items() if value is not None}


def _failure_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    failure = record.get("failure")
    return {
        "entry_type": EntryType.FAILURE_SOLUTION,
        "agent_type": "coder",
        "task_type": "bugfix",
        "technology": record.get("language") or "python",
        "task_description": record.get("task"),
        "failure_description": failure,
        "error_message": _error_lines(failure) if isinstance(failure, str) else None,
        "solution_steps": record.get("solution"),
        "success_verified": record.get("verified") is not False,
        "verified_by": record.get("source") if record.get("verified") is True else None,
    }


def _join_texts(*parts: object) -> object:
    """Return the texts, joined by line breaks; a part that is not a text is returned as it is, for validation."""
    texts = [part for part in parts if isinstance(part, str) and part]
    invalid = [part for part in parts if part is not None and not isinstance(part, str)]
    return invalid[0] if invalid else "\n".join(texts) or None


def _error_lines(failure: str) -> str | None:
    """Return a test's output from the first line that pytest marks as an error."""
    lines = failure.split("\n")
    start = next((at for at, line in enumerate(lines) if line.startswith("E ")), None)
    return None if start is None else "\n".join(lines[start:])
