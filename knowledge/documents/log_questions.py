"""What a question asks of logs: how many, when, which, of which severities, with which words; pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.documents.asked_times import names_a_time
from knowledge.documents.asking_words import wanted
from knowledge.documents.log_lines import severity_named
from knowledge.documents.models import Document, Severity, Wanted
from knowledge.documents.plain_words import PlainWords, Spoken, in_plain_words, says_failed, spoken
from knowledge.documents.statuses import names_a_status
from knowledge.documents.uncountable import gathers

QUANTITY = re.compile(
    r"(?i)\b(how many|how often|number of|count(?:s|ed)?|total|frequen\w+|distribution|breakdown"
    r"|most (?:common|frequent)|summar\w+|overview|statistics)\b"
)
TIMES = re.compile(r"(?i)\b(first|last|earliest|latest|begin\w*|began|start\w*|end(?:ed|s)?|stop\w*|when|timeline)\b")
LISTING = re.compile(r"(?i)\b(all|every|each|list|show|which|what)\b")
ALL = re.compile(r"(?i)\b(all|every|each|list|show)\b")
ENTRIES = re.compile(
    r"(?i)\b(entries|entry|lines?|messages?|logs?|events?|errors?|warnings?|timestamps?|occurrences?)\b"
)
_MANY: Final = (
    r"(?:errors|warnings|lines|entries|messages|events|requests|responses|occurrences|records|logs"
    r"|(?-i:[A-Z]{4,9}s?))\b"
)
_ENDMOST = re.compile(
    r"(?i)\b(?:first|last|earliest|latest|newest|oldest|most recent|top)\s+"
    rf"(?:(?![1-5]\d\d\b)\d+\b|\d+(?=\s+(?:(?!(?:in|of|from|on|at|to)\b)\w+\s+)?{_MANY}))|\b\d+\s+(?=(?:first|last|earliest|latest|newest|oldest|most)\b)"
)
"""How many of the ends are asked for; the first 502 is one of status 502."""
ONE_END = re.compile(
    r"(?i)\b(?:first|last|final|earliest|latest|newest|oldest)(?: and (?:the )?last)? "
    r"(?:log )?(?:line|entry|message|event|record)\b"
)
"""Asks for the line where a log begins or ends."""
SOME_OF_AN_END = re.compile(
    r"(?i)\b(first|last|final|earliest|latest|newest|oldest|most recent) (\d{1,4}) "
    r"(?:log )?(?:lines|entries|messages|events|records)\b"
)
LAST: Final = frozenset({"last", "final", "latest", "newest", "most recent"})
_PLACES = re.compile(
    r"(?i)\b(?:api\s{1,9})?(?:endpoint|path|route|url)s?\b|\b[\w-]{1,60}\s{1,9}(?=logs?\b(?!\s{1,9}(?:entries|entry|lines?|messages?)\b))"
)
"""Where things are counted, and a log by its name: "the application log"."""
_GRADE: Final = r"(?:(?-i:[A-Z]{4,8}s?)|critical|fatal|warnings?|info|debug|errors?)"
BOTH = re.compile(
    rf"(?i)\b{_GRADE}(?:\s{{1,9}}(?:entries|entry|lines?|messages?|events?))?\s{{0,9}}(?:,|&|\band\b|\bor\b)"
    rf"\s{{0,9}}(?:(?:all|any|the|how|many)\s{{1,9}}){{0,3}}{_GRADE}\b"
)
"""Names severities together, so that a plain one is meant as the one in capitals is."""
_JOINED = re.compile(
    r"[\s\"'`]{0,9}(?:\b(?:errors?|requests?|responses?|statuses|lines?|entries)\s{1,9})?"
    r"(?:,|&|/|\b(?:and/or|and|or|vs|versus)\b)[\s,]{0,9}"
    r"(?:(?:also|and|or|how|many|much|often|on|in|at|to|of|from|for|with|the)\s{1,9}){0,5}[\"'`]?"
)
"""Stands between terms that are told one by one."""
_REFERS = re.compile(r"(?i)\b(they|them|their|it|its|th(?:is|at|[eo]se)|ones?|such|both|same)\b")
_TERM = re.compile(
    r"\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)|`([^`\n]{2,200})`|(?<![\w/])(/[\w./-]{2,})|\b([A-Z]{2,}[-_]?\d{2,}\w*)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of each log: `question` is without its times, `terms` are to be held as they stand.

    `beside`: other words that say of what lines. `meant`: it is a log that is asked; `addressed`: the question says so.
    """

    question: str
    terms: Sequence[str]
    plain: Sequence[PlainWords]
    counted: bool
    listing: bool
    meant: bool
    addressed: bool
    beside: tuple[str, ...] = ()
    access: bool = False

    @property
    def only_when(self) -> bool:
        """Return whether nothing but when something was is asked, which a document may answer as well."""
        return not (self.listing or self.plain or QUANTITY.search(self.question))


def words_beside(question: str, log: Document, terms: Collection[str]) -> Spoken:
    """Return what a question says of the lines that it counts beside what it names exactly."""
    told = _PLACES.sub(" ", TIMES.sub(" ", QUANTITY.sub(" ", _ENDMOST.sub(" ", question))))
    for term in terms:
        told = told.replace(term, " ")
    parts = {part for name in (log.name, log.uri) for part in (name.lower(), *re.split(r"[\W_]+", name.lower()))}
    return spoken(told, parts)


def words_of_errors(question: str, terms: Collection[str], plain: Sequence[PlainWords]) -> Spoken:
    """Return what a question says of the errors that it asks for beside what it names exactly, and that some failed."""
    if not terms:
        return Spoken()
    said = [word for each in plain if each.sought for word in each.topic if severity_named(word) is None]
    if LISTING.search(question) or QUANTITY.search(question):
        said += filter(says_failed, re.findall(r"\w+", question))
    return Spoken(words=tuple(word for word in dict.fromkeys(said) if not any(word in term for term in terms)))


def severities_asked(
    wish: Wanted, plain: Sequence[PlainWords], counts: Mapping[str, int]
) -> tuple[list[Severity], list[str]]:
    """Return the severities that are asked for by name or in plain words, those in a log whose lines name any.

    Beside them words such as fatal, where they are none of its severities.
    """
    named, said = set(wish.severities), list[str]()
    for each in plain if any(map(counts.get, Severity)) else ():
        severities, topic = each.in_a_log(counts)
        named.update(severities)
        said += [word for word in topic if severity_named(word)]
    return sorted(named, key=list(Severity).index), said


def alternatives(terms: Sequence[str], question: str) -> list[tuple[str, ...]]:
    """Return which terms belong together, as of "errors on /api/pay and /api/cart with ERR-4521" the code to each."""
    groups: list[list[str]] = []
    end = 0
    for start, stop, term in _placed(terms, question):
        if groups and _JOINED.fullmatch(question, end, start):
            groups[-1].append(term)
        else:
            groups.append([term])
        end = stop
    return list(itertools.product(*groups))


def _placed(terms: Sequence[str], question: str) -> list[tuple[int, int, str]]:
    """Return where terms stand in a question first, in its order."""
    found: dict[str, tuple[int, int, str]] = {}
    for match in _TERM.finditer(question):
        found.setdefault(_term(match), (match.start(), match.end(), _term(match)))
    rest = _TERM.sub(lambda match: " " * len(match[0]), question)
    for term in terms:
        if term not in found:
            place = re.search(rf"(?i)(?<!\w){re.escape(term)}(?:e?s\b|(?!\w))", rest)
            start, end = place.span() if place else (len(question), len(question))
            found[term] = (start, end, term)
    return sorted(place for term, place in found.items() if term in terms)


def plainly_asked(plain: Sequence[PlainWords], question: str) -> list[PlainWords]:
    """Return what a question asks of the errors or warnings of a log, and not of what such are like."""
    counted = QUANTITY.search(question) or TIMES.search(question)
    return [each for each in plain if each.sought or counted]


def asked_of_logs(own: str, searched: str) -> str:
    """Return which words to take of a follow-up: the user's own, unless what is meant by them stands in the others.

    "When did they start?" is about the errors that the conversation spoke of; "How many CRITICAL entries are there?"
    stands by itself.
    """
    meant = bool(wanted(own)) or _TERM.search(own) is not None or bool(in_plain_words(own))
    return own if meant or _REFERS.search(own) is None else searched


def is_cued(question: str) -> bool:
    """Return whether a question asks for something that can be counted or looked up in a log."""
    patterns = (QUANTITY, TIMES, _TERM)
    return (
        bool(wanted(question))
        or names_a_time(question)
        or gathers(question)
        or bool(LISTING.search(question) and names_a_status(question))
        or any(pattern.search(question) for pattern in patterns)
        or bool(plainly_asked(in_plain_words(question), question))
    )


def terms_of(question: str, documents: Sequence[Document]) -> list[str]:
    """Return the exact words a question asks for: quoted ones, paths, codes. Names of files of the scope are none."""
    names = names_of(documents)
    found = map(_term, _TERM.finditer(question))
    return [term for term in dict.fromkeys(found) if term and term.lower() not in names][:5]


def _term(match: re.Match[str]) -> str:
    return str(next(filter(None, match.groups()))).rstrip("./")


def names_of(documents: Sequence[Document]) -> set[str]:
    """Return what documents are called, in small letters: by their names and by their addresses."""
    return {each.name.lower() for each in documents} | {each.uri.lower() for each in documents}
