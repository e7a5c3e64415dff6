"""The names by which everything is found, apart from what they name, so that they load at once."""

from __future__ import annotations

from enum import StrEnum
from typing import NewType
from uuid import UUID

EntryId = NewType("EntryId", UUID)
PatternId = NewType("PatternId", UUID)
ContextId = NewType("ContextId", UUID)

DEFAULT_WORKSPACE = "default"

CONTEXT_OPENING = "[ORCHESTRATOR CONTEXT: Historical Knowledge]"
CONTEXT_CLOSING = "[END CONTEXT]"
"""How the block of a context begins and ends."""


class CheckpointType(StrEnum):
    """The moments at which what is staged gets embedded."""

    PHASE_COMPLETION = "phase_completion"
    PROJECT_COMPLETION = "project_completion"
    CANCELLATION = "cancellation"
    MANUAL = "manual"
