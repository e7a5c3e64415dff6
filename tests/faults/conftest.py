"""Grounds for the short forms: a herd a session, a store a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.ground import Ground, ground
from tests.faults.herd import Herd


@pytest.fixture(scope="session")
def herd() -> Iterator[Herd]:
    """Workers, forked from a process that has everything loaded."""
    with Herd() as running:
        yield running


@pytest.fixture
def alone(herd: Herd, postgres_dsn: str) -> Iterator[Ground]:
    """A store with the engine in the data directory, for one worker at a time."""
    with ground(herd, postgres_dsn) as made:
        yield made


@pytest.fixture
def shared(herd: Herd, postgres_dsn: str) -> Iterator[Ground]:
    """A store with a Qdrant server, for any number of workers."""
    with ground(herd, postgres_dsn, several=True) as made:
        yield made
