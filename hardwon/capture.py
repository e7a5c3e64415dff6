"""Captures by entry type: the same methods in process and over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.coercion import coerce_arguments
from hardwon.models.entries import AppliesWhen, EntryType, NewEntry
from hardwon.models.ids import EntryId


class EntryCapture(ABC):
    """Methods that build an entry of one type and pass it to `capture`."""

    __slots__ = ()

    @abstractmethod
    async def capture(self, entry: NewEntry | Mapping[str, Any]) -> EntryId:
        """Capture one entry of any type, also as its JSON object; return its id."""

    @coerce_arguments
    async def capture_failure_solution(
        self,
        *,
        project_id: str,
        agent_type: str,
        failure_description: str,
        task_type: str | None = None,
        error_message: str | None = None,
        solution_steps: str | None = None,
        technology: str | None = None,
        success_verified: bool = False,
        verified_by: str | None = None,
        task_description: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        dead_ends: Sequence[str] = (),
        outside_text: bool = False,
        task_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> EntryId:
        """Capture a failed test or task; without a verified solution it stays open until `resolve_failure`.

        Returns the entry's id; of a repeated event, the id it already has. Raises InvalidInput or IdempotencyConflict.
        """
        return await self.capture(
            NewEntry(
                entry_type=EntryType.FAILURE_SOLUTION,
                project_id=project_id,
                agent_type=agent_type,
                task_type=task_type,
                technology=technology,
                task_description=task_description,
                failure_description=failure_description,
                error_message=error_message,
                solution_steps=solution_steps,
                success_verified=success_verified,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
                dead_ends=tuple(dead_ends),
                outside_text=outside_text,
                task_id=task_id,
                run_id=run_id,
                idempotency_key=idempotency_key,
            )
        )

    @coerce_arguments
    async def capture_gate_rejection(
        self,
        *,
        project_id: str,
        gate_type: str,
        human_feedback: str,
        revision_approach: str | None = None,
        proposal: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        task_description: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> EntryId:
        """Capture a proposal that a human rejected; without the accepted revision it stays open until resolved.

        Returns the entry's id; of a repeated event, the id it already has. Raises InvalidInput or IdempotencyConflict.
        """
        return await self.capture(
            NewEntry(
                entry_type=EntryType.GATE_REJECTION,
                project_id=project_id,
                gate_type=gate_type,
                proposal=proposal,
                human_feedback=human_feedback,
                revision_approach=revision_approach,
                agent_type=agent_type,
                task_type=task_type,
                technology=technology,
                task_description=task_description,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
                task_id=task_id,
                run_id=run_id,
                idempotency_key=idempotency_key,
            )
        )

    @coerce_arguments
    async def capture_gate_approval(
        self,
        *,
        project_id: str,
        gate_type: str,
        approved_approach: str,
        proposal: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        task_description: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> EntryId:
        """Capture a proposal that passed its gate at the first attempt.

        Returns the entry's id; of a repeated event, the id it already has. Raises InvalidInput, IdempotencyConflict, or
        RejectionOnRecord where the same project, gate and task has a rejection.
        """
        return await self.capture(
            NewEntry(
                entry_type=EntryType.GATE_APPROVAL,
                project_id=project_id,
                gate_type=gate_type,
                proposal=proposal,
                approved_approach=approved_approach,
                agent_type=agent_type,
                task_type=task_type,
                technology=technology,
                task_description=task_description,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
                task_id=task_id,
                run_id=run_id,
                idempotency_key=idempotency_key,
            )
        )
