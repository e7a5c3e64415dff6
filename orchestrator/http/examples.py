"""The examples of the OpenAPI document, read from `examples.json`.

There `"$name"` stands for the value of that name in `shared`, and `{"$": "name", ...}` for that object with changes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_FILE: Final[dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
)


def _resolve(value: Any) -> Any:
    """Return a value with each reference replaced by what it stands for."""
    if isinstance(value, str) and value.startswith("$"):
        return _resolve(_FILE["shared"][value[1:]])
    if isinstance(value, list):
        return [_resolve(each) for each in value]
    if isinstance(value, dict):
        whole = _resolve(f"${value['$']}") if "$" in value else {}
        return whole | {name: _resolve(each) for name, each in value.items() if name != "$"}
    return value


VALUES: Final[dict[str, Any]] = _resolve(_FILE["values"])
"""Parameters in a path, a query or a header."""
REQUESTS: Final[dict[str, Any]] = _resolve(_FILE["requests"])
ANSWERS: Final[dict[str, Any]] = _resolve(_FILE["answers"])
"""By operation; none where it would be counts and flags, which the schema tells as well."""
PROBLEMS: Final[dict[int, dict[str, Any]]] = {int(status): _resolve(body) for status, body in _FILE["problems"].items()}
