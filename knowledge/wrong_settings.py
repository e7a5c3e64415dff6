"""Error messages for settings: what the setting takes; the value itself, maybe a secret, is never repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_OF_NUMBERS = ("int_", "float_", "finite_", "greater_than", "less_than")


def describe_error(error: ErrorDetails, field: FieldInfo | None) -> str:
    """Return what a setting takes, or the error's own message where that says more."""
    kind = error["type"]
    if kind.startswith(_OF_NUMBERS) and field is not None:
        inside = error["loc"][1:]
        return f"give a number for {inside[0]!r}" if inside else f"give {_numbers(field)}"
    if kind.startswith("bool_"):
        return "give true (on) or false (off)"
    if kind in {"literal_error", "enum"}:
        return f"give {error['ctx']['expected']}"
    if kind == "string_pattern_mismatch":
        return f"give what matches {error['ctx']['pattern']}"
    return error["msg"].removeprefix("Value error, ")


def _numbers(field: FieldInfo) -> str:
    kind = "a whole number" if int in (field.annotation, *get_args(field.annotation)) else "a number"
    lowest, above, highest = (_bound(field, name) for name in ("ge", "gt", "le"))
    if lowest is None:
        return f"{kind} above {above:.15g}, {highest:.15g} at most"
    return f"{kind} from {lowest:.15g} to {highest:.15g}"


def _bound(field: FieldInfo, name: str) -> Any:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), None)
