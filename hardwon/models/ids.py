"""Ids and constants that load without anything else."""

from __future__ import annotations

from enum import StrEnum
from typing import NewType
from uuid import UUID

PointId = NewType("PointId", UUID)
CheckpointId = NewType("CheckpointId", UUID)
LeaseToken = NewType("LeaseToken", UUID)
EntryId = NewType("EntryId", UUID)
PatternId = NewType("PatternId", UUID)
ContextId = NewType("ContextId", UUID)
DEFAULT_WORKSPACE = "default"
CONTEXT_OPENING = "[ORCHESTRATOR CONTEXT: Historical Knowledge]"
CONTEXT_CLOSING = "[END CONTEXT]"
"""First and last line of the block in a context."""
CONTEXT_SECONDS = 0.3
"""Longest time that an agent waits for a context after a failure, in a hook or in a tool of a program; ours."""


class CheckpointType(StrEnum):
    """The moments at which staged entries are embedded."""

    PHASE_COMPLETION = "phase_completion"
    PROJECT_COMPLETION = "project_completion"
    CANCELLATION = "cancellation"
    MANUAL = "manual"
