"""The services that lessons of a caller's runs go to."""

from __future__ import annotations

from knowledge.access.principals import Principal
from knowledge.wiring.open import Knowledge


class CallerServices:
    """The services of a workspace as a caller has them, and those by which an agent's word is captured for the caller.

    `owner`: the workspace's, for the owner, since services that are bound to a principal cannot be bound again.
    """

    def __init__(self, owner: Knowledge, principal: Principal) -> None:
        self._owner = owner
        self._principal = principal
        bound = owner.for_principal(principal)
        self.capture = bound.capture
        self.contexts = bound.contexts

    def report_as(self, reporter: str) -> CallerServices:
        """Return the services whose captures are an agent's word; an agent's key stays itself."""
        return CallerServices(self._owner, self._principal.acting_for_agent(reporter))
