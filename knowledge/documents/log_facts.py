"""What one log answers to a question: how many of its lines are meant, which they are, or that there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge.amounts import plain_amount
from knowledge.documents.access import Scope
from knowledge.documents.counted_lines import TEMPLATES, CountedLines
from knowledge.documents.held_words import HeldWords
from knowledge.documents.log_lines import severity_named
from knowledge.documents.log_passages import computed_passage, counted_passage, described, unheld_passage
from knowledge.documents.log_questions import (
    ALL,
    BOTH,
    QUANTITY,
    Asked,
    plainly_asked,
    severities_asked,
    words_beside,
    words_of_errors,
)
from knowledge.documents.models import Document, Passage, Severity, Wanted
from knowledge.documents.plain_words import PlainWords, Spoken, says_failed
from knowledge.documents.ports import LogStore
from knowledge.documents.statuses import ANY, CLASS, in_statuses, placed

_BAD: Final = (Severity.ERROR, Severity.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """Answers questions from one log."""

    logs: LogStore
    log: Document
    scope: Scope

    async def told(self, wish: Wanted, asked: Asked) -> list[Passage]:
        """Return the passages that answer a question from this log."""
        counts = await self.logs.by_severity([self.log.document_id], self.scope)
        severe = any(map(counts.get, Severity))
        sure = asked.meant or bool(wish.severities)
        access = sure and await self._words.hold([ANY])
        if access:
            asked = replace(asked, question=in_statuses(asked.question, alone=not severe))
        beside = Spoken()
        timed = asked.meant and bool(wish.since or wish.until)  # what is listed then is what is asked for alone
        plainly = list(asked.plain) if timed else plainly_asked(asked.plain, asked.question)
        if sure and (asked.counted or asked.listing or plainly):
            beside = words_beside(asked.question, self.log, asked.terms)
        if not access:  # a class of statuses is none of the words that such a line holds
            classes = tuple(filter(CLASS.match, beside.exact))
            exact = tuple(each for each in beside.exact if each not in classes)
            beside = Spoken(exact=exact, words=(*beside.words, *classes))
        asked = replace(asked, terms=(*asked.terms, *beside.exact), beside=beside.words, access=access)
        told: list[Passage] = []
        for each in plainly if severe and not asked.terms else ():
            told += await self._in_plain_words(wish, each, asked=asked, counts=counts)
        return told or await self._of_log(wish, asked, counts)

    async def _in_plain_words(
        self,
        wish: Wanted,
        plain: PlainWords,
        *,
        asked: Asked,
        counts: Mapping[str, int],
    ) -> list[Passage]:
        """Return passages on the errors or warnings of a log: how many, the first, the last, and of which kinds.

        Of those alone that the words beside them name, as in "payment errors" or "errors of user u3"; where no line
        holds the words, that. Where it may be a document that is asked, a log tells only of a topic that it holds, or
        where the question has no other, and only when or how many.
        """
        if wish.severities or (not asked.meant and not (asked.counted and (plain.topic or plain.alone))):
            return []
        ids = [self.log.document_id]
        only, topic = plain.in_a_log(counts)
        named = {word.lower() for each in asked.plain for word in each.topic}
        more = [
            word for word in asked.beside if not any(word.lower() in each or each in word.lower() for each in named)
        ]
        terms = (*topic, *more)
        if terms and not await self._words.hold(terms, wish, only):
            named_worse = all(severity_named(word) for word in terms)  # as of fatal errors where none is
            if not named_worse and (lacking := await self._words.lacking((), terms)):
                return [unheld_passage(self.log, lacking)] if asked.meant else []
            none = counted_passage(self.log, described(0, only, terms, wish), 0, (), ())
            return [none, await self._lines.overview()] if asked.meant else []
        timed = bool(wish.since or wish.until)
        listing = bool(ALL.search(asked.question)) or (timed and asked.listing)
        found = await self._lines.selected(wish, only, terms, listing=listing)
        counting = plain.sought or QUANTITY.search(asked.question)
        if not timed and not listing and counting:
            each_of = only if len(only) > 1 and not terms else ()
            told = [f"{self.log.name}: {plain_amount(counts[each], f'{each} entry')}." for each in each_of]
            kinds = await self.logs.templates(ids, self.scope, severities=only, terms=terms, limit=TEMPLATES)
            told += [f"{plain_amount(number, 'time')}: {template}" for template, number in kinds]
            paths = await self.logs.paths(ids, self.scope, severities=only, terms=terms, limit=TEMPLATES)
            told += [f"{path}: {number} {described(number, only, terms, wish)}." for path, number in paths]
            found += [computed_passage(self.log, "\n".join(told), (), (), section="counted")] if told else []
        return found

    async def _of_log(self, wish: Wanted, asked: Asked, counts: Mapping[str, int]) -> list[Passage]:
        """Return passages on the lines that a question names exactly, or on the whole log where it asks for counts.

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
            told = (
                f"{self.log.name}: none of its {plain_amount(self.log.lines, 'line')} names a severity:"
                " errors are not told from other lines."
            )
            found.append(computed_passage(self.log, told, (), (), section="counted"))
            if only or not asked.terms:
                return found
        together = await self._words.together(asked.terms, asked.question, statuses=asked.access)
        for named in together:
            found += await self._of_words(wish, asked, only=only, named=named, words=words, failed=failed)
        return found

    def _nameless(self, wish: Wanted, asked: Asked, counts: Mapping[str, int]) -> bool:
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
        wish: Wanted,
        asked: Asked,
        *,
        only: Sequence[Severity],
        named: tuple[str, ...],
        words: tuple[str, ...],
        failed: Sequence[Severity],
    ) -> list[Passage]:
        """Return passages on the lines that hold the exact terms, with the other words too where any line has both."""
        sure, timed = asked.meant or bool(wish.severities), bool(wish.since or wish.until)
        found: list[Passage] = []
        terms, note, lacking = (*named, *words), "", ""
        if words and not await self._words.hold(terms, wish, only):
            lacking = await self._words.lacking(named, words)
            if lacking and named:
                terms, note = named, f"; none of these lines holds {lacking}"
        unheld = bool(lacking) and not named
        if unheld and sure and not failed and (asked.addressed or only or not asked.only_when):
            found.append(unheld_passage(self.log, lacking))
        if asked.meant and asked.counted and not (terms or timed):
            found.append(await self._lines.whole(asked))
        if not unheld and (terms or only or timed) and not (failed and lacking and not named):
            selected = await self._lines.selected(wish, only, terms, listing=asked.listing, note=note)
            found += selected if sure or selected[0].line_start is not None else []
            found += await self._lines.of_each_severity(wish, only, terms) if len(selected[0].rows) > 1 else []
        if failed:
            rest = (*named, *(word for word in words if not says_failed(word)))
            selected = await self._lines.selected(wish, failed, rest, listing=asked.listing)
            found += selected if sure or selected[0].line_start is not None else []
        return found

    @property
    def _words(self) -> HeldWords:
        return HeldWords(logs=self.logs, log=self.log, scope=self.scope)

    @property
    def _lines(self) -> CountedLines:
        return CountedLines(logs=self.logs, log=self.log, scope=self.scope)
