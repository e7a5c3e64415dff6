"""Progress of long work, stage by stage."""

from __future__ import annotations

from hardwon.models.reports import Progress


class Stages:
    """Reports the stages of long work; this base class is silent."""

    def stage(self, name: str) -> Progress | None:  # noqa: ARG002 - the bars use it
        """Begin a stage, ending the one before; return the callback for its progress, None if nobody watches."""
        return None
