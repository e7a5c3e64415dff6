"""Stages of long work, told to whoever watches."""

from __future__ import annotations

from knowledge.ports import Progress


class Stages:
    """Told when each stage of long work begins; this one is silent."""

    def stage(self, name: str) -> Progress | None:  # noqa: ARG002 - the bars use it
        """Begin a stage, ending the one before; return what its progress is told to, if anybody watches."""
        return None
