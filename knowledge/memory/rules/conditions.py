"""Evaluation of a pattern's conditions against the known facts of a task; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

import re2
from packaging.specifiers import InvalidSpecifier

from hardwon.coercion import FACT_NAMES, unknown_name
from hardwon.errors import InvalidInput
from hardwon.validation import kind_of
from knowledge.memory.rules.versions import canonical_name, is_within, parse_range, parse_requirement, strip_version
from knowledge.models import AppliesWhen, TaskFacts

MAX_CHARS = 200
"""Maximum number of characters of an expression."""
MAX_TEXT_CHARS = 20_000
"""Of a longer text, only the first and last half of this are searched."""
_MEMORY = 1 << 20
"""Maximum bytes of an expression's automaton; RE2 refuses one with too much repetition."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled regular expression."""

    compiled: re2._Regexp

    def matches(self, text: str) -> bool:
        """Return whether it matches anywhere in a text; of a long text, in its beginning or end."""
        if len(text) <= MAX_TEXT_CHARS:
            return self._matches(text)
        half = MAX_TEXT_CHARS // 2
        return self._matches(text[:half]) or self._matches(text[-half:])

    def _matches(self, text: str) -> bool:
        return self.compiled.search(text.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=512)
def expression(source: str) -> Expression:
    """Compile a regular expression. Raises ValueError with the reason.

    The syntax is RE2's (https://github.com/google/re2/wiki/Syntax): Python's without back references and look-around.
    `^` and `$` match at the beginning and end of a line; `(?i)` in front ignores case.
    """
    if len(source) > MAX_CHARS:
        raise ValueError(f"has {len(source)} characters, more than the {MAX_CHARS} allowed")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return Expression(re2.compile(f"(?m){source}".encode(), options))
    except UnicodeEncodeError as error:
        raise ValueError("contains half of a character (a lone surrogate)") from error
    except re2.error as error:
        reason = error.args[0] if error.args else error
        why = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"is not a regular expression: {why}") from error


"""Maximum number of characters of a condition, and of a fact except an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Known facts of a task's environment; None is unknown. `version`: of the technology."""

    technology: str | None = None
    version: str | None = None
    tool: str | None = None
    error: str | None = None


NOTHING_KNOWN = Facts()
_NAMES = tuple(field.name for field in fields(Facts))


def read_facts(raw_facts: TaskFacts | None, **defaults: str | None) -> Facts:
    """Return facts, with `defaults` for missing ones. Raises InvalidInput, naming the fact."""
    if raw_facts is not None and not isinstance(raw_facts, Mapping):
        raise InvalidInput("facts", f"must be an object, not {kind_of(raw_facts)}")
    facts = dict(defaults)
    for name, value in (raw_facts or {}).items():
        if name not in _NAMES:
            raise unknown_name(name, FACT_NAMES, at="facts.")
        facts[name] = _fact_text(f"facts.{name}", value)
    return Facts(**facts)


def _fact_text(field: str, value: object) -> str:
    """Return a fact as text; `(2, 7)`, a version as programs have it, is 2.7. Raises InvalidInput."""
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, tuple | list) else ()
    if not numbers or any(isinstance(each, bool) or not isinstance(each, int) for each in numbers):
        raise InvalidInput(field, f"must be a text or a sequence of whole numbers, not {kind_of(value)}")
    return ".".join(map(str, numbers))


def check_conditions(conditions: object) -> None:
    """Raise InvalidInput, naming the field, unless the conditions can be evaluated."""
    if not isinstance(conditions, AppliesWhen):
        raise InvalidInput("applies_when", f"must be an object, not {kind_of(conditions)}")
    values = {name: value for name in _NAMES if (value := getattr(conditions, name)) is not None}
    if not values:
        raise InvalidInput("applies_when", f"must set at least one of {', '.join(_NAMES)}")
    for name, value in values.items():
        _check_condition(f"applies_when.{name}", value)
    if conditions.version is not None:
        if conditions.technology is None:
            raise InvalidInput("applies_when.version", "needs applies_when.technology, too")
        try:
            parse_range(conditions.version)
        except InvalidSpecifier as error:
            raise InvalidInput("applies_when.version", "is not a range of versions, such as >=3.10,<3.13") from error
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
    """Return whether a pattern may help: False only where all conditions of its entries are known not to hold.

    `learned_in`: the technologies of its entries. A task with one of them may also use another that a condition names:
    of Python and pydantic a task names one as its technology, and uses both. Also False where no condition is known to
    hold and all sentences on when to try, `whens`, only require other versions of the task's technology.
    """
    results = [holds(each, facts, learned_in) for each in conditions]
    if True in results:
        return True
    return (not results or None in results) and not (whens and all(_rules_out(each, facts) for each in whens))


def _rules_out(when_to_try: str, facts: Facts) -> bool:
    requirement = parse_requirement(when_to_try)
    return (
        requirement is not None
        and bool(_is_same(requirement.technology, facts.technology))
        and (_is_version_within(requirement.versions, facts.version) is False)
    )


def holds(conditions: AppliesWhen, facts: Facts, learned_in: Collection[str] = ()) -> bool | None:
    """Return whether all conditions hold: False if any does not, else None if any is unknown."""
    results = set(_evaluate(conditions, facts, learned_in))
    if False in results:
        return False
    return None if None in results else True


def _evaluate(conditions: AppliesWhen, facts: Facts, learned_in: Collection[str]) -> Iterator[bool | None]:
    same_technology = _is_same(conditions.technology, facts.technology)
    if same_technology is False and any(_is_same(each, facts.technology) for each in learned_in):
        same_technology = None
    if conditions.technology is not None:
        yield same_technology
    if conditions.version is not None:
        yield _is_version_within(conditions.version, facts.version) if same_technology else None
    if conditions.tool is not None:
        yield _is_same_tool(conditions.tool, facts.tool)
    if conditions.error is not None:
        yield _matches(conditions.error, facts.error)


def _is_same(wanted: str | None, fact: str | None) -> bool | None:
    if wanted is None or fact is None:
        return None
    return canonical_name(wanted) == canonical_name(fact)


def _is_same_tool(wanted: str, fact: str | None) -> bool | None:
    """Return whether a fact is the wanted tool, with its version (`vite@5.2`) or without.

    None where a version is wanted and the fact has none.
    """
    same = _is_same(wanted, fact)
    if same is not False or fact is None:
        return same
    if _is_same(wanted, strip_version(fact)):
        return True
    return None if _is_same(strip_version(wanted), fact) else False


def _is_version_within(wanted: str, fact: str | None) -> bool | None:
    """Return whether a version is in a range; None where either is invalid: an imported entry may hold any text."""
    return None if fact is None or len(fact) > MAX_CHARS else is_within(wanted, fact)


def _matches(wanted: str, fact: str | None) -> bool | None:
    if fact is None:
        return None
    try:
        return expression(wanted).matches(fact)
    except ValueError:
        return None


def _check_condition(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {kind_of(value)}")
    if not value.strip():
        raise InvalidInput(field, "is empty or blank")
    if len(value) > MAX_CHARS:
        raise InvalidInput(field, f"has {len(value)} characters, more than the {MAX_CHARS} allowed")
    if not value.isprintable():
        raise InvalidInput(field, "contains an invisible character")
