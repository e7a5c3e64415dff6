"""Principals: the caller of a request, with scopes and workspace."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar, cast

from hardwon.errors import AccessDenied, InvalidInput, StorageUnavailable
from hardwon.models.access import Scope
from knowledge.access.permissions import Reach, Requirement, operations

__all__ = ["ANYONE", "OWNER", "Principal", "Scope", "Trust"]


_REPORTER = re.compile(r"[A-Za-z0-9._-]{1,80}")


class Trust(StrEnum):
    """The way in which a caller was authenticated."""

    OWNER = "owner"
    """By access to the data directory, as its user."""
    KEY = "key"
    NOTHING = "nothing"
    """Not at all: a server without keys that only listens on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller of a request. `workspace`: the only one it may access, None for all; `key_id`: the id of its key.

    `first_key`: id of the first key of the rotation chain, if its key was rotated. Services check each call against it.
    """

    trust: Trust
    scopes: frozenset[Scope]
    workspace: str | None = None
    key_id: str | None = None
    first_key: str | None = None
    name: str | None = None
    """Name of the key: the asker it stands for in queries of documents."""
    unverified: str = ""
    """Reason why the key could not be verified again; nothing is done for the caller until it can."""

    def may(self, operation: str) -> bool:
        """Return whether an operation is allowed; unknown operations are not."""
        requirement = operations().get(operation)
        if requirement is None or not self._has_scopes(requirement):
            return False
        if requirement.authenticated and self.trust is Trust.NOTHING:
            return False
        return requirement.reach is Reach.WORKSPACE or self.workspace is None

    def require(self, operation: str) -> None:
        """Raise AccessDenied unless an operation is allowed, StorageUnavailable for an `unverified` caller."""
        self.check(operation)
        if self.unverified:
            raise StorageUnavailable(self.unverified)

    def check(self, operation: str) -> None:
        """Raise AccessDenied unless an operation is allowed, also for an `unverified` caller."""
        if not self.may(operation):
            raise AccessDenied(self._refusal(operation))

    def acting_for_agent(self, reporter: str) -> Principal:
        """Return a principal that may capture alone, as an agent with a key of its own may, in this one's place.

        Raises InvalidInput for a name that is none of an agent.
        """
        if not _REPORTER.fullmatch(reporter):
            raise InvalidInput("reporter", "must be 1 to 80 letters, digits, dots, underscores and hyphens")
        scopes = self.scopes if Scope.ADMIN not in self.scopes else frozenset({Scope.CAPTURE})
        return replace(
            self,
            trust=Trust.KEY,
            scopes=scopes & {Scope.CAPTURE},
            key_id=f"agent:{reporter}",
            first_key=None,
            name=None,
        )

    def check_workspace(self, workspace: str) -> None:
        """Raise AccessDenied for a workspace that is not the caller's, whether or not it exists."""
        if self.workspace not in {None, workspace}:
            raise AccessDenied("this key belongs to another workspace: leave the workspace out")

    def _refusal(self, operation: str) -> str:
        requirement = operations().get(operation)
        if requirement is None:
            return f"{operation} is not an operation"
        if requirement.authenticated and self.trust is Trust.NOTHING:
            return (
                "keys are created on the machine with the data directory: hardwon keys create, without HARDWON_API_URL"
            )
        if self._has_scopes(requirement):
            return "this affects all workspaces, and this key belongs to one: use a key of all workspaces"
        required = " and ".join(sorted(requirement.scopes))
        return f"this takes a key of scope {required}, and this one has {', '.join(sorted(self.scopes))}"

    def _has_scopes(self, requirement: Requirement) -> bool:
        return Scope.ADMIN in self.scopes or requirement.scopes <= self.scopes


OWNER = Principal(trust=Trust.OWNER, scopes=frozenset(Scope))
"""Anyone with access to the data directory: the process itself, and clients of its private socket."""
ANYONE = Principal(trust=Trust.NOTHING, scopes=frozenset(Scope))
"""Any caller of a server that has no keys, and therefore only listens on this machine."""


_Service = TypeVar("_Service")


class _GuardedService:
    """A service for one principal. Its fields, above all its stores, are out of reach."""

    __slots__ = ("_name", "_principal", "_service")

    def __init__(self, service: object, name: str, principal: Principal) -> None:
        self._service = service
        self._name = name
        self._principal = principal

    def __getattr__(self, method: str) -> Any:
        """Return a method of the service. Raises AccessDenied unless the principal may call it."""
        self._principal.require(f"{self._name}.{method}")
        return getattr(self._service, method)


def guard_service(service: _Service, name: str, principal: Principal) -> _Service:
    """Return a proxy of a service that denies a principal the methods that the permission table does not allow."""
    return cast(_Service, _GuardedService(service, name, principal))
