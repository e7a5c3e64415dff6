"""Entries as JSON lines: in our own form, or in the neutral form of a stream of failures, reviews and approvals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from knowledge.errors import InvalidInput
from knowledge.models import EntryType, NewEntry
from orchestrator.entries import read_entry


def read_lines(lines: Iterable[str]) -> Iterator[tuple[int, NewEntry | InvalidInput]]:
    """Yield the number of each line that is not blank, with its entry or what is wrong with it.

    A line with `entry_type` is an entry; one with `type` (failure, gate_rejection, approval) is in the neutral form.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, _read(line)
        except InvalidInput as error:
            yield number, error


def _read(line: str) -> NewEntry:
    try:
        line.encode()
    except UnicodeEncodeError:
        raise InvalidInput("line", "is not UTF-8") from None
    try:
        told = json.loads(line)
    except ValueError as error:
        raise InvalidInput("line", f"is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInput("line", "is nested too deeply") from error
    if isinstance(told, dict) and "entry_type" not in told and "type" in told:
        told = _from_neutral(told)
    return read_entry(told)


def _from_neutral(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry for one record of the neutral form."""
    common = {"project_id": told.get("source"), "task_id": told.get("id")}
    match told["type"]:
        case "failure":
            fields = _failure(told)
        case "gate_rejection":
            fields = {
                "entry_type": EntryType.GATE_REJECTION,
                "gate_type": "review",
                "proposal": _joined(told.get("task"), told.get("output")),
                "human_feedback": told.get("feedback"),
                "revision_approach": told.get("revision") or None,
            }
        case "approval":
            fields = {
                "entry_type": EntryType.GATE_APPROVAL,
                "gate_type": "review",
                "task_description": told.get("task"),
                "proposal": told.get("task"),
                "approved_approach": told.get("output"),
            }
        case other:
            raise InvalidInput("type", f"must be failure, gate_rejection or approval, not {other!r}")
    return {name: value for name, value in (common | fields).items() if value is not None}


def _failure(told: Mapping[str, Any]) -> dict[str, Any]:
    failure = told.get("failure")
    return {
        "entry_type": EntryType.FAILURE_SOLUTION,
        "agent_type": "coder",
        "task_type": "bugfix",
        "technology": told.get("language") or "python",
        "task_description": told.get("task"),
        "failure_description": failure,
        "error_message": _error_lines(failure) if isinstance(failure, str) else None,
        "solution_steps": told.get("solution"),
        "success_verified": told.get("verified") is not False,
        "verified_by": told.get("source") if told.get("verified") is True else None,
    }


def _joined(*parts: object) -> object:
    """Return texts below each other; a part that is no text comes back as it is, to be refused by name."""
    texts = [part for part in parts if isinstance(part, str) and part]
    strange = [part for part in parts if part is not None and not isinstance(part, str)]
    return strange[0] if strange else "\n".join(texts) or None


def _error_lines(failure: str) -> str | None:
    """Return the part of a test's output from the first line that pytest marks as the error's."""
    lines = failure.split("\n")
    start = next((at for at, line in enumerate(lines) if line.startswith("E ")), None)
    return None if start is None else "\n".join(lines[start:])
