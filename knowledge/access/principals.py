"""Who asks: what they may do, and in which workspace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from knowledge.access.operations import OPERATIONS, Needed, Reach, Scope
from knowledge.errors import AccessDenied, StorageUnavailable

__all__ = ["ANYONE", "OWNER", "Principal", "Scope", "Trust"]


class Trust(StrEnum):
    """How somebody showed who they are."""

    OWNER = "owner"
    """By reaching the data directory, as its user."""
    KEY = "key"
    NOTHING = "nothing"
    """Not at all: a server on this machine alone, without keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Whoever asks. `workspace` is the only one they reach, None where they reach all; `key_id` is that of their key.

    `first_key` is that of the key which rotations made theirs of, if any did. Goes with a request into the services,
    which look here before they do anything.
    """

    trust: Trust
    scopes: frozenset[Scope]
    workspace: str | None = None
    key_id: str | None = None
    first_key: str | None = None
    name: str | None = None
    """That of the key: whom it stands for, where documents are asked for."""
    unproven: str = ""
    """Why it could not be asked whether they still are who they were: nothing is done for them until it can."""

    def may(self, operation: str) -> bool:
        """Return whether an operation is allowed; one that is in no table is not."""
        needed = OPERATIONS.get(operation)
        if needed is None or not self._has(needed):
            return False
        if needed.known and self.trust is Trust.NOTHING:
            return False
        return needed.reach is Reach.WORKSPACE or self.workspace is None

    def require(self, operation: str) -> None:
        """Raise AccessDenied unless an operation is allowed, StorageUnavailable for who is `unproven`."""
        self.check(operation)
        if self.unproven:
            raise StorageUnavailable(self.unproven)

    def check(self, operation: str) -> None:
        """Raise AccessDenied unless an operation is allowed to who they are, or were."""
        if not self.may(operation):
            raise AccessDenied(self._refusal(operation))

    def enter(self, workspace: str) -> None:
        """Raise AccessDenied for a workspace that is not theirs; it tells nothing of whether that one is there."""
        if self.workspace not in {None, workspace}:
            raise AccessDenied("this key is of one workspace, and another was named: leave the workspace out")

    def _refusal(self, operation: str) -> str:
        needed = OPERATIONS.get(operation)
        if needed is None:
            return f"{operation} is no operation that anybody may ask for"
        if needed.known and self.trust is Trust.NOTHING:
            return "keys are made where the data directory is: hardwon keys create, without HARDWON_API_URL"
        if self._has(needed):
            return "this is done to all workspaces at once, and this key is of one: it takes a key of all of them"
        wanted = " and ".join(sorted(needed.scopes))
        return f"this takes a key of scope {wanted}, and this one has {', '.join(sorted(self.scopes))}"

    def _has(self, needed: Needed) -> bool:
        return Scope.ADMIN in self.scopes or needed.scopes <= self.scopes


OWNER = Principal(trust=Trust.OWNER, scopes=frozenset(Scope))
"""Whoever has the data directory: the process itself, and whom it serves over its private socket."""
ANYONE = Principal(trust=Trust.NOTHING, scopes=frozenset(Scope))
"""Whoever asks a server that has no keys, which therefore listens to this machine only."""
