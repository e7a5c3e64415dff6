"""Id types of stored objects; those that clients also need are in `knowledge.names`."""

from __future__ import annotations

from typing import NewType
from uuid import UUID

PointId = NewType("PointId", UUID)
CheckpointId = NewType("CheckpointId", UUID)
LeaseToken = NewType("LeaseToken", UUID)
