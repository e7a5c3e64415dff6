"""Whether a pattern applies to what is known of a task: conditions that entries tell against facts; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields

from packaging.specifiers import InvalidSpecifier

from knowledge.errors import InvalidInput
from knowledge.memory.expressions import expression
from knowledge.memory.technologies import usual_name
from knowledge.memory.versions import as_range, lies_within, required, unversioned
from knowledge.models import AppliesWhen, FactsTold

MAX_CHARS = 200
"""A condition and a fact, but for an error, have at most so many characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of where a task is done; None is unknown. `version` is of the technology."""

    technology: str | None = None
    version: str | None = None
    tool: str | None = None
    error: str | None = None


NOTHING_KNOWN = Facts()
_NAMES = tuple(field.name for field in fields(Facts))


def read_facts(told: FactsTold | None, **usual: str | None) -> Facts:
    """Return what was told as facts, `usual` ones where nothing else was. Raises InvalidInput, naming the fact."""
    if told is not None and not isinstance(told, Mapping):
        raise InvalidInput("facts", f"must be names with texts, not {type(told).__name__}")
    facts = dict(usual)
    for name, value in (told or {}).items():
        if name not in _NAMES:
            raise InvalidInput("facts", f"may tell {', '.join(_NAMES)}, but not {name!r}")
        facts[name] = _as_text(f"facts.{name}", value)
    return Facts(**facts)


def _as_text(field: str, told: object) -> str:
    """Return a fact as a text: `(2, 7)`, as programs have their versions, is 2.7. Raises InvalidInput."""
    if isinstance(told, str):
        return told
    numbers = told if isinstance(told, tuple | list) else ()
    if not numbers or any(isinstance(each, bool) or not isinstance(each, int) for each in numbers):
        raise InvalidInput(field, f"must be a text or whole numbers, not {told!r:.50}")
    return ".".join(map(str, numbers))


def check_conditions(conditions: object) -> None:
    """Raise InvalidInput, naming what is wrong, unless these are conditions that can be evaluated."""
    if not isinstance(conditions, AppliesWhen):
        raise InvalidInput("applies_when", f"must be AppliesWhen, not {type(conditions).__name__}")
    told = {name: value for name in _NAMES if (value := getattr(conditions, name)) is not None}
    if not told:
        raise InvalidInput("applies_when", f"tells no condition: give {', '.join(_NAMES[:-1])} or {_NAMES[-1]}")
    for name, value in told.items():
        _check(f"applies_when.{name}", value)
    if conditions.version is not None:
        if conditions.technology is None:
            raise InvalidInput("applies_when.version", "is a version of what? give applies_when.technology too")
        try:
            as_range(conditions.version)
        except InvalidSpecifier as error:
            raise InvalidInput("applies_when.version", "is no range of versions, such as >=3.10,<3.13") from error
    if conditions.error is not None:
        try:
            expression(conditions.error)
        except ValueError as error:
            raise InvalidInput("applies_when.error", str(error)) from error


def may_apply(
    conditions: Collection[AppliesWhen],
    facts: Facts,
    whens: Collection[str] = (),
    learned_in: Collection[str] = (),
) -> bool:
    """Return whether a pattern may help: unless all the conditions that its entries tell are known not to hold.

    `learned_in`: the technologies of its entries. A task of one of them is not known to be without another one that
    they name as a condition: of Python and pydantic a task has one as its technology, and is done with both.
    So it is where all their sentences of when to try, `whens`, are nothing but versions of the same technology that
    rule it out, and no condition is known to hold.
    """
    held = [holds(each, facts, learned_in) for each in conditions]
    if True in held:
        return True
    return (not held or None in held) and not (whens and all(_rules_out(each, facts) for each in whens))


def _rules_out(when_to_try: str, facts: Facts) -> bool:
    needs = required(when_to_try)
    return (
        needs is not None
        and bool(_same(needs.technology, facts.technology))
        and (_within(needs.versions, facts.version) is False)
    )


def holds(conditions: AppliesWhen, facts: Facts, learned_in: Collection[str] = ()) -> bool | None:
    """Return whether all of the conditions hold: False if any does not, else None if any cannot be known."""
    found = set(_each(conditions, facts, learned_in))
    if False in found:
        return False
    return None if None in found else True


def _each(conditions: AppliesWhen, facts: Facts, learned_in: Collection[str]) -> Iterator[bool | None]:
    same_technology = _same(conditions.technology, facts.technology)
    if same_technology is False and any(_same(each, facts.technology) for each in learned_in):
        same_technology = None
    if conditions.technology is not None:
        yield same_technology
    if conditions.version is not None:
        yield _within(conditions.version, facts.version) if same_technology else None
    if conditions.tool is not None:
        yield _same_tool(conditions.tool, facts.tool)
    if conditions.error is not None:
        yield _matches(conditions.error, facts.error)


def _same(wanted: str | None, fact: str | None) -> bool | None:
    if wanted is None or fact is None:
        return None
    return usual_name(wanted) == usual_name(fact)


def _same_tool(wanted: str, fact: str | None) -> bool | None:
    """Return whether a tool is the one that is meant, told with its version (`vite@5.2`) or without.

    None where a version is meant and none is told.
    """
    same = _same(wanted, fact)
    if same is not False or fact is None:
        return same
    if _same(wanted, unversioned(fact)):
        return True
    return None if _same(unversioned(wanted), fact) else False


def _within(wanted: str, fact: str | None) -> bool | None:
    """Return whether a version lies in a range; None where either is none: an import may bring any text."""
    return None if fact is None or len(fact) > MAX_CHARS else lies_within(wanted, fact)


def _matches(wanted: str, fact: str | None) -> bool | None:
    if fact is None:
        return None
    try:
        return expression(wanted).found_in(fact)
    except ValueError:
        return None


def _check(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {type(value).__name__}")
    if not value.strip():
        raise InvalidInput(field, "is empty or blank")
    if len(value) > MAX_CHARS:
        raise InvalidInput(field, f"has {len(value)} characters, more than the {MAX_CHARS} allowed")
    if not value.isprintable():
        raise InvalidInput(field, "holds a character that cannot be seen")
