"""Every field of a JSON object in every form: absent, empty, blank, as a text, native, of another kind, misspelt."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

IDS = frozenset({"project_id", "task_id", "run_id", "idempotency_key"})
ABSENT = ("absent", "null", "empty", "blank")
PRESENT = ("native", "text")
CLASSES = re.compile(
    r"\b(str|int|float|dict|bool|NoneType|UUID|Mapping|Input should|keyword argument|\w+Error|InvalidInput"
    r"|NewEntry|AppliesWhen|\w+Arguments|\w+Body|\w+Service)\b(?! \(a UUID|\))"
)
"""Words of Python and its libraries, which no message holds; "an id (a UUID)" may be said."""


@dataclass(frozen=True, slots=True)
class Case:
    """A JSON object with one field in one form."""

    field: str
    form: str
    given: Mapping[str, Any]

    @property
    def group(self) -> str:
        """Cases of one group must have one result."""
        return "absent" if self.form in ABSENT else "native" if self.form in PRESENT else self.form


def every_form(native: Mapping[str, Any], fields: Collection[str] | None = None) -> Iterator[Case]:
    """Yield the cases of an object, of some of its fields or of all."""
    for field in native if fields is None else fields:
        value = native[field]
        others = {name: each for name, each in native.items() if name != field}
        yield Case(field, "absent", others)
        yield Case(field, "null", {**others, field: None})
        yield Case(field, "empty", {**others, field: ""})
        yield Case(field, "blank", {**others, field: " \n"})
        yield Case(field, "native", {**others, field: value})
        yield Case(field, "text", {**others, field: value if isinstance(value, str) else json.dumps(value)})
        yield Case(field, "another kind", {**others, field: _of_another_kind(value)})
        yield Case(field, "misspelt", {**others, misspell(field): value})
        if field in IDS:
            yield Case(field, "number", {**others, field: 42})


def misspell(name: str) -> str:
    """Return a name with its last two letters in the wrong order."""
    return name[:-2] + name[-1] + name[-2]


def _of_another_kind(value: object) -> object:
    if isinstance(value, str):
        return ["a", "list"]
    return {"x": 1} if isinstance(value, list) else "nonsense"


def check(case: Case, result: object, results: Mapping[tuple[str, str], object], required: Collection[str]) -> None:
    """Compare a result with what the form of a field means; `results`: of the same door, by field and form."""
    where = f"{case.field}, {case.form}"
    if isinstance(result, str):
        assert not CLASSES.search(result), f"{where}: {result}"
        assert "\n" not in result, where
    if case.group == "absent" and case.field in required:
        assert isinstance(result, str), where
        assert result.startswith(f"{case.field}: is required"), f"{where}: {result}"
    elif case.group in {"absent", "native"}:
        first = results[case.field, case.group]
        assert result == first, f"{where}: {result} is not {first}"
        assert not isinstance(result, str), f"{where}: {result}"
    elif case.form == "another kind":
        assert isinstance(result, str), where
        assert re.match(
            rf"{case.field}: must be .*(not a |not an |: did you mean)|{case.field}: must be one of", result
        ), result
        assert "nonsense" not in result, where
    elif case.form == "misspelt":
        assert isinstance(result, str), where
        assert result.startswith(f"{misspell(case.field)}: is not known here: did you mean "), f"{where}: {result}"
        assert case.field in result.partition(": did you mean ")[2], f"{where}: {result}"
    else:
        assert not isinstance(result, str), f"{where}: {result}"
