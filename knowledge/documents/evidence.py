"""Exact facts of logs: counts, first and last times, single lines, all entries of a severity. Counted, never guessed.

What is found comes as computed passages that a model quotes and the verifier checks like any other text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from knowledge.documents.access import Scope
from knowledge.documents.asking_words import tells_no_day, wanted
from knowledge.documents.log_lines import severity_named
from knowledge.documents.models import (
    LISTED,
    Document,
    DocumentId,
    DocumentType,
    Finding,
    LogLine,
    Passage,
    PassageKind,
    Severity,
    Wanted,
)
from knowledge.documents.plain_words import (
    PlainWords,
    Spoken,
    in_plain_words,
    says_failed,
    speaks_of_logs,
    spoken,
)
from knowledge.documents.ports import EvidenceSource, LogStore, PassageStore
from knowledge.documents.texts import computed_id
from knowledge.documents.uncountable import is_uncountable

MOST_LISTED: Final = 500
"""Lines that a listing holds; the passage says where there are more."""
NEIGHBOURS: Final = 2
_TEMPLATES: Final = 5
_MOST_LOGS: Final = 50
_MOST_NUMBERED: Final = 100
"""Lines that are looked up by their numbers, of all documents together."""

_QUANTITY = re.compile(
    r"(?i)\b(how many|how often|number of|count(?:s|ed)?|total|frequen\w+|distribution|breakdown"
    r"|most (?:common|frequent)|summar\w+|overview|statistics)\b"
)
_TIMES = re.compile(r"(?i)\b(first|last|earliest|latest|begin\w*|began|start\w*|end(?:ed|s)?|stop\w*|when|timeline)\b")
_LISTING = re.compile(r"(?i)\b(all|every|each|list|show|which|what)\b")
_ALL = re.compile(r"(?i)\b(all|every|each|list|show)\b")
_ENTRIES = re.compile(
    r"(?i)\b(entries|entry|lines?|messages?|logs?|events?|errors?|warnings?|timestamps?|occurrences?)\b"
)
_ENDMOST = re.compile(r"(?i)\b(?:first|last|earliest|latest)\s+\d+\b")
_GRADE: Final = r"(?:(?-i:[A-Z]{4,8}s?)|critical|fatal|warnings?|info|debug|errors?)"
_BOTH = re.compile(
    rf"(?i)\b{_GRADE}(?:\s{{1,9}}(?:entries|entry|lines?|messages?|events?))?\s{{0,9}}(?:,|&|\band\b|\bor\b)"
    rf"\s{{0,9}}(?:(?:all|any|the|how|many)\s{{1,9}}){{0,3}}{_GRADE}\b"
)
"""Names severities together, so that a plain one is meant as the one in capitals is."""
_JOINED = re.compile(
    r"[\s\"'`]{0,9}(?:,|&|\b(?:and|or|vs|versus)\b)[\s,]{0,9}"
    r"(?:(?:also|and|or|how|many|much|often|on|in|at|to|of|from|for|with|the)\s{1,9}){0,5}[\"'`]?"
)
"""Stands between terms that are told one by one."""
_REFERS = re.compile(r"(?i)\b(they|them|their|it|its|th(?:is|at|[eo]se)|ones?|such|both|same)\b")
_TERM = re.compile(
    r"\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)|`([^`\n]{2,200})`|(?<![\w/])(/[\w./-]{2,})|\b([A-Z]{2,}[-_]?\d{2,}\w*)\b"
)

_BAD: Final = (Severity.ERROR, Severity.CRITICAL)
_UNCOUNTABLE: Final = (
    "this cannot be counted. Lines are counted by what they hold, their severity and their moments; not by how large a"
    " number in them is, by what they lack, or back from now."
)
_STATUS = re.compile(r"\A[1-5]\d\d\Z")
_PLACED: Final = '" \\g<0> '
"""Where access logs have the status: behind the quoted request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence(EvidenceSource):
    """Facts of the logs of one workspace, from what Postgres holds of each line."""

    logs: LogStore
    passages: PassageStore

    async def facts(self, question: str, scope: Scope, documents: frozenset[DocumentId] | None = None) -> Finding:
        """Return computed passages for what a question asks of logs; none where it asks nothing of the kind."""
        if not _cued(question):
            return Finding()
        visible = await self.passages.documents(scope)
        logs = [each for each in visible if each.document_type is DocumentType.LOG]
        logs = [each for each in logs if documents is None or each.document_id in documents]
        wish = wanted(question, visible)
        if wish.document_ids:
            logs = [each for each in logs if each.document_id in wish.document_ids]
        numbered = [each for each in visible if each.document_id in wish.document_ids] if wish.document_ids else logs
        terms = _terms(question, visible)
        plain = in_plain_words(question, _names(visible))
        among = [each for each in visible if documents is None or each.document_id in documents]
        telling = [each for each in among if each.document_type is not DocumentType.CONFIG]  # settings have no errors
        meant = bool(wish.document_ids) or speaks_of_logs(question) or len(logs) == len(telling)
        found: list[Passage] = []
        lined = numbered[: max(1, _MOST_NUMBERED // len(wish.lines))] if wish.lines else ()
        for log in lined:
            found += await self._lines(log, scope, wish.lines)
        listing = _LISTING.search(question) and _ENTRIES.search(question)
        uncountable = is_uncountable(question)
        untold = meant and bool(listing or _QUANTITY.search(question) or _TIMES.search(question))
        for log in logs[:_MOST_LOGS] if not wish.lines else ():
            if uncountable:
                found += [_passage(log, f"{log.name}: {_UNCOUNTABLE}", (), (), section="counted")] if untold else []
                continue
            within = await self._on_its_day(log, scope, wish, question)
            if within is None:
                found += [await self._days(log, scope)] if meant else []
                continue
            told: list[Passage] = []
            for each in _asked(plain, question) if not terms else ():
                told += await self._in_plain_words(log, scope, within, each, question, meant=meant)
            found += told or await self._of_log(
                log, scope, within, terms, question, plain=plain, listing=bool(listing), meant=meant
            )
        capped = [note for log in logs for note in log.notes] if found else []
        more = (
            [f"Only the first {_MOST_LOGS} of {len(logs)} logs were counted."]
            if found and len(logs) > _MOST_LOGS
            else []
        )
        if wish.lines and len(lined) < len(numbered):
            more = [f"Lines were looked up in the first {len(lined)} of {len(numbered)} documents: name the one meant."]
        return Finding(passages=tuple(found), searched=(question,) if found else (), notes=(*capped, *more))

    async def _lines(self, document: Document, scope: Scope, numbers: Sequence[int]) -> list[Passage]:
        if document.document_type is not DocumentType.LOG:
            return await self._text_lines(document, scope, numbers)
        passages = []
        for number in numbers:
            around = await self.logs.around([document.document_id], scope, number, neighbours=NEIGHBOURS)
            lines = [line for _, line in around]
            if any(line.line == number for line in lines):
                passages.append(_passage(document, _listed(lines, mark=number), lines, lines, section=f"line {number}"))
            else:
                told = f"{document.name} has {document.lines} lines; there is no line {number}."
                passages.append(_passage(document, told, (), (), section=f"line {number}"))
        return passages

    async def _text_lines(self, document: Document, scope: Scope, numbers: Sequence[int]) -> list[Passage]:
        whole = await self.passages.whole(scope, [document.document_id])
        lines = whole[0].text.split("\n") if whole else []
        passages = []
        for number in numbers:
            if not 1 <= number <= len(lines):
                continue
            first, last = max(1, number - NEIGHBOURS), min(len(lines), number + NEIGHBOURS)
            near = [
                LogLine(line=at, text=lines[at - 1], timestamp=None, severity=None, template="")
                for at in range(first, last + 1)
            ]
            passages.append(_passage(document, _listed(near, mark=number), near, near, section=f"line {number}"))
        return passages

    async def _in_plain_words(
        self, log: Document, scope: Scope, wish: Wanted, plain: PlainWords, question: str, *, meant: bool
    ) -> list[Passage]:
        """Return what is told of the errors or warnings of a log: how many, the first, the last, and of which kinds.

        Of those alone that the words beside them name, as in "payment errors": that there are none is told with what
        the log has. `meant`: it is a log that is asked. Where it may be a document, a log tells only of a topic that it
        holds, or where the question has no other, and only when or how many. Nothing of a log whose lines name no
        severities: a 0 would say that all was well.
        """
        counts = await self.logs.by_severity([log.document_id], scope)
        if wish.severities or not any(map(counts.get, Severity)):
            return []
        counted = _QUANTITY.search(question) or _TIMES.search(question)
        if not meant and not (counted and (plain.topic or plain.alone)):
            return []
        if untimed := await self._untimed(log, scope, wish):
            return [untimed]
        ids = [log.document_id]
        only, terms = plain.in_a_log(counts)
        if terms and not (await self.logs.select(ids, scope, severities=only, terms=terms, limit=0))[0]:
            none = _counted(log, _described(only, terms, Wanted()), 0, (), ())
            return [none, await self._overview(log, scope)] if meant else []
        listing = bool(_ALL.search(question))
        found = await self._selected(log, scope, wish, only, terms, listing=listing)
        if not (wish.since or wish.until) and not listing and (plain.sought or _QUANTITY.search(question)):
            what = _described(only, terms, wish)
            told = [f"{log.name}: {counts[each]} {each} entries." for each in only if len(only) > 1 and not terms]
            kinds = await self.logs.templates(ids, scope, severities=only, terms=terms, limit=_TEMPLATES)
            told += [f"{number} times: {template}" for template, number in kinds]
            paths = await self.logs.paths(ids, scope, severities=only, terms=terms, limit=_TEMPLATES)
            told += [f"{path}: {number} {what}." for path, number in paths]
            found += [_passage(log, "\n".join(told), (), (), section="counted")] if told else []
        return found

    async def _on_its_day(self, log: Document, scope: Scope, wish: Wanted, question: str) -> Wanted | None:
        """Return what is asked of a log: a time of day without a day is one of its only day; None where it has more."""
        if not tells_no_day(question):
            return wish
        first, last = await self.logs.span([log.document_id], scope)
        if first is None or last is None:
            return wish
        if first.date() != last.date():
            return None
        timed = wanted(f"{question.rstrip('?!. ')} on {first.date().isoformat()}")
        return replace(wish, since=timed.since, until=timed.until)

    async def _days(self, log: Document, scope: Scope) -> Passage:
        """Return that a log cannot be told by a time of day alone."""
        first, last = await self.logs.span([log.document_id], scope)
        told = f"{log.name} has entries of several days"
        told += f", from {_when(first)} to {_when(last)}: a time of day needs its day." if first and last else "."
        return _passage(log, told, (), (), section="counted")

    async def _untimed(self, log: Document, scope: Scope, wish: Wanted) -> Passage | None:
        """Return that a log cannot be told by time, where it is to be and names none."""
        if not (wish.since or wish.until) or (await self.logs.span([log.document_id], scope))[0] is not None:
            return None
        untimed = f"none of its {log.lines} lines names a time that is read here; they cannot be told by time."
        return _passage(log, f"{log.name}: {untimed}", (), (), section="counted")

    async def _of_log(
        self,
        log: Document,
        scope: Scope,
        wish: Wanted,
        terms: Sequence[str],
        question: str,
        *,
        plain: Sequence[PlainWords],
        listing: bool,
        meant: bool,
    ) -> list[Passage]:
        """Return what is told of the lines that a question names exactly, or of the whole log where it counts.

        `meant`: it is a log that is asked, which a severity in capitals says of itself. Where it may be a document, a
        log is no answer as a whole, and tells only of what it holds, where that is to be counted or listed.
        """
        timed = bool(wish.since or wish.until)
        counted = _QUANTITY.search(question) or _TIMES.search(question)
        sure = meant or bool(wish.severities)
        if not sure and not (counted or listing):
            return []
        if sure and (untimed := await self._untimed(log, scope, wish)):
            return [untimed]
        beside = _beside(question, log, terms) if meant and counted else _of_errors(question, terms, plain)
        counts = await self.logs.by_severity([log.document_id], scope)
        joined = plain if (_BOTH.search(question) if wish.severities else terms) else ()
        only, saying = _severities(wish, joined, counts)
        beside = replace(beside, words=(*beside.words, *saying))
        bad = [] if only else [each for each in _BAD if counts.get(each)]
        failed = bool(bad) and any(map(says_failed, beside.words))
        found: list[Passage] = []
        if plain and terms and not only and not any(map(_STATUS.match, beside.exact)):
            told = f"{log.name}: none of its {log.lines} lines names a severity: errors are not told from other lines."
            found += [_passage(log, told, (), (), section="counted")] if sure else []
        for named in await self._together(log, scope, terms, question):
            tiers = [(*named, *words) for words in _tiers(beside)]
            held = await self._held(log, scope, wish, only, tiers)
            if tiers and held is None and sure:
                lacking = (*named, *(beside.exact or beside.words))
                found.append(_counted(log, _described(only, lacking, wish), 0, (), ()))
            if meant and counted and not (named or held or timed):
                found.append(await self._overview(log, scope))
            if held or only or ((named or timed) and not failed):
                selected = await self._selected(log, scope, wish, only, held or named, listing=listing)
                found += selected if sure or selected[0].line_start is not None else []
                found += await self._each(log, scope, wish, only, held or named) if len(selected[0].rows) > 1 else []
            if failed:
                rest = (*named, *beside.exact, *(word for word in beside.words if not says_failed(word)))
                selected = await self._selected(log, scope, wish, bad, rest, listing=listing)
                found += selected if sure or selected[0].line_start is not None else []
        return found

    async def _together(
        self, log: Document, scope: Scope, terms: Sequence[str], question: str
    ) -> list[tuple[str, ...]]:
        """Return which terms lines are to hold together, those that some do first; each where "and" joins them."""
        asked = _alternatives(terms, question)
        alone = [(term,) for term in terms]
        if len(terms) > 1 and set(asked) == set(alone):
            asked = [tuple(terms)] if await self._held(log, scope, Wanted(), (), [tuple(terms)]) else []
        elif len(terms) < 2 or await self._held(log, scope, Wanted(), (), asked):
            return asked
        return [*asked, *alone]

    async def _held(
        self, log: Document, scope: Scope, wish: Wanted, only: Collection[Severity], tiers: Sequence[tuple[str, ...]]
    ) -> tuple[str, ...] | None:
        """Return the first of some sets of words that lines hold together, None where no line holds any of them."""
        for words in tiers:
            total, _ = await self.logs.select(
                [log.document_id], scope, severities=only, terms=words, since=wish.since, until=wish.until, limit=0
            )
            if total:
                return words
        return None

    async def _selected(
        self,
        log: Document,
        scope: Scope,
        wish: Wanted,
        only: Sequence[Severity],
        terms: Collection[str],
        *,
        listing: bool,
    ) -> list[Passage]:
        """Return how many lines of these severities hold each of these terms, with the first and last."""

        async def select(limit: int, *, last_first: bool = False) -> tuple[int, list[LogLine]]:
            total, lines = await self.logs.select(
                [log.document_id],
                scope,
                severities=only,
                terms=terms,
                since=wish.since,
                until=wish.until,
                last_first=last_first,
                limit=limit,
            )
            return total, [line for _, line in lines]

        total, lines = await select(MOST_LISTED if listing else 1)
        _, last = await select(1, last_first=True)
        what = _described(only, terms, wish)
        counted = _counted(log, what, total, lines, last)
        return [counted, _listing(log, what, total, lines)] if listing and total else [counted]

    async def _each(
        self, log: Document, scope: Scope, wish: Wanted, only: Sequence[Severity], terms: Collection[str]
    ) -> list[Passage]:
        """Return how many lines with these terms there are of each of several severities."""
        told = []
        for each in only if len(only) > 1 else ():
            total, _ = await self.logs.select(
                [log.document_id], scope, severities=[each], terms=terms, since=wish.since, until=wish.until, limit=0
            )
            told.append(f"{log.name}: {total} {_described([each], terms, wish)}.")
        return [_passage(log, "\n".join(told), (), (), section="counted")] if told else []

    async def _overview(self, log: Document, scope: Scope) -> Passage:
        counts = await self.logs.by_severity([log.document_id], scope)
        first, last = await self.logs.span([log.document_id], scope)
        templates = await self.logs.templates([log.document_id], scope, limit=_TEMPLATES)
        told = [f"{log.name}: {sum(counts.values())} lines."]
        told += [f"{counts[each]} {each} entries." for each in reversed(list(Severity)) if counts.get(each)]
        if counts.get(""):
            told.append(f"{counts['']} lines without a severity.")
        if first and last:
            told.append(f"First entry {_when(first)}, last entry {_when(last)}.")
        told += [f"{number} times: {template}" for template, number in templates if number > 1]
        return _passage(log, "\n".join(told), (), (), section="counted")


def _beside(question: str, log: Document, terms: Collection[str]) -> Spoken:
    """Return what a question says of the lines that it counts beside what it names exactly."""
    told = _TIMES.sub(" ", _QUANTITY.sub(" ", _ENDMOST.sub(" ", question)))
    for term in terms:
        told = told.replace(term, " ")
    parts = {part for name in (log.name, log.uri) for part in (name.lower(), *re.split(r"[\W_]+", name.lower()))}
    return spoken(told, parts)


def _of_errors(question: str, terms: Collection[str], plain: Sequence[PlainWords]) -> Spoken:
    """Return what a question says of the errors that it asks for beside what it names exactly, and that some failed."""
    if not terms:
        return Spoken()
    said = [word for each in plain if each.sought for word in each.topic if severity_named(word) is None]
    if _LISTING.search(question) or _QUANTITY.search(question):
        said += filter(says_failed, re.findall(r"\w+", question))
    return Spoken(words=tuple(word for word in dict.fromkeys(said) if not any(word in term for term in terms)))


def _severities(
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


def _alternatives(terms: Sequence[str], question: str) -> list[tuple[str, ...]]:
    """Return which terms belong together, as of "errors on /api/pay and /api/cart with ERR-4521" the code to each."""
    groups: list[list[str]] = []
    end = 0
    for match in _TERM.finditer(question):
        term = _term(match)
        if term not in terms or any(term in group for group in groups):
            continue
        if groups and _JOINED.fullmatch(question, end, match.start()):
            groups[-1].append(term)
        else:
            groups.append([term])
        end = match.end()
    return list(itertools.product(*groups))


def _tiers(beside: Spoken) -> list[tuple[str, ...]]:
    """Return sets of words to look for together, the narrowest first: 500 is a status where lines have one there."""
    every = dict.fromkeys(words for words in ((*beside.exact, *beside.words), beside.exact) if words)
    placed = {words: tuple(_STATUS.sub(_PLACED, word) for word in words) for words in every}
    return list(dict.fromkeys(tier for words in every for tier in (placed[words], words)))


def _named(term: str) -> str:
    number = term.strip('" ')
    return f"status {number}" if term == _STATUS.sub(_PLACED, number) != number else repr(term)


def _asked(plain: Sequence[PlainWords], question: str) -> list[PlainWords]:
    """Return what a question asks of the errors or warnings of a log, and not of what such are like."""
    counted = _QUANTITY.search(question) or _TIMES.search(question)
    return [each for each in plain if each.sought or counted]


def asked_of_logs(own: str, searched: str) -> str:
    """Return which words to take of a follow-up: the user's own, unless what is meant by them stands in the others.

    "When did they start?" is answered of the errors spoken of before; "How many CRITICAL entries are there?" of itself.
    """
    meant = bool(wanted(own)) or _TERM.search(own) is not None or bool(in_plain_words(own))
    return own if meant or _REFERS.search(own) is None else searched


def _cued(question: str) -> bool:
    """Return whether a question asks for something that can be counted or looked up in a log."""
    patterns = (_QUANTITY, _TIMES, _TERM)
    return (
        bool(wanted(question))
        or any(pattern.search(question) for pattern in patterns)
        or bool(_asked(in_plain_words(question), question))
    )


def _counted(log: Document, what: str, total: int, first: Sequence[LogLine], last: Sequence[LogLine]) -> Passage:
    told = [f"{log.name}: {total} {what}."]
    lines = [*first[:1], *last[:1]]
    for name, line in zip(("First", "Last"), lines, strict=False):
        at = f" at {_when(line.timestamp)}" if line.timestamp else ""
        told.append(f"{name}{at}, line {line.line}: {line.text}")
    return _passage(log, "\n".join(told), lines, (None, *lines), section="counted")


def _listing(log: Document, what: str, total: int, lines: Sequence[LogLine]) -> Passage:
    head = (
        f"{log.name}: all {total} {what}"
        if total == len(lines)
        else f"{log.name}: the first {len(lines)} of {total} {what}"
    )
    return _passage(log, f"{head}:\n{_listed(lines)}", lines, (None, *lines), section=LISTED)


def _listed(lines: Sequence[LogLine], *, mark: int | None = None) -> str:
    """Return lines with their numbers, the one that was asked for marked."""
    return "\n".join(f"{'>' if line.line == mark else ' '} {line.line}: {line.text}" for line in lines)


def _described(only: Sequence[Severity], terms: Collection[str], wish: Wanted) -> str:
    told = f"{'/'.join(only)} entries" if only else "lines"
    told += f" with {' and '.join(map(_named, terms))}" if terms else ""
    told += f" since {_when(wish.since)}" if wish.since else ""
    return told + (f" until {_when(wish.until)}" if wish.until else "")


def _when(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _terms(question: str, documents: Sequence[Document]) -> list[str]:
    """Return the exact words a question asks for: quoted ones, paths, codes. Names of files of the scope are none."""
    names = _names(documents)
    found = map(_term, _TERM.finditer(question))
    return [term for term in dict.fromkeys(found) if term and term.lower() not in names][:5]


def _term(match: re.Match[str]) -> str:
    return str(next(filter(None, match.groups()))).rstrip("./")


def _names(documents: Sequence[Document]) -> set[str]:
    return {each.name.lower() for each in documents} | {each.uri.lower() for each in documents}


def _passage(
    document: Document, text: str, lines: Sequence[LogLine], rows: Sequence[LogLine | None], *, section: str
) -> Passage:
    times = [line.timestamp for line in lines if line.timestamp]
    worst = [line.severity for line in lines if line.severity]
    generation = document.generation or 0
    return Passage(
        passage_id=computed_id(document.document_id, generation, text),
        kind=PassageKind.COMPUTED,
        document_id=document.document_id,
        partition=document.partition,
        text=text,
        title=document.title,
        name=document.name,
        uri=document.uri,
        link=document.link,
        document_type=document.document_type,
        category=document.category,
        tags=document.tags,
        version=document.version,
        section=section,
        line_start=min((line.line for line in lines), default=None),
        line_end=max((line.line for line in lines), default=None),
        timestamp=min(times, default=None),
        until=max(times, default=None),
        severity=max(worst, key=list(Severity).index, default=None),
        rows=tuple(rows),
        relevance=1.0,
        score=1.0,
        generation=generation,
    )
