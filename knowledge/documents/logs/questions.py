"""Parse a question about logs into a query plan; pure.

A question with a condition that a plan cannot express, such as a comparison, a negation or a time in words, has no
plan: the ordinary search answers it, and nothing is counted without that condition.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta, timezone
from typing import Final

from hardwon.models.documents import Severity
from hardwon.models.log_query import MAX_LINES, MAX_LISTED, Group, LogQuery, Moment, Order, ends_before
from knowledge.documents.parsing.log_lines import ZONES, offset_of, severity_named

_NAME: Final = "~"
"""Placeholder for the name of a file in a question."""
_TERM: Final = "\0"
"""Placeholder for a literal term in a question."""

_LINES: Final = re.compile(
    r"(?i)\blines?\s+(?:number\s+|no\.?\s*|#\s*)?(\d{1,9})(?:\s*(?:-|to|through|until|and)\s*(\d{1,9}))?"
)
_SEVERITY: Final = re.compile(
    r"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|CRIT|CRITICAL|FATAL|ALERT|EMERG|PANIC)[sS]?\b"
    r"|(?i:\b(critical|fatal|warning|debug|info)s?[ -](?:entries|entry|lines?|messages?|logs?|events?|level)\b)"
    r"|(?i:\b(?:severity|level)\s*(?:=|:|is|of)?\s*(critical|fatal|error|warning|warn|info|debug)\b)"
)
_PLAIN: Final = re.compile(
    r"(?i)(?<![\w./-])(critical |fatal )?(error|warning)s?(?![\w/-]|\.\w)"
    r"(?!\s+(?:handl(?:ers?|ing)|codes?|pages?|middlewares?|queues?)\b)(?!(?<!s)\s+(?:messages?\s+)?\0)"
)
"""Errors and warnings, neither as part of a name nor as the kind of a quoted text or a code."""
_OF_PLAIN: Final[Mapping[str, tuple[Severity, ...]]] = {
    "error": (Severity.ERROR, Severity.CRITICAL),
    "warning": (Severity.WARN,),
}
_STATUS: Final = re.compile(
    r"(?i)(?<![\w./:-])(?:([1-5](?:\d\d|xx))(?:e?s)?(?![\w./:-]|\.\w)|(server|client)(?=[ -](?:side )?errors?\b))"
    r"(?:\s+(?:side\s+)?errors?\b)?"
)
_CLASSES: Final = {"server": "5xx", "client": "4xx"}
QUOTED: Final = re.compile(r"\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)|`([^`\n]{2,200})`")
_EXACT: Final = re.compile(
    r"(?<![\w/])/[\w./-]{2,}|(?<![\w./@:-])(?:(?=[A-Za-z_.:@/-]{0,60}\d)[\w.:@/-]{1,100}|[A-Z]{3,60}|[A-Za-z]{0,60}_\w{1,100}"
    r"|[A-Za-z]{0,30}[a-z][A-Z]\w{0,60}|[\w.-]{1,60}[@.:][\w.-]{1,60}\w)(?![\w@/-])"
)
"""A path, a number, an address, a word with a digit or in capitals, a name of code."""
_NUMBER: Final = re.compile(r"(?i)[\d.,/:]+(?:[ap]m|m?s|st|nd|rd|th)?")
_JOINED: Final = re.compile(r"(?i)\0(?:\s*(?:,|&|/|\band/or\b|\band\b|\bor\b)[\s,]*(?:from |on |to )?\0)+")

_KINDS: Final = (
    r"(?:(?:\w+\s)?(?:errors?|warnings?|messages?|lines?|entries|kinds?|types?|templates?|severit(?:y|ies)|levels?"
    r"|paths?|endpoints?|routes?|urls?|events?)|(?-i:[A-Z]{4,9}s?))\b"
)
_NAMES_OF_FIELDS: Final[Mapping[str, str]] = {
    "address": r"(?:(?:source|remote|client|ip|peer) )?(?:ip|address(?:e)?|client|visitor)",
    "host": r"host(?:name)?|server|node|machine",
    "user": r"user(?:name)?|account|login",
    "program": r"program|process(?:e)?|service|component|app|application|daemon|module",
    "method": r"(?:http )?method|verb",
    "status": r"(?:http )?(?:status(?:e)?|(?:status|response) code)",
    "exception": r"exception",
    "thread": r"thread",
    "class": r"class(?:e)?|logger",
    "hour": r"hour",
    "minute": r"minute",
    "day": r"day",
}
_KNOWN: Final = "|".join(rf"(?P<{name}>{words})" for name, words in _NAMES_OF_FIELDS.items())
_FIELD: Final = rf"(?:(?:{_KNOWN})s?(?![\w-])|(?!{_KINDS})(?P<key>[a-z_][\w-]*))"
_FIELD_KNOWN: Final = rf"(?:{_KNOWN})s?(?![\w-])"
_MOST_OF_IT: Final = r"(?=[^?!]*\b(?:most|top|highest|largest|biggest)\b)"
_GROUPED: Final = tuple(
    rf"(?i){each}"
    for each in (
        rf"\b(?:per|for (?:each|every)|of each|(?:group(?:ed)?|split|(?:broken |break)down) by(?: each)?) {_FIELD}",
        rf"\bby (?:each )?{_FIELD_KNOWN}",
        rf"\b(?:which|what) {_FIELD_KNOWN}{_MOST_OF_IT}",
        rf"\b(?:which|what) (?!is\b|are\b|was\b|were\b){_FIELD}{_MOST_OF_IT}(?=[^?!]*\bmost\b)",
        rf"\btop (?:(?P<top>\d{{1,3}}) )?{_FIELD}",
        rf"\b(?P<top>\d{{1,3}}) {_FIELD_KNOWN}{_MOST_OF_IT}",
        rf"(?:\b(?P<top>\d{{1,3}}) )?\bmost (?:active|frequent|common|noisy) {_FIELD_KNOWN}",
        rf"\b(?P<user>who)\b{_MOST_OF_IT}",
        rf"\b(?:distinct|different|unique) {_FIELD_KNOWN}",
        rf"\bwhich {_FIELD_KNOWN} (?:ha(?:s|ve|d)|with|got|shows?|showed|logs?|logged|reports?|reported)\b",
    )
)
"""How questions ask for counts by a field; a word that is no known field is a key of the lines."""
_RANKED: Final = (
    r"(?i)\b(?:with |ha(?:s|ve|d) )?(?:the )?(?:most|highest|largest|biggest|top)\b(?: number of)?|\b(?:most )?often\b"
)

_QUANTITY: Final = re.compile(
    r"(?i)\b(?:how many|how often|number of|counts?|counted|total|frequen\w+|distribution|breakdown|most common"
    r"|summar\w+|overview|statistics)\b"
)
_WHEN: Final = re.compile(
    r"(?i)\b(?:first|last|earliest|latest|newest|oldest|begin\w*|began|start\w*|end(?:ed|s)?|stop\w*|when|timeline)\b"
)
_LISTING: Final = re.compile(r"(?i)\b(?:(all|every|list|show)|each|give|which|what)\b")
"""Asks for lines; the words in the group do so in any question, the others only in one about logs."""
_SOUGHT: Final = re.compile(
    r"(?i)\b(?:what|which|any|all|every|list|show|give)\b[^?!]{0,60}\b(?:errors|warnings)\b"
    r"|\b(?:errors|warnings)\s+(?:(?:are|were|is|was|there|found)\s+){0,2}(?:in|from|of)\b"
)
_PATHS: Final = re.compile(r"(?i)\b(?:api\s+)?(?:endpoint|path|route|url)s?\b")
_LOG: Final = re.compile(
    r"(?i)(?<![\w.-])(?:logs?|entries)\b|\b(?:how many|number of|all) lines\b"
    r"|\b(?:endpoint|path|route|url|request)s?\s+(?:ha(?:ve|s|d)|with|show(?:s|ed)?|got)\s+(?:[\w-]+\s+){0,3}(?:error|warning)s?\b"
)
_TOP: Final = re.compile(
    rf"(?i)(?<!first and )(?<!first and the )\b(?!top\s+\d+\s+(?!{_KINDS}))"
    r"(first|last|final|earliest|latest|newest|oldest|most recent|top)"
    rf"(?:\s+(?:((?![1-5]\d\d\b)\d{{1,4}})\b|(\d{{1,4}})(?=\s+{_KINDS}))"
    r"|(?=\s+(?:log )?(?:line|entry|message|event|record)\b))"
)
_LAST: Final = frozenset({"last", "latest", "newest", "most recent", "final"})
_NAMED_LOG: Final = re.compile(
    r"(?i)\blogged (?=(?:in|to)\s+(?:the\s+)?(?:[\w-]+\s+){0,2}(?:~|logs?\b|files?\b))"
    r"|\b(?!the\b|a\b|all\b|of\b|in\b)[\w-]{1,60}\s+(?=logs?\b(?!\s+(?:entries|entry|lines?|messages?)\b))"
)

_UNREAD: Final = re.compile(
    # what documents tell, or what somebody is to do
    r"(?i)\b(?:can|could|may|might|should|would|must|why)\b|\bhow\s+(?:do|does|did|can|to|is|are|long|much)\b"
    r"|\b(?:fix|handl|avoid|prevent|solv)(?:e?s|ed?|ing)?\b|\bdo(?:es)?\b[^?!]*\b(?:mean|return|throw|raise|cause)s?\b"
    # comparisons
    r"|[<>\u2264\u2265]|\b(?:than|least|most|fewest|beyond|exceed\w*|above|below|within|between|around|about \d|nearly"
    r"|almost|roughly|approx\w*|circa|near|shortly|soon)\b|\b(?:up to|over|under) \d"
    r"|\b(?:or|and) (?:more|less|fewer|worse|higher|lower|later|earlier|over|under|up)\b"
    # negations
    r"|\bnot\b|n['\u2019]t\b|\bno\b|\bnon-\w|\b(?:none|never|neither|nor|except\w*|exclud\w*|besides|without|instead|other"
    r"|apart|aside|missing|lack\w*|same)\b"
    # times in words
    r"|\b(?:since|before|after|until|till|during|while|today|yesterday|tonight|tomorrow|recently|lately|overnight|noon"
    r"|midday|midnight|morning|afternoon|evening|night|weekend|ago|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:milli|micro)?second|minute|hour|day|week|month|quarter|year"
    r"|january|february|march|april|june|july|august|september|october|november|december)s?\b"
    r"|\bon (?:the )?(?:\d{1,2}(?:st|nd|rd|th)|(?-i:Mon|Tue|Wed|Thu|Fri|Sat|Sun))\b|[\d,]\s?[ap]\.?m\b"
    r"|o['\u2019]?clock|\b(?-i:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b|(?<![\w./])\d{1,4}[./]\d{1,2}[./]\d{2,4}(?![\w./])|\d{1,2}:\d\d"
    r"|\b(?:at|from|to) \d{1,2}(?![\w.:-])|\b(?:in|from|of) (?:19|20)\d\d\b"
    # what several lines come to together
    rf"|\b(?:per|by each|for each|of each|for every|group(?:ed)? by|down by|breakdown by) (?!{_KINDS})"
    rf"|\b(?:distinct|unique|different|various) (?!errors|warnings|kinds|types|messages)|\btop\b|\brates?\b(?! limit)"
    r"|\b(?:hourly|daily|weekly|monthly|average|mean|median|percent\w*|ratio|proportion|sum|throughput|p\d\d|who|whose"
    r"|(?:long|short|slow|fast|larg|small|high|low|bigg|busi|quiet|heavi)est)\b"
    r"|\b(?:how many|total) (?:[kmgt]i?b|(?:kilo|mega|giga)?bytes?|data|traffic|bandwidth|memory|time|ms)\b"
)
"""Conditions that no plan can express."""
_POLITE: Final = re.compile(r"(?i)^\s*(?:please\s+)?(?:can|could|would|will) you\s+")
_MOST: Final = re.compile(
    rf"(?i)\bmost (?:common|frequent|recent)\b(?=\s+(?:\d+\s+)?{_KINDS})|\b(?:the )?most (?:often|frequently)\b"
)
_MOST_OF_PATHS: Final = re.compile(r"(?i)\b(?:the )?most (?=errors|warnings|requests|lines|entries)")

_WORD: Final = re.compile(r"[^\W\d_][\w-]*(?:['\u2019]\w+)?")
_STOP: Final = re.compile(
    r"(?i)(?:a|an|the|of|in|on|at|to|by|as|is|are|was|were|be|been|being|did|do|does|has|have|had|and|or|and-or|with|for|from"
    r"|into|per|it|its|this|that|these|those|there|here|they|them|their|you|your|i|me|my|we|us|our|so|if|then|any|anything"
    r"|all|every|each|both|some|such|one|ones|which|what|when|where|whether|how|many|much|often|number|total|most|top|main|new"
    r"|list|show|give|get|tell|find|see|look\w*|please|want|need|like|know|first|last|final|earliest|latest|newest|oldest"
    r"|recent|common|frequen\w+|different|distinct|unique|various|serious|severe|worst|actual|overall|altogether|whole|entire"
    r"|full|exact\w*|precise\w*|together|combined|just|only|also|too|still|ever|already|now|far|yet|up|out|through|inside"
    r"|across|according|(?:count|contain|mention|hold|name|record|writ|report|return|receiv|exist|happen|occur|appear"
    r"|belong|relat|caus|summar|detail)\w*|overview|distribution|breakdown|statistics|information|content|said|say"
    r"|logs?|logfiles?|files?|logging|lines?|entries|entry|records?|rows?|messages?|events?|requests?|responses?|errors?"
    r"|warnings?|status(?:es)?|codes?|hits?|calls?|cases?|occasions?|severit(?:y|ies)|levels?|kinds?|types?|sorts?|templates?"
    r"|time(?:s|stamps?|line)?|start(?:s|ed)?|beg[aiu]n|begins|stop(?:s|ped)?|end(?:s|ed)?|come|comes|came|go|goes|went|gone"
    r"|made|make|makes|sen[dt]s?|used?|seen|visible|present|available|encountered|thrown|raised|generated|emitted|produced|listed|displayed"
    r"|printed|found|wrong|can|api|can|will|\w)"
)
"""Words that do not select lines."""
_MAX_WORDS: Final = 5

_CLOCK: Final = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
_ZONE: Final = rf"(?-i:{'|'.join(sorted(ZONES, key=len, reverse=True))})(?!\w)|\+\d\d:?\d\d|-\d{{4}}(?!\d)"


def _at(number: int, zone: str = _ZONE) -> str:
    return rf"(?P<clock{number}>{_CLOCK})(?:\s?(?P<zone{number}>{zone}))?(?!\w|:\d)"


_MOMENT: Final = re.compile(
    r"(?i)(?:\b(?P<lead>since|after|from|between|within|before|until|till|to|through|and|on|at|in)\s+(?:on\s+|at\s+)?"
    rf"|(?P<dash>[-\u2013])\s*)?(?<![\w.:/])(?:(?P<day>\d{{4}}-\d\d-\d\d)"
    rf"(?:T{_at(1, _ZONE + '|-[0-9]{2}:[0-9]{2}')}|,?\s+(?:at\s+)?{_at(2)}|(?![\w-]|[.:]\w))|{_at(3)})"
)
_RANGE: Final = frozenset({"from", "between", "within"})
_LOWER: Final = frozenset({"since", "after", "from"})
_UPPER: Final = frozenset({"before", "until", "till", "to", "through", "-", "\u2013"})


def may_ask_logs(question: str) -> bool:
    """Return whether a question has any word that a question about logs may have: only then it is worth parsing."""
    cues = (_QUANTITY, _WHEN, _LINES, _SOUGHT, _MOMENT, _LOG, _PATHS, _SEVERITY, _EXACT, QUOTED)
    return bool(
        any(_listing_words(question))
        or any(each.search(question) for each in cues)
        or any(re.search(each, question) for each in _GROUPED)
    )


def addresses_logs(question: str) -> bool:
    """Return whether a question is explicitly about logs: it names logs, entries or a severity in capitals."""
    return _LOG.search(question) is not None or _SEVERITY.search(question) is not None


def parse_log_question(question: str, names: Collection[str] = (), *, addressed: bool = True) -> LogQuery | None:
    """Return the plan of a question about logs, None for other questions, or if a condition cannot be expressed.

    `names`: the names of known files. Unless a log is `addressed`, only counts, times and lists of severities, statuses
    and texts have a plan.
    """
    rest = _POLITE.sub("", question)
    documents = [name for name in sorted(names, key=len, reverse=True) if names_file(rest, name)]
    for name in documents:
        rest = _name_in(name).sub(_NAME, rest)
    if lines := line_numbers_in(QUOTED.sub(" ", rest)):
        return LogQuery(documents=tuple(documents), lines=lines)
    quoted = [str(each[1] or each[2] or each[3]) for each in QUOTED.finditer(rest)]
    try:
        since, until, rest = times_in(QUOTED.sub(_TERM, rest))
    except ValueError:
        return None
    query = LogQuery(documents=tuple(documents), since=since, until=until)
    return _Reading(rest=rest, quoted=quoted).plan(query, addressed=addressed or bool(documents))


@dataclass(slots=True)
class _Reading:
    """State of the parser: `rest` is the unread part of the question."""

    rest: str
    quoted: list[str]

    def plan(self, query: LogQuery, *, addressed: bool) -> LogQuery | None:
        question = self.rest
        field, highest = self._take_field()
        ends = [] if field else self._take(_TOP)
        statuses = [_CLASSES.get((each[2] or "").lower(), each[1] or "").lower() for each in self._take(_STATUS)]
        by_path = bool(self._take(_PATHS))
        counted = bool(field) or bool(_QUANTITY.search(question)) or (by_path and bool(self._take(_MOST_OF_PATHS)))
        self._take(_MOST)
        terms = [*self.quoted, *self._take_terms(numbers=False)]
        if _UNREAD.search(_SEVERITY.sub(" ", self.rest)):
            return None
        terms += self._take_terms(numbers=True)
        any_term = any(each[0].count(_TERM) == len(terms) > 1 for each in _JOINED.finditer(self.rest))
        severities = list(severities_in(self.rest))
        self._take(_SEVERITY)
        for each in (plain := self._take(_PLAIN)):
            severities += [Severity.CRITICAL] if each[1] else _OF_PLAIN[each[2].lower()]
        when, named = bool(_WHEN.search(question)), bool(severities or statuses or terms)
        sought = bool(plain and _SOUGHT.search(question))
        listing = _listing_words(question)
        which = any(listing) or (addressed and not plain and not when and bool(listing))
        timed = not when and (query.since is not None or query.until is not None)
        listed = bool(ends) or (not counted and bool(timed or (named and which)))
        if not (counted or when or sought or listed) or not (
            addressed or (named and (counted or when or listed)) or (field and len(self._words()) > 1)
        ):
            return None
        groups: tuple[Group, ...] = (Group.SEVERITY,) if len(severities) > 1 and not when else ()
        if by_path and not named:
            groups = (Group.PATH,)
        elif plain and (counted or sought):
            groups = (Group.SEVERITY, Group.TEMPLATE, Group.PATH)
        return replace(
            query,
            severities=tuple(dict.fromkeys(severities)),
            statuses=tuple(dict.fromkeys(statuses)),
            terms=tuple(dict.fromkeys(terms)),
            any_term=any_term,
            words=self._words(),
            listed=listed and field is None,
            group_by=() if listed or field else groups,
            field=field,
            top=max(1, min(int(ends[0][2] or ends[0][3] or 1), MAX_LISTED)) if ends else highest,
            order=Order.LAST if ends and ends[0][1].lower() in _LAST else Order.FIRST,
        )

    def _take_field(self) -> tuple[str | None, int | None]:
        """Return the field by which a question counts, and how many of its values it asks for; remove both."""
        for pattern in _GROUPED:
            found = re.search(pattern, self.rest)
            if found is None:
                continue
            named = {name: text for name, text in found.groupdict().items() if text}
            top = int(named.pop("top", 0)) or None
            name, text = next(iter(named.items()))
            self.rest = re.sub(_RANKED, " ", f"{self.rest[: found.start()]} , {self.rest[found.end() :]}")
            return (_singular(text.lower()) if name == "key" else name), min(top, MAX_LISTED) if top else None
        return None, None

    def _take(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """Return the matches in the rest, and remove them from it."""
        found = list(pattern.finditer(self.rest))
        self.rest = pattern.sub(" ", self.rest)
        return found

    def _take_terms(self, *, numbers: bool) -> list[str]:
        """Return the literal terms: paths, codes, addresses and names, or the numbers."""
        found: list[str] = []

        def take(match: re.Match[str]) -> str:
            named = severity_named(match[0].removesuffix("S")) or severity_named(match[0])
            if named or numbers != bool(_NUMBER.fullmatch(match[0])):
                return match[0]
            found.append(match[0].rstrip("./:"))
            return _TERM

        self.rest = _EXACT.sub(take, self.rest)
        return found

    def _words(self) -> tuple[str, ...]:
        """Return the remaining words that select lines, in the singular."""
        text = _NAMED_LOG.sub(" ", _PATHS.sub(" ", self.rest))
        words = (re.sub(r"['\u2019]s?\Z", "", each) for each in _WORD.findall(text))
        selecting = (_singular(each) for each in words if not _STOP.fullmatch(each) and severity_named(each) is None)
        return tuple(dict.fromkeys(selecting))[:_MAX_WORDS]


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    return re.sub(r"(?<=ss|sh|ch)es\Z|(?<=\w\w[^\Ws])s\Z", "", word)


def _listing_words(question: str) -> list[str]:
    """Return the words that ask for lines; empty for each that does so only in a question about logs."""
    return _LISTING.findall(question)


def identifiers_in(question: str) -> list[str]:
    """Return the identifiers that a question names, such as the number of an order."""
    found = [each[0].rstrip("./:") for each in _EXACT.finditer(question)]
    return [each for each in dict.fromkeys(found) if re.search(r"\d\d|_|-", each) and re.search(r"\d", each)]


def severities_in(question: str) -> Iterator[Severity]:
    """Yield the severities named in capitals, or in lower case next to words such as "entries"."""
    for match in _SEVERITY.finditer(question):
        if severity := severity_named(next(filter(None, match.groups()))):
            yield severity


def line_numbers_in(question: str) -> tuple[int, ...]:
    """Return the line numbers that a question names."""
    found: set[int] = set()
    for match in _LINES.finditer(question):
        first, last = int(match[1]), int(match[2] or match[1])
        found.update(range(first, min(max(first, last), first + MAX_LINES) + 1))
    return tuple(sorted(found))[:MAX_LINES]


def names_file(question: str, *names: str) -> bool:
    """Return whether a question contains one of the names of a file; names without an extension are ignored."""
    return any("." in name.strip(".") and _name_in(name).search(question) for name in names)


def _name_in(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?i)(?<![\w-]){re.escape(name)}(?![\w-])")


def times_in(question: str) -> tuple[Moment | None, Moment | None, str]:
    """Return the time range that a question names, and the question with its times replaced by commas.

    Raises ValueError for times that are not one range, and for days and hours that do not exist.
    """
    found = list(_MOMENT.finditer(question))
    rest = _MOMENT.sub(" , ", question)
    if found and re.search(r",\s+[A-Z]{1,4}T\b", rest):
        raise ValueError("the zone may be one of several")
    days = {each["day"] for each in found if each["day"]}
    if len(days) == 1 and any(_part(each, "clock") for each in found):
        found = [each for each in found if _part(each, "clock")]
    zones = {zone for each in found if (zone := _part(each, "zone"))}
    shared = (days.pop() if len(days) == 1 else None, zones.pop() if len(zones) == 1 else None)
    match [_span(each, *shared) for each in found]:
        case []:
            return None, None, rest
        case [(lead, begins, ends)] if lead not in {"between", "within"}:
            return None if lead in _UPPER else begins, None if lead in _LOWER else ends, rest
        case [(first, begins, _), (second, _, ends)] if second in _UPPER or (second == "and" and first in _RANGE):
            alike = isinstance(begins, time) == isinstance(ends, time)
            if first not in _UPPER and alike and not ends_before(begins, ends):
                return begins, ends, rest
    raise ValueError("the times are not one time")


def _part(match: re.Match[str], name: str) -> str | None:
    return match[f"{name}1"] or match[f"{name}2"] or match[f"{name}3"]


def _span(match: re.Match[str], day: str | None, zone: str | None) -> tuple[str, Moment, Moment]:
    """Return the word before a moment, the moment, and the last instant that it includes after this word.

    `day`, `zone`: defaults of the question, if the moment has none.
    """
    lead = (match["lead"] or match["dash"] or "").lower()
    clock, zone, day = _part(match, "clock"), _part(match, "zone") or zone, match["day"] or day
    on = date.fromisoformat(day) if day else None
    if on is not None and not MINYEAR < on.year < MAXYEAR:
        raise ValueError("there is no such year")
    if clock is None and on is not None:
        return lead, on, datetime.combine(on, time()) - datetime.resolution if lead == "before" else on
    clock = str(clock)
    at = time.fromisoformat(f"0{clock}" if clock[1] == ":" else clock)
    begins = datetime.combine(on or date(2000, 1, 2), at, timezone(offset_of(zone)) if zone else None)
    ends = begins
    if lead == "before":
        ends -= datetime.resolution
    elif lead not in _UPPER | {"and"} and "." not in clock:
        ends += timedelta(minutes=1 if len(clock) < 6 else 0, seconds=len(clock) >= 6) - datetime.resolution
    if on is None and ends.date() != begins.date():
        raise ValueError("the time ends on the day before")
    return (lead, begins, ends) if on else (lead, begins.timetz(), ends.timetz())
