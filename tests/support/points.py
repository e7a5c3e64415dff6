"""Points of an index for tests of its adapters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from knowledge.models import EntryType, Point, PointId, SparseVector, View

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TERMS = SparseVector(indices=(1, 5), values=(0.5, 0.25))


def make_point(**told: Any) -> Point:
    """Return a point of the workspace `default`; its id and vector have to be told."""
    usual: dict[str, Any] = {
        "lexical": TERMS,
        "workspace": "default",
        "entry_type": EntryType.FAILURE_SOLUTION,
        "view": View.SITUATION,
        "agent_type": None,
        "task_type": None,
        "technology": None,
        "gate_type": None,
        "embedded_at": NOW,
        "expires_at": NOW + timedelta(days=365),
    }
    return Point(**usual | told)


def make_points(count: int, *, dims: int, seed: int = 1, **told: Any) -> list[Point]:
    """Return points with random ids and vectors, the same ones for a seed."""
    rng = np.random.default_rng(seed)
    return [
        make_point(
            point_id=PointId(UUID(bytes=rng.bytes(16))), dense=rng.standard_normal(dims).astype(np.float32), **told
        )
        for _ in range(count)
    ]
