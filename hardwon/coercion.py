"""Input coercion: JSON objects and arguments read the same way at every door, before they are validated.

What is absent is None or a blank text. Booleans, numbers, lists and objects may come as texts, and ids as numbers. An
unknown name is refused with the name that is likely meant, a value of another kind in one sentence that names the field
and the kind, never the value.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import SequenceMatcher
from enum import Enum, StrEnum, auto
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Final, ParamSpec, SupportsIndex, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from hardwon.errors import InvalidInput
from hardwon.validation import kind_of

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")
_Object = TypeVar("_Object")

REQUIRED: Final = "is required"
_ID_NAMES: Final = frozenset({"project_id", "task_id", "run_id", "idempotency_key", "workspace"})
"""Texts that databases have as numbers and UUIDs."""
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}")
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,3})?")
_MAX_NAME_CHARS: Final = 100
_MAX_ID_BITS: Final = 660
"""Largest number that an id may be: no field takes more than its 200 digits."""
_ALIKE: Final = 0.6
"""Likeness of names from which one is taken for the other; that of `difflib.get_close_matches`."""
_MARGIN: Final = 0.15
"""How much less alike than the likeliest name others may be that are named with it; ours."""
_MAX_SUGGESTIONS: Final = 4
_MIN_PREFIX: Final = 3


@dataclass(frozen=True, slots=True)
class Alias:
    """Other names of a field, in the `Annotated` of its type."""

    names: tuple[str, ...]


class _Absent(Enum):
    """The effect of a field that is absent: it has a default, may be None, or is required."""

    LEFT_OUT = auto()
    NONE = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object, or an argument. `read`: returns its value from one of another form; `of`: its dataclass."""

    read: Callable[[Any, str], Any]
    of: type[Any] | None = None
    absent: _Absent = _Absent.LEFT_OUT


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of an object or the arguments of a call, in their order, and every name that they go by."""

    fields: Mapping[str, Field]
    names: Mapping[str, str]


def _make_dataclass_shape(kind: type[Any]) -> Shape:
    hints = get_type_hints(kind, include_extras=True)
    required = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    return _make_shape({name: (hints[name], required[name]) for name in required})


shape_of: Final[Callable[[Any], Shape]] = functools.cache(_make_dataclass_shape)
"""Returns the shape of a dataclass."""


@functools.cache
def shape_of_call(function: Callable[..., Any]) -> Shape:
    """Return the shape of the arguments of a method, without `self`."""
    hints = get_type_hints(function, include_extras=True)
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    return _make_shape({each.name: (hints[each.name], each.default is inspect.Parameter.empty) for each in parameters})


def _make_shape(declared: Mapping[str, tuple[Any, bool]]) -> Shape:
    names = {name: name for name in declared}
    for name, (hint, _) in declared.items():
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        names |= {other: name for each in marks if isinstance(each, Alias) for other in each.names}
    return Shape({name: _make_field(name, hint, required) for name, (hint, required) in declared.items()}, names)


def _make_field(name: str, hint: Any, required: bool) -> Field:  # noqa: FBT001 - of a row
    absent = _Absent.LEFT_OUT
    if required:
        absent = _Absent.NONE if NoneType in _alternatives(hint) else _Absent.REFUSED
    kinds = [each for each in _alternatives(hint) if each is not NoneType]
    kind = kinds[0] if len(kinds) == 1 else object
    origin = get_origin(kind) or kind
    if not isinstance(origin, type):  # such as a NewType
        return Field(_take, absent=absent)
    if is_dataclass(origin) and hasattr(origin, "__pydantic_config__"):  # one that is read from JSON
        return Field(functools.partial(_coerce_object, origin), origin, absent)
    return Field(_id_or_text(name) if origin is str else _reader_of(name, kind, origin), absent=absent)


def _id_or_text(name: str) -> Callable[[Any, str], Any]:
    return _coerce_id if name in _ID_NAMES else _coerce_text


def _reader_of(name: str, kind: Any, origin: type[Any]) -> Callable[[Any, str], Any]:
    """Return the function that reads a value of a type."""
    if issubclass(origin, StrEnum):
        return functools.partial(_coerce_choice, origin)
    if issubclass(origin, Mapping):
        return _coerce_facts if name == "facts" else _take
    if issubclass(origin, Collection) and not issubclass(origin, bytes):
        items = _alternatives(next(iter(get_args(kind)), Any))
        return functools.partial(_coerce_list, of_texts=any(_is_text(each) for each in items))
    return {bool: _coerce_flag, int: _coerce_integer, float: _coerce_number}.get(origin, _take)


def _take(value: Any, _: str) -> Any:
    """Return a value of a type that is checked elsewhere."""
    return value


def _alternatives(hint: Any) -> list[Any]:
    """Return the types of a union, without annotations."""
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in {Union, UnionType}:
        return [kind for each in get_args(hint) for kind in _alternatives(each)]
    return [hint]


def _is_text(kind: Any) -> bool:
    """Return whether values of a type are texts in JSON: texts and ids."""
    kind = getattr(kind, "__supertype__", kind)
    return isinstance(kind, type) and issubclass(kind, str | UUID)


def is_absent(value: object) -> bool:
    """Return whether a value counts as not given: None, or a text of nothing but white space."""
    return value is None or (isinstance(value, str) and (not value or value.isspace()))


def coerce(shape: Shape, given: Mapping[Any, Any], *, at: str = "") -> dict[str, Any]:
    """Return the fields that are given, by their own names, each in the form that its type has; objects as mappings.

    `at`: the path of the object, for errors. Raises InvalidInput for an unknown name, a required field that is absent,
    and a value of another kind.
    """
    present: dict[str, Any] = {}
    for name, value in given.items():
        field = shape.names.get(name)
        if field is None:
            raise unknown_name(name, shape.names, at=at)
        if is_absent(value):
            continue
        if field in present and present[field] != value:
            raise InvalidInput(f"{at}{name}", f"is another name of {field}, which has another value: give one of them")
        present[field] = value
    values = {}
    for field, declared in shape.fields.items():
        if field in present:
            value = present[field]
            is_own = declared.read in _OF_TEXTS and type(value) is str  # most are: their paths are not made
            values[field] = value if is_own else declared.read(value, f"{at}{field}")
        elif declared.absent is _Absent.REFUSED:
            raise InvalidInput(f"{at}{field}", REQUIRED)
        elif declared.absent is _Absent.NONE:
            values[field] = None
    return values


def read_object(kind: type[_Object], given: object, *, at: str = "", noun: str = "body") -> _Object:
    """Return an object of a dataclass from a mapping, or from one whose fields may have other forms.

    `noun`: its name in errors, where it has no path. Raises InvalidInput, naming the field.
    """
    shape = shape_of(kind)
    if isinstance(given, kind):
        given = {name: value for name in shape.fields if (value := getattr(given, name)) is not None}
    if not isinstance(given, Mapping):
        raise InvalidInput(at.rstrip(".") or noun, f"must be an object, not {kind_of(given)}")
    return kind(**_build_objects(shape, coerce(shape, given, at=at)))


def _build_objects(shape: Shape, values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        kind = shape.fields[name].of
        if kind is not None and value is not None:
            values[name] = kind(**_build_objects(shape_of(kind), value))
    return values


def coerce_call(shape: Shape, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, by name. Raises InvalidInput, also for one argument too many."""
    if len(args) > len(shape.fields):
        raise InvalidInput("arguments", f"are {len(args)}, more than the {len(shape.fields)} that there are")
    positional = dict(zip(shape.fields, args, strict=False))
    for name in kwargs:
        if shape.names.get(name) in positional:
            raise InvalidInput(name, "is given twice")
    return _build_objects(shape, coerce(shape, {**positional, **kwargs}))


def coerce_arguments(
    method: Callable[_Params, Coroutine[Any, Any, _Result]],
) -> Callable[_Params, Coroutine[Any, Any, _Result]]:
    """Have a method of a service take its arguments as the other doors do."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    by_place = [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    defaults = {each.name: each.default for each in parameters}

    @functools.wraps(method)
    async def call(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        service, *given = args
        if len(given) > len(by_place):
            raise InvalidInput("arguments", "must be given by name")
        values = coerce_call(shape_of_call(method), given, kwargs)
        placed = [values.pop(name, defaults[name]) for name in by_place[: len(given)]]
        return await method(service, *placed, **values)  # type: ignore[arg-type] # checked by the shape

    return call


def as_text_id(field: str, value: object) -> str:
    """Return an id that a caller chose as a text. Raises InvalidInput for one that is absent or of another kind."""
    if is_absent(value):
        raise InvalidInput(field, REQUIRED)
    return _coerce_id(value, field)


def unknown_name(name: object, known: Mapping[str, str], *, at: str = "") -> InvalidInput:
    """Return the error of an unknown name, with the names that are likely meant; the name is made printable.

    `known`: own names by every name that they go by.
    """
    printable = str(name).encode("utf-8", "backslashreplace").decode()[:_MAX_NAME_CHARS]
    return InvalidInput(f"{at}{printable}", f"is not known here{_suggest(printable, known)}")


def _suggest(name: str, known: Mapping[str, str]) -> str:
    likely = likely_names(name, known)
    return f": did you mean {' or '.join(likely)}?" if likely else ""


def likely_names(name: str, known: Mapping[str, str]) -> list[str]:
    """Return the names that one may have been meant as, likeliest first: misspelt, shortened or in camel case."""
    words = _words(name)
    scored = [(_likeness(words, _words(each)), own) for each, own in known.items()]
    least = max(_ALIKE, max((score for score, _ in scored), default=0.0) - _MARGIN)
    best = sorted((score for score in scored if score[0] >= least), key=lambda score: (-score[0], score[1]))
    return list(dict.fromkeys(own for _, own in best))[:_MAX_SUGGESTIONS]


def _words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).casefold().strip("_").split("_")


def _likeness(name: list[str], known: list[str]) -> float:
    """Return how alike two names are, 0..1: of their letters, or a name that is a part of the other one."""
    if set(name) < set(known):
        return 0.7 + 0.3 * len(name) / len(known)
    if len(name[0]) >= _MIN_PREFIX and "_".join(known).startswith("_".join(name)):
        return 0.7
    return SequenceMatcher(None, "_".join(name), "_".join(known)).ratio()


def _coerce_text(value: object, at: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidInput(at, f"must be a text, not {kind_of(value)}")


def _coerce_id(value: object, at: str) -> str:
    """Return an id that a caller chose as a text; databases have numbers and UUIDs."""
    if isinstance(value, str):
        return value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(at, f"must be a text or a whole number, not {kind_of(value)}")
    if value.bit_length() > _MAX_ID_BITS:
        raise InvalidInput(at, "must be a text or a whole number, and this one is too large")
    return str(value)


_OF_TEXTS: Final = (_coerce_text, _coerce_id)


def _coerce_flag(value: object, at: str) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (word := value.strip().lower()) in {"true", "false"}:
        return word == "true"
    raise InvalidInput(at, f"must be true or false, not {kind_of(value)}")


def _coerce_integer(value: object, at: str) -> object:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number
        return int(value)
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InvalidInput(at, f"must be a whole number, not {kind_of(value)}")
    return value


def _coerce_number(value: object, at: str) -> object:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(at, f"must be a number, not {kind_of(value)}")
    return value


def _coerce_choice(kind: type[StrEnum], value: object, at: str) -> StrEnum:
    names = {each.value: each.value for each in kind}
    text = value.strip() if isinstance(value, str) else ""
    if text in names:
        return kind(text)
    given = "" if isinstance(value, str) else f", not {kind_of(value)}"
    raise InvalidInput(at, f"must be one of {', '.join(names)}{given}{_suggest(text[:_MAX_NAME_CHARS], names)}")


def _coerce_list(value: object, at: str, *, of_texts: bool) -> object:
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _parse_json(value, "a list", at)
    if isinstance(value, UUID) or (isinstance(value, str) and of_texts):
        return [value]
    if isinstance(value, Mapping | str | bytes) or not isinstance(value, Collection):
        raise InvalidInput(at, f"must be a list, not {kind_of(value)}")
    return value


def _coerce_object(kind: type[Any], value: object, at: str) -> dict[str, Any]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parse_json(value, "an object", at)
    if isinstance(value, kind):
        value = {name: getattr(value, name) for name in shape_of(kind).fields}
    if not isinstance(value, Mapping):
        raise InvalidInput(at, f"must be an object, not {kind_of(value)}")
    return coerce(shape_of(kind), value, at=f"{at}.")


FACT_NAMES: Final = {name: name for name in ("technology", "version", "tool", "error")}
"""Facts of a task; own names by the names that they go by."""


def _coerce_facts(value: object, at: str) -> dict[str, Any]:
    """Return facts by name: texts, or whole numbers in a row. A number with a point is none: 3.10 would be 3.1."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parse_json(value, "an object", at)
    if not isinstance(value, Mapping):
        raise InvalidInput(at, f"must be an object, not {kind_of(value)}")
    facts = {}
    for name, fact in value.items():
        if name not in FACT_NAMES:
            raise unknown_name(name, FACT_NAMES, at=f"{at}.")
        if is_absent(fact):
            continue
        facts[name] = _coerce_fact(fact, f"{at}.{name}")
    return facts


def _coerce_fact(value: Any, at: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return _coerce_id(value, at)
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(type(each) is int for each in value):
        return value
    raise InvalidInput(at, f"must be a text or a sequence of whole numbers, not {kind_of(value)}")


def _parse_json(text: str, wanted: str, at: str) -> Any:
    """Return the value of a text in JSON. Raises InvalidInput with the place where it is not JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(at, f"must be {wanted}, and this text {json_problem(error)}") from error
    except RecursionError as error:
        raise InvalidInput(at, "is nested too deeply") from error


def json_problem(error: json.JSONDecodeError) -> str:
    """Return what is wrong with a text that should be JSON, and where."""
    problem = error.msg.removesuffix(" at").removesuffix(": ")
    return f"is not JSON: {problem[:1].lower()}{problem[1:]} at line {error.lineno}, column {error.colno}"
