"""Lessons made from a number: every kind of entry, some of one pattern, some with a task text beside the situation."""

from __future__ import annotations

import random

from knowledge.models import EntryType, NewEntry

POISON = "poison"
"""A lesson with this word in it is refused by the embedder."""

_WORDS = ("cart", "price", "total", "order", "stock", "invoice", "user", "session", "cache", "queue", "worker", "lock")


def lesson(number: int, *, sharing: int = 3, cases: int | None = None, poisoned: bool = False) -> NewEntry:
    """Return a lesson that is staged at once.

    So many neighbours share a pattern (1: none does); of so many `cases` all lessons are, whoever captures them.
    """
    case = number // sharing % (cases or number + 1)
    words = " ".join(random.Random(case).sample(_WORDS, 4))
    what = f"{words} in case {case}{f' {POISON} {number}' if poisoned else ''}"
    task = f"{words} to be changed, task {number % 2} of {case}" if case % 4 == 1 else None
    project, task_id, run_id = f"project {number % 5}", f"T{number % 7}", f"R{number}"
    match case % 3:
        case 0:
            return NewEntry(
                entry_type=EntryType.FAILURE_SOLUTION,
                project_id=project,
                agent_type=f"agent {case % 2}",
                failure_description=f"{what} broke",
                solution_steps=f"mend {case}",
                success_verified=True,
                verified_by="pytest" if number % 2 else None,
                task_description=task,
                task_id=task_id,
                run_id=run_id,
            )
        case 1:
            return NewEntry(
                entry_type=EntryType.GATE_REJECTION,
                project_id=project,
                gate_type="design_review",
                proposal=f"{what} proposed",
                human_feedback=f"not {case} like this",
                revision_approach=f"rather {case}",
                task_description=task,
                task_id=task_id,
                run_id=run_id,
            )
        case _:
            return NewEntry(
                entry_type=EntryType.GATE_APPROVAL,
                project_id=project,
                gate_type="code_review",
                proposal=f"{what} proposed",
                approved_approach=f"do {case}",
                task_description=task,
                run_id=run_id,
            )
