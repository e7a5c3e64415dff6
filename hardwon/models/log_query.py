"""Query plan of a question about logs: from parameters, a tool call or plain words; answered by SQL."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, TypeAdapter, ValidationError, WithJsonSchema

from hardwon.errors import InvalidInput
from hardwon.models.documents import Severity

MAX_LINES: Final = 50
"""Maximum line numbers of a plan."""
MAX_LISTED: Final = 500
"""Maximum lines of a list; the answer names the total."""
TOP: Final = 5
"""Number of groups in an answer, unless the plan sets `top`."""
_MAX_TERMS: Final = 10
_MAX_TERM_CHARS: Final = 200


class Group(StrEnum):
    """Field by which lines are grouped and counted."""

    SEVERITY = "severity"
    TEMPLATE = "template"
    PATH = "path"


class Order(StrEnum):
    """The end of a log at which a list begins."""

    FIRST = "first"
    LAST = "last"


def _moment(value: object) -> object:
    """Return the day, moment or time of day in an ISO 8601 text; other values unchanged."""
    if not isinstance(value, str):
        return value
    for form in (date, datetime, time):
        try:
            return form.fromisoformat(value.strip())
        except ValueError:
            continue
    raise ValueError("give a day, a moment or a time of day in ISO 8601, such as 2025-10-19 or 2025-10-19T14:32:15Z")


_FIELD: Final = re.compile(r"[A-Za-z_][\w.-]{0,59}")
_STATUS: Final = re.compile(r"[1-5](?:\d\d|xx)")
Moment = datetime | date | time
"""A day, a moment or a time of day; without a zone it is in the zone of the log."""
_IsoMoment = Annotated[
    Moment,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "description": "ISO 8601: 2025-10-19, 2025-10-19T14:32:15Z or 14:32"}),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Lines of logs to count or list. Fields that are not set do not filter.

    `documents`: names of files; all logs of the scope if empty. Lines have any of `severities`, any of `statuses` (of
    access logs: 404, 5xx), and contain all `terms` literally, in any case; with `any_term` any of them, each counted
    separately. `words` narrow the result if lines contain them; words that no line contains are dropped if there is a
    term or a status, and the answer says so. `since` and `until` are inclusive, a day in `until` to its end. `lines`
    are looked up by number, whatever else is set. `listed`: also list the lines, `top` of them from the end that
    `order` names. `group_by` counts by severity, template or path, `field` by what lines name: address, host, user,
    program, method, status, exception, thread, class, hour, minute, day, or any key of JSON or of key=value; the `top`
    most frequent.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    documents: tuple[str, ...] = ()
    severities: tuple[Severity, ...] = ()
    statuses: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    any_term: bool = False
    words: tuple[str, ...] = ()
    since: _IsoMoment | None = None
    until: _IsoMoment | None = None
    lines: tuple[int, ...] = ()
    listed: bool = False
    group_by: tuple[Group, ...] = ()
    field: str | None = None
    top: int | None = None
    order: Order = Order.FIRST

    def __post_init__(self) -> None:
        """Raise InvalidInput for values that no log can be queried with."""
        if not all(map(_STATUS.fullmatch, self.statuses)):
            raise InvalidInput("statuses", "give HTTP statuses such as 404, or classes of them such as 5xx")
        for field, texts in (("terms", self.terms), ("words", self.words)):
            if len(texts) > _MAX_TERMS or not all(each.strip() and len(each) <= _MAX_TERM_CHARS for each in texts):
                raise InvalidInput(field, f"give at most {_MAX_TERMS} texts of 1 to {_MAX_TERM_CHARS} characters")
        if len(self.lines) > MAX_LINES or not all(0 < each < 10**9 for each in self.lines):
            raise InvalidInput("lines", f"give at most {MAX_LINES} numbers from 1")
        if self.field is not None and not _FIELD.fullmatch(self.field):
            raise InvalidInput("field", "give the name of a field, such as address, user or a key of the lines")
        if self.top is not None and not 1 <= self.top <= MAX_LISTED:
            raise InvalidInput("top", f"give 1 to {MAX_LISTED}")
        if ends_before(self.since, self.until):
            raise InvalidInput("until", "is before since")

    @property
    def selects(self) -> bool:
        """Return whether it selects some lines of a log rather than all."""
        return bool(self.severities or self.statuses or self.terms or self.words or self.since or self.until)


def ends_before(since: Moment | None, until: Moment | None) -> bool:
    """Return whether a time range ends before it begins; False if that depends on the zone of the log."""
    if type(since) is not type(until) or since is None or until is None:
        return False
    if isinstance(since, datetime | time) and (since.tzinfo is None) != (getattr(until, "tzinfo", None) is None):
        return False
    return since > until  # type: ignore[operator]  # of one type


def instant(moment: Moment, zone: tzinfo = UTC, *, day: date | None = None, end: bool = False) -> datetime:
    """Return the instant at which a moment begins, in `zone`; with `end` the last instant of a day.

    `day`: the day of a time of day. A moment without a zone is in `zone`.
    """
    if isinstance(moment, time):
        return datetime.combine(day or date.min, moment, moment.tzinfo or zone).astimezone(zone)
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(zone)
    begins = datetime.combine(moment, time(), zone)
    return begins + timedelta(days=1) - datetime.resolution if end else begins


_QUERY: Final = TypeAdapter(LogQuery)


def log_query_schema() -> dict[str, Any]:
    """Return the JSON schema of a plan."""
    return _QUERY.json_schema()


def read_log_query(text: str) -> LogQuery:
    """Return the plan of a JSON object, ignoring null values. Raises InvalidInput."""
    try:
        fields = json.loads(text)
        if isinstance(fields, dict):
            fields = {name: value for name, value in fields.items() if value is not None}
        return _QUERY.validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidInput(".".join(map(str, first["loc"])) or "query", first["msg"]) from None
    except (ValueError, RecursionError):
        raise InvalidInput("query", "is not JSON") from None


def log_query_json(query: LogQuery) -> dict[str, Any]:
    """Return a plan as JSON, without unset fields."""
    fields: dict[str, Any] = _QUERY.dump_python(query, mode="json", exclude_defaults=True)
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """Filter of the lines that SQL selects: any of these severities, one status, all terms, a time range."""

    severities: tuple[Severity, ...] = ()
    status: str | None = None
    terms: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
