"""Proxy that authorises each method call on a service against the permission table."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from knowledge.access.principals import Principal

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
    """Return a proxy of a service that denies a principal the methods that OPERATIONS does not allow."""
    return cast(_Service, _GuardedService(service, name, principal))
