"""The guard in front of a service: asked for a method, it looks whether the principal may, and only then gives it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from knowledge.access.principals import Principal

_Service = TypeVar("_Service")


class _Guarded:
    """A service as one principal has it. Whatever else it holds, its stores above all, is out of reach."""

    __slots__ = ("_name", "_principal", "_service")

    def __init__(self, service: object, name: str, principal: Principal) -> None:
        self._service = service
        self._name = name
        self._principal = principal

    def __getattr__(self, method: str) -> Any:
        """Return a method of the service. Raises AccessDenied unless the table allows it to the principal."""
        self._principal.require(f"{self._name}.{method}")
        return getattr(self._service, method)


def guarded(service: _Service, name: str, principal: Principal) -> _Service:
    """Return a service that refuses a principal what the table of operations does not allow, before it begins."""
    return cast(_Service, _Guarded(service, name, principal))
