"""Exact facts of logs: counts, first and last times, single lines, all entries of a severity. Counted, never guessed.

What is found comes as computed passages that a model quotes and the verifier checks like any other text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge.documents.access import Scope
from knowledge.documents.asked_times import names_a_time, without_times
from knowledge.documents.asking_words import wanted
from knowledge.documents.held_words import HeldWords
from knowledge.documents.log_lines import severity_named
from knowledge.documents.log_passages import (
    computed_passage,
    counted_passage,
    described,
    listing_passage,
    told_time,
    unheld_passage,
)
from knowledge.documents.log_questions import (
    ALL,
    BOTH,
    ENTRIES,
    LAST,
    LISTING,
    ONE_END,
    QUANTITY,
    SOME_OF_AN_END,
    TIMES,
    is_cued,
    names_of,
    plainly_asked,
    severities_asked,
    terms_of,
    words_beside,
    words_of_errors,
)
from knowledge.documents.log_times import LogTimes, without_names
from knowledge.documents.models import (
    Document,
    DocumentId,
    DocumentType,
    Finding,
    LogLine,
    Passage,
    Severity,
    Wanted,
)
from knowledge.documents.numbered_lines import NumberedLines
from knowledge.documents.plain_words import (
    PlainWords,
    Spoken,
    in_plain_words,
    says_failed,
    speaks_of_logs,
)
from knowledge.documents.ports import EvidenceSource, LogStore, PassageStore
from knowledge.documents.statuses import ANY, CLASS, in_statuses, names_a_status, placed
from knowledge.documents.uncountable import gathers, is_uncountable

MOST_LISTED: Final = 500
"""Lines that a listing holds; the passage says where there are more."""
_TEMPLATES: Final = 5
_MOST_LOGS: Final = 50
_MOST_NUMBERED: Final = 100
"""Lines that are looked up by their numbers, of all documents together."""

_BAD: Final = (Severity.ERROR, Severity.CRITICAL)
_UNCOUNTABLE: Final = (
    "this cannot be counted. Lines are counted by what they hold, their severity and their moments; not by how large a"
    " number in them is, by what they lack, or back from now, nor are they gathered by minute, user or status, or added"
    " up."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence(EvidenceSource):
    """Facts of the logs of one workspace, from what Postgres holds of each line."""

    logs: LogStore
    passages: PassageStore

    async def facts(self, question: str, scope: Scope, documents: frozenset[DocumentId] | None = None) -> Finding:
        """Return computed passages for what a question asks of logs; none where it asks nothing of the kind."""
        if not is_cued(question):
            return Finding()
        visible = await self.passages.documents(scope)
        among = [each for each in visible if documents is None or each.document_id in documents]
        wish = wanted(question, visible)
        logs = [each for each in among if each.document_type is DocumentType.LOG]
        telling = [each for each in among if each.document_type is not DocumentType.CONFIG]  # settings have no errors
        alone = len(logs) == len(telling)
        if wish.document_ids:
            logs = [each for each in logs if each.document_id in wish.document_ids]
        if wish.lines:
            named = [each for each in visible if each.document_id in wish.document_ids] if wish.document_ids else logs
            found, notes = await self._numbered(named, scope, wish.lines)
        else:
            found, notes = await self._counted(question, logs, scope, wish, visible=visible, alone=alone)
        if found:
            notes = [*(note for log in logs for note in log.notes), *notes]
        return Finding(passages=tuple(found), searched=(question,) if found else (), notes=tuple(notes))

    async def _numbered(
        self, documents: Sequence[Document], scope: Scope, lines: Sequence[int]
    ) -> tuple[list[Passage], list[str]]:
        """Return what stands at these lines of documents, and which were not looked at."""
        looked_at = documents[: max(1, _MOST_NUMBERED // len(lines))]
        numbered = NumberedLines(logs=self.logs, passages=self.passages)
        found = [passage for each in looked_at for passage in await numbered.of(each, scope, lines)]
        if len(looked_at) == len(documents):
            return found, []
        return found, [
            f"Lines were looked up in the first {len(looked_at)} of {len(documents)} documents: name the one meant."
        ]

    async def _counted(
        self,
        question: str,
        logs: Sequence[Document],
        scope: Scope,
        wish: Wanted,
        *,
        visible: Sequence[Document],
        alone: bool,
    ) -> tuple[list[Passage], list[str]]:
        """Return what is counted or listed of logs, and which were not; `alone`: there are no other documents."""
        names = names_of(visible)
        addressed = bool(wish.document_ids) or speaks_of_logs(question)
        terms, plain = terms_of(question, visible), in_plain_words(question, names)
        when, question = without_names(question, names), without_times(question)
        counted = bool(QUANTITY.search(question) or TIMES.search(question))
        listing = bool(LISTING.search(question) and (ENTRIES.search(question) or names_a_status(question))) or (
            names_a_time(when) and (addressed or alone) and not counted
        )
        asked = _Asked(
            question=question,
            terms=terms,
            plain=plain,
            counted=counted,
            listing=listing,
            meant=addressed or alone,
            addressed=addressed,
        )
        untold = asked.meant and (listing or counted or gathers(question) or bool(plainly_asked(plain, question)))
        uncountable = is_uncountable(question)
        found: list[Passage] = []
        for log in logs[:_MOST_LOGS]:
            if uncountable:
                told = f"{log.name}: {_UNCOUNTABLE}"
                found += [computed_passage(log, told, (), (), section="counted")] if untold else []
                continue
            within, untimed = await LogTimes(logs=self.logs).within(log, scope, wish, when)
            if untimed is None:
                found += await self._told(log, scope, within, asked)
            elif untold or (wish.severities and (listing or counted)):
                found.append(untimed)
        if not found or len(logs) <= _MOST_LOGS:
            return found, []
        return found, [f"Only the first {_MOST_LOGS} of {len(logs)} logs were counted."]

    async def _told(self, log: Document, scope: Scope, wish: Wanted, asked: _Asked) -> list[Passage]:
        """Return what is told of one log."""
        counts = await self.logs.by_severity([log.document_id], scope)
        severe = any(map(counts.get, Severity))
        sure = asked.meant or bool(wish.severities)
        access = sure and await self._words(log, scope).hold([ANY])
        if access:
            asked = replace(asked, question=in_statuses(asked.question, alone=not severe))
        beside = Spoken()
        timed = asked.meant and bool(wish.since or wish.until)  # what is listed then is what is asked for alone
        plainly = list(asked.plain) if timed else plainly_asked(asked.plain, asked.question)
        if sure and (asked.counted or asked.listing or plainly):
            beside = words_beside(asked.question, log, asked.terms)
        if not access:  # a class of statuses is none of the words that such a line holds
            classes = tuple(filter(CLASS.match, beside.exact))
            exact = tuple(each for each in beside.exact if each not in classes)
            beside = Spoken(exact=exact, words=(*beside.words, *classes))
        asked = replace(asked, terms=(*asked.terms, *beside.exact), beside=beside.words, access=access)
        told: list[Passage] = []
        for each in plainly if severe and not asked.terms else ():
            told += await self._in_plain_words(log, scope, wish, each, asked=asked, counts=counts)
        return told or await self._of_log(log, scope, wish, asked, counts)

    async def _in_plain_words(
        self,
        log: Document,
        scope: Scope,
        wish: Wanted,
        plain: PlainWords,
        *,
        asked: _Asked,
        counts: Mapping[str, int],
    ) -> list[Passage]:
        """Return what is told of the errors or warnings of a log: how many, the first, the last, and of which kinds.

        Of those alone that the words beside them name, as in "payment errors" or "errors of user u3"; where no line
        holds the words, that. Where it may be a document that is asked, a log tells only of a topic that it holds, or
        where the question has no other, and only when or how many.
        """
        if wish.severities or (not asked.meant and not (asked.counted and (plain.topic or plain.alone))):
            return []
        ids = [log.document_id]
        only, topic = plain.in_a_log(counts)
        named = {word.lower() for each in asked.plain for word in each.topic}
        more = [
            word for word in asked.beside if not any(word.lower() in each or each in word.lower() for each in named)
        ]
        terms = (*topic, *more)
        if terms and not await self._words(log, scope).hold(terms, wish, only):
            named_worse = all(severity_named(word) for word in terms)  # as of fatal errors where none is
            if not named_worse and (lacking := await self._words(log, scope).lacking((), terms)):
                return [unheld_passage(log, lacking)] if asked.meant else []
            none = counted_passage(log, described(only, terms, wish), 0, (), ())
            return [none, await self._overview(log, scope)] if asked.meant else []
        timed = bool(wish.since or wish.until)
        listing = bool(ALL.search(asked.question)) or (timed and asked.listing)
        found = await self._selected(log, scope, wish, only, terms, listing=listing)
        counting = plain.sought or QUANTITY.search(asked.question)
        if not timed and not listing and counting:
            what = described(only, terms, wish)
            told = [f"{log.name}: {counts[each]} {each} entries." for each in only if len(only) > 1 and not terms]
            kinds = await self.logs.templates(ids, scope, severities=only, terms=terms, limit=_TEMPLATES)
            told += [f"{number} times: {template}" for template, number in kinds]
            paths = await self.logs.paths(ids, scope, severities=only, terms=terms, limit=_TEMPLATES)
            told += [f"{path}: {number} {what}." for path, number in paths]
            found += [computed_passage(log, "\n".join(told), (), (), section="counted")] if told else []
        return found

    async def _of_log(
        self, log: Document, scope: Scope, wish: Wanted, asked: _Asked, counts: Mapping[str, int]
    ) -> list[Passage]:
        """Return what is told of the lines that a question names exactly, or of the whole log where it counts.

        Where it may be a document that is asked, a log is no answer as a whole, and tells only of what it holds, where
        that is to be counted or listed; a severity in capitals says of itself that it is a log.
        """
        sure = asked.meant or bool(wish.severities)
        if not sure and not (asked.counted or asked.listing):
            return []
        words = asked.beside or words_of_errors(asked.question, asked.terms, asked.plain).words
        joined = asked.plain if (BOTH.search(asked.question) if wish.severities else asked.terms) else ()
        only, saying = severities_asked(wish, joined, counts)
        words = (*words, *(word for word in saying if word not in words))
        failed = [each for each in _BAD if counts.get(each)] if not only and any(map(says_failed, words)) else []
        found: list[Passage] = []
        if sure and self._nameless(wish, asked, counts):
            told = f"{log.name}: none of its {log.lines} lines names a severity: errors are not told from other lines."
            found.append(computed_passage(log, told, (), (), section="counted"))
            if only or not asked.terms:
                return found
        together = await self._words(log, scope).together(asked.terms, asked.question, statuses=asked.access)
        for named in together:
            found += await self._of_words(log, scope, wish, asked, only=only, named=named, words=words, failed=failed)
        return found

    def _nameless(self, wish: Wanted, asked: _Asked, counts: Mapping[str, int]) -> bool:
        """Return whether severities are asked of a log that names none: a 0 would say that all was well."""
        if any(map(counts.get, Severity)):
            return False
        if wish.severities:
            return True
        statuses = asked.access and any(placed(term) != term for term in asked.terms)
        timed = bool(wish.since or wish.until)
        return bool(asked.plain) and not statuses and (timed or bool(asked.terms or asked.counted))

    async def _of_words(
        self,
        log: Document,
        scope: Scope,
        wish: Wanted,
        asked: _Asked,
        *,
        only: Sequence[Severity],
        named: tuple[str, ...],
        words: tuple[str, ...],
        failed: Sequence[Severity],
    ) -> list[Passage]:
        """Return what is told of the lines that hold what is named exactly, and the words beside it where any does."""
        sure, timed = asked.meant or bool(wish.severities), bool(wish.since or wish.until)
        found: list[Passage] = []
        terms, note, lacking = (*named, *words), "", ""
        if words and not await self._words(log, scope).hold(terms, wish, only):
            lacking = await self._words(log, scope).lacking(named, words)
            if lacking and named:
                terms, note = named, f"; none of these lines holds {lacking}"
        unheld = bool(lacking) and not named
        if unheld and sure and not failed and (asked.addressed or only or not asked.only_when):
            found.append(unheld_passage(log, lacking))
        if asked.meant and asked.counted and not (terms or timed):
            found.append(await self._whole(log, scope, asked))
        if not unheld and (terms or only or timed) and not (failed and lacking and not named):
            selected = await self._selected(log, scope, wish, only, terms, listing=asked.listing, note=note)
            found += selected if sure or selected[0].line_start is not None else []
            found += await self._each(log, scope, wish, only, terms) if len(selected[0].rows) > 1 else []
        if failed:
            rest = (*named, *(word for word in words if not says_failed(word)))
            selected = await self._selected(log, scope, wish, failed, rest, listing=asked.listing)
            found += selected if sure or selected[0].line_start is not None else []
        return found

    async def _whole(self, log: Document, scope: Scope, asked: _Asked) -> Passage:
        """Return what is told of all lines: the first and the last, or so many of them, where these are asked for."""
        if some := SOME_OF_AN_END.search(asked.question):
            last = some[1].lower() in LAST
            most = min(int(some[2]), MOST_LISTED)
            total, found = await self.logs.select([log.document_id], scope, last_first=last, limit=most)
            lines = sorted((line for _, line in found), key=lambda line: line.line)
            return listing_passage(log, "lines", total, lines, end="last" if last else "first")
        if ONE_END.search(asked.question):
            return (await self._selected(log, scope, Wanted(), (), (), listing=False))[0]
        return await self._overview(log, scope)

    def _words(self, log: Document, scope: Scope) -> HeldWords:
        return HeldWords(logs=self.logs, log=log, scope=scope)

    async def _selected(
        self,
        log: Document,
        scope: Scope,
        wish: Wanted,
        only: Sequence[Severity],
        terms: Collection[str],
        *,
        listing: bool,
        note: str = "",
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
        what = described(only, terms, wish)
        counted = counted_passage(log, what, total, lines, last, note=note if total else "")
        return [counted, listing_passage(log, what, total, lines)] if listing and total else [counted]

    async def _each(
        self, log: Document, scope: Scope, wish: Wanted, only: Sequence[Severity], terms: Collection[str]
    ) -> list[Passage]:
        """Return how many lines with these terms there are of each of several severities."""
        told = []
        for each in only if len(only) > 1 else ():
            total, _ = await self.logs.select(
                [log.document_id], scope, severities=[each], terms=terms, since=wish.since, until=wish.until, limit=0
            )
            told.append(f"{log.name}: {total} {described([each], terms, wish)}.")
        return [computed_passage(log, "\n".join(told), (), (), section="counted")] if told else []

    async def _overview(self, log: Document, scope: Scope) -> Passage:
        counts = await self.logs.by_severity([log.document_id], scope)
        first, last = await self.logs.span([log.document_id], scope)
        zone = (await LogTimes(logs=self.logs).calendar(log, scope)).zone
        templates = await self.logs.templates([log.document_id], scope, limit=_TEMPLATES)
        told = [f"{log.name}: {sum(counts.values())} lines."]
        told += [f"{counts[each]} {each} entries." for each in reversed(list(Severity)) if counts.get(each)]
        if counts.get(""):
            told.append(f"{counts['']} lines without a severity.")
        if first and last:
            told.append(
                f"First entry {told_time(first.astimezone(zone))}, last entry {told_time(last.astimezone(zone))}."
            )
        told += [f"{number} times: {template}" for template, number in templates if number > 1]
        return computed_passage(log, "\n".join(told), (), (), section="counted")
