"""The query plan of a question about logs: from parameters, a model's tool call or plain words; answered by SQL."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, TypeAdapter, ValidationError, WithJsonSchema

from knowledge.documents.models import Severity
from knowledge.errors import InvalidInput

MOST_LINES: Final = 50
"""Line numbers that one plan may look up."""
MOST_LISTED: Final = 500
"""Lines of a list; the answer says of how many."""
TOP: Final = 5
"""Groups that are told unless the plan says how many."""
_MOST_TERMS: Final = 10
_LONGEST_TERM: Final = 200


class Group(StrEnum):
    """What lines are counted by."""

    SEVERITY = "severity"
    TEMPLATE = "template"
    PATH = "path"


class Order(StrEnum):
    """The end of a log at which a list begins."""

    FIRST = "first"
    LAST = "last"


def _moment(told: object) -> object:
    """Return the day, moment or time of day of an ISO 8601 text; anything else as it is."""
    if not isinstance(told, str):
        return told
    for form in (date, datetime, time):
        try:
            return form.fromisoformat(told.strip())
        except ValueError:
            continue
    raise ValueError("give a day, a moment or a time of day in ISO 8601, such as 2025-10-19 or 2025-10-19T14:32:15Z")


_STATUS: Final = re.compile(r"[1-5](?:\d\d|xx)")
Moment = datetime | date | time
"""A day, a moment or a time of day; without a zone it is one of the zone that the log prints."""
_Told = Annotated[
    Moment,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "description": "ISO 8601: 2025-10-19, 2025-10-19T14:32:15Z or 14:32"}),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which lines of which logs are counted or listed. Fields that are not set restrict nothing.

    `documents`: names of files, all logs of the scope where none is given. Lines are of any of `severities`, of any of
    `statuses` (of access logs: 404, 5xx), and hold each of `terms` as it stands, in whatever case, with `any_term` any
    of them, each counted apart. `words` narrow further where lines hold them; those that no line holds are dropped
    beside a term or a status, and the answer says so. `since` and `until` belong to the time; a day in `until` does to
    its end. `lines` are looked up by number, whatever else is set. `listed`: list the lines too, `top` of them from the
    end that `order` names. `group_by` counts by severity, template or path, the `top` most frequent.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    documents: tuple[str, ...] = ()
    severities: tuple[Severity, ...] = ()
    statuses: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    any_term: bool = False
    words: tuple[str, ...] = ()
    since: _Told | None = None
    until: _Told | None = None
    lines: tuple[int, ...] = ()
    listed: bool = False
    group_by: tuple[Group, ...] = ()
    top: int | None = None
    order: Order = Order.FIRST

    def __post_init__(self) -> None:
        """Raise InvalidInput for what no log can be asked."""
        if not all(map(_STATUS.fullmatch, self.statuses)):
            raise InvalidInput("statuses", "give HTTP statuses such as 404, or classes of them such as 5xx")
        for field, told in (("terms", self.terms), ("words", self.words)):
            if len(told) > _MOST_TERMS or not all(each.strip() and len(each) <= _LONGEST_TERM for each in told):
                raise InvalidInput(field, f"give at most {_MOST_TERMS} texts of 1 to {_LONGEST_TERM} characters")
        if len(self.lines) > MOST_LINES or not all(0 < each < 10**9 for each in self.lines):
            raise InvalidInput("lines", f"give at most {MOST_LINES} numbers from 1")
        if self.top is not None and not 1 <= self.top <= MOST_LISTED:
            raise InvalidInput("top", f"give 1 to {MOST_LISTED}")
        if ends_before(self.since, self.until):
            raise InvalidInput("until", "is before since")

    @property
    def selects(self) -> bool:
        """Return whether it asks for some lines of a log and not for all of them."""
        return bool(self.severities or self.statuses or self.terms or self.words or self.since or self.until)


def ends_before(since: Moment | None, until: Moment | None) -> bool:
    """Return whether a time ends before it begins; False where that depends on the log."""
    if type(since) is not type(until) or since is None or until is None:
        return False
    if isinstance(since, datetime | time) and (since.tzinfo is None) != (getattr(until, "tzinfo", None) is None):
        return False
    return since > until  # type: ignore[operator]  # of one type


def instant(moment: Moment, zone: tzinfo = UTC, *, day: date | None = None, end: bool = False) -> datetime:
    """Return the instant at which a moment begins, told in a zone; with `end` the last one of a day.

    `day`: the day of a time of day. A moment without a zone of its own is one of `zone`.
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


def read_log_query(told: str) -> LogQuery:
    """Return the plan of a JSON object, in which null sets nothing. Raises InvalidInput."""
    try:
        fields = json.loads(told)
        if isinstance(fields, dict):
            fields = {name: value for name, value in fields.items() if value is not None}
        return _QUERY.validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidInput(".".join(map(str, first["loc"])) or "query", first["msg"]) from None
    except (ValueError, RecursionError):
        raise InvalidInput("query", "is no JSON") from None


def log_query_json(query: LogQuery) -> dict[str, Any]:
    """Return a plan as JSON, without what it does not set."""
    told: dict[str, Any] = _QUERY.dump_python(query, mode="json", exclude_defaults=True)
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """The lines that SQL selects: of any of these severities, of one status, with each term, within a time."""

    severities: tuple[Severity, ...] = ()
    status: str | None = None
    terms: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
