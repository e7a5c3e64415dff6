"""Access control of documents. A `Scope` is the only way to their texts, and only this module creates one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from hardwon.errors import InvalidInput, NoAccess
from hardwon.validation import check_texts, kind_of

_CONSTRUCTION_TOKEN: Final = object()
_SCOPE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,119}")


class Readers(StrEnum):
    """Who may read a knowledge base; write access follows from it."""

    CASE = "case"
    """Those with access to the case read and write."""
    OWNER = "owner"
    """The user whose id is the scope's reads and writes."""
    MEMBERS = "members"
    """Members of the scope read and write."""
    EVERYONE = "everyone"
    """Everyone reads, administrators write. Has no scope id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A kind of knowledge base. `template` gives the partition of a scope id."""

    name: str
    template: str
    readers: Readers

    @property
    def requires_scope_id(self) -> bool:
        """True if each scope id has a partition of its own."""
        return "{id}" in self.template

    def partition(self, scope_id: str | None) -> str:
        """Return the partition of a scope. Raises InvalidInput for a scope id that is missing or cannot be one."""
        if not self.requires_scope_id:
            if scope_id:
                raise InvalidInput("scope_id", f"the {self.name} knowledge base takes no scope id: leave it out")
            return self.template
        if not scope_id:
            raise InvalidInput("scope_id", f"the {self.name} knowledge base needs the id of a {self.name}")
        if not isinstance(scope_id, str):  # databases give ids as numbers and UUIDs
            raise InvalidInput("scope_id", f"must be a text, not {kind_of(scope_id)}")
        if not _SCOPE_ID.fullmatch(scope_id):
            raise InvalidInput(
                "scope_id", "give 1 to 120 letters, digits or . _ @ + -, beginning with one of the first"
            )
        return self.template.replace("{id}", scope_id)

    def scope_id(self, partition: str) -> str | None:
        """Return the scope id of a partition, None if it does not belong to this base."""
        start, _, end = self.template.partition("{id}")
        if not self.requires_scope_id or not (partition.startswith(start) and partition.endswith(end)):
            return None
        middle = partition[len(start) : len(partition) - len(end)]
        return middle if _SCOPE_ID.fullmatch(middle) else None


CASE: Final = Base(name="case", template="case_{id}", readers=Readers.CASE)
USER: Final = Base(name="user", template="user_{id}_kb", readers=Readers.OWNER)
TEAM: Final = Base(name="team", template="team_{id}_kb", readers=Readers.MEMBERS)
GLOBAL: Final = Base(name="global", template="global_kb", readers=Readers.EVERYONE)

BASES: Final[Mapping[str, Base]] = {base.name: base for base in (CASE, USER, TEAM, GLOBAL)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller. Comes from a key or a session, never from an argument.

    An `admin` manages its workspace: it reads and writes every base of it.
    """

    name: str
    admin: bool = False


class Permission(StrEnum):
    """Access that a scope gives."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Partitions that a principal may use, authorised on creation. Only `AccessPolicy` creates one.

    `label` names them to a person.
    """

    workspace: str
    partitions: tuple[str, ...]
    principal: str
    label: str
    permission: Permission
    token: object = None

    def __post_init__(self) -> None:
        """Raise NoAccess unless `AccessPolicy` created it."""
        if self.token is not _CONSTRUCTION_TOKEN:
            raise NoAccess("Only AccessPolicy creates a scope, after it has checked the principal.")

    def writable(self) -> str:
        """Return the one partition that may be written to. Raises NoAccess if there is none, or more than one."""
        if self.permission is not Permission.WRITE or len(self.partitions) != 1:
            raise NoAccess(f"{self.principal} may not change {self.label}")
        return self.partitions[0]


class Grants(Protocol):
    """Grants of one workspace: the cases a principal may use, and the bases it is a member of."""

    async def has_access(self, base: str, scope_id: str, principal: str) -> bool:
        """Return whether the principal has access to this scope."""

    async def accessible_scopes(self, base: str, principal: str) -> list[str]:
        """Return the scope ids of a base that the principal has access to, ascending."""

    async def scopes(self, base: Base) -> list[str]:
        """Return the scope ids of a base that hold documents, ascending."""

    async def grant(self, base: str, scope_id: str, principal: str) -> None:
        """Give a principal access to a scope."""

    async def revoke(self, base: Base, scope_id: str, principal: str) -> bool:
        """Revoke access, and delete the cached answers that may quote its documents; return whether there was any."""

    async def grantees(self, base: str, scope_id: str) -> list[str]:
        """Return the principals that have access to a scope, ascending."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Authorises each request to a workspace anew: what is revoked is refused from the next request on."""

    workspace: str
    grants: Grants
    bases: Mapping[str, Base]

    def base(self, name: str) -> Base:
        """Return a kind of knowledge base. Raises InvalidInput."""
        check_texts(kb=name)
        try:
            return self.bases[name]
        except KeyError:
            raise InvalidInput("kb", f"there is no {name} knowledge base, but {', '.join(self.bases)}") from None

    def base_and_scope(self, partition: str) -> tuple[str, str | None]:
        """Return the knowledge base and scope id of a partition. Raises InvalidInput."""
        for base in self.bases.values():
            if partition == base.template:
                return base.name, None
            if scope_id := base.scope_id(partition):
                return base.name, scope_id
        raise InvalidInput("partition", f"{partition} does not belong to a knowledge base")

    async def scope(
        self, principal: Principal, kb: str, scope_id: str | None = None, *, permission: Permission = Permission.READ
    ) -> Scope:
        """Return the scope of one knowledge base. Raises NoAccess, or InvalidInput for an invalid base or scope id."""
        base = self.base(kb)
        partition = base.partition(scope_id)
        if not await self._is_allowed(principal, base, scope_id or "", permission):
            raise NoAccess(f"No access to {base.name}{f' {scope_id}' if scope_id else ''}")
        return self._make_scope(
            (partition,), principal, f"{base.name} {scope_id}" if scope_id else base.name, permission
        )

    async def everything(self, principal: Principal) -> Scope:
        """Return a scope of all partitions that a principal may read."""
        partitions: list[str] = []
        for base in self.bases.values():
            partitions += [base.partition(scope_id) for scope_id in await self._readable_scope_ids(principal, base)]
        return self._make_scope(tuple(sorted(partitions)), principal, "all knowledge bases", Permission.READ)

    async def _readable_scope_ids(self, principal: Principal, base: Base) -> list[str | None]:
        if not base.requires_scope_id:
            return [None]
        if principal.admin:
            return list(await self.grants.scopes(base))
        if base.readers is Readers.OWNER:
            return [principal.name] if _SCOPE_ID.fullmatch(principal.name) else []
        return list(await self.grants.accessible_scopes(base.name, principal.name))

    async def _is_allowed(self, principal: Principal, base: Base, scope_id: str, permission: Permission) -> bool:
        if principal.admin:
            return True
        match base.readers:
            case Readers.EVERYONE:
                return permission is Permission.READ
            case Readers.OWNER:
                return principal.name == scope_id
            case Readers.CASE | Readers.MEMBERS:
                return await self.grants.has_access(base.name, scope_id, principal.name)

    def _make_scope(
        self, partitions: tuple[str, ...], principal: Principal, label: str, permission: Permission
    ) -> Scope:
        return Scope(
            workspace=self.workspace,
            partitions=partitions,
            principal=principal.name,
            label=label,
            permission=permission,
            token=_CONSTRUCTION_TOKEN,
        )
