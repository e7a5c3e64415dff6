"""Exact facts of logs: counts, first and last times, single lines, all entries of a severity. Counted, never guessed.

What is found comes as computed passages that a model quotes and the verifier checks like any other text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge.documents.access import Scope
from knowledge.documents.asked_times import names_a_time, without_times
from knowledge.documents.asking_words import wanted
from knowledge.documents.log_passages import (
    computed_passage,
    counted_passage,
    described,
    listed_lines,
    listing_passage,
    told_time,
)
from knowledge.documents.log_questions import (
    ALL,
    BOTH,
    ENTRIES,
    LISTING,
    QUANTITY,
    STATUS,
    TIMES,
    alternatives,
    is_cued,
    names_of,
    plainly_asked,
    severities_asked,
    terms_of,
    tiers,
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
from knowledge.documents.plain_words import (
    PlainWords,
    in_plain_words,
    says_failed,
    speaks_of_logs,
)
from knowledge.documents.ports import EvidenceSource, LogStore, PassageStore
from knowledge.documents.uncountable import is_uncountable

MOST_LISTED: Final = 500
"""Lines that a listing holds; the passage says where there are more."""
NEIGHBOURS: Final = 2
_TEMPLATES: Final = 5
_MOST_LOGS: Final = 50
_MOST_NUMBERED: Final = 100
"""Lines that are looked up by their numbers, of all documents together."""

_BAD: Final = (Severity.ERROR, Severity.CRITICAL)
_UNCOUNTABLE: Final = (
    "this cannot be counted. Lines are counted by what they hold, their severity and their moments; not by how large a"
    " number in them is, by what they lack, or back from now."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence(EvidenceSource):
    """Facts of the logs of one workspace, from what Postgres holds of each line."""

    logs: LogStore
    passages: PassageStore

    async def facts(self, question: str, scope: Scope, documents: frozenset[DocumentId] | None = None) -> Finding:
        """Return computed passages for what a question asks of logs; none where it asks nothing of the kind."""
        asked = question
        if not is_cued(question):
            return Finding()
        visible = await self.passages.documents(scope)
        logs = [each for each in visible if each.document_type is DocumentType.LOG]
        logs = [each for each in logs if documents is None or each.document_id in documents]
        wish = wanted(question, visible)
        if wish.document_ids:
            logs = [each for each in logs if each.document_id in wish.document_ids]
        numbered = [each for each in visible if each.document_id in wish.document_ids] if wish.document_ids else logs
        terms = terms_of(question, visible)
        plain = in_plain_words(question, names_of(visible))
        among = [each for each in visible if documents is None or each.document_id in documents]
        telling = [each for each in among if each.document_type is not DocumentType.CONFIG]  # settings have no errors
        meant = bool(wish.document_ids) or speaks_of_logs(question) or len(logs) == len(telling)
        found: list[Passage] = []
        lined = numbered[: max(1, _MOST_NUMBERED // len(wish.lines))] if wish.lines else ()
        for log in lined:
            found += await self._lines(log, scope, wish.lines)
        names = names_of(visible)
        when, question = without_names(question, names), without_times(question)
        timed = names_a_time(when)
        counted = bool(QUANTITY.search(question) or TIMES.search(question))
        listing = bool(LISTING.search(question) and ENTRIES.search(question)) or (timed and meant and not counted)
        uncountable = is_uncountable(question)
        untold = meant and (listing or counted or bool(plainly_asked(plain, question)))
        for log in logs[:_MOST_LOGS] if not wish.lines else ():
            if uncountable:
                found += (
                    [computed_passage(log, f"{log.name}: {_UNCOUNTABLE}", (), (), section="counted")] if untold else []
                )
                continue
            within, untimed = await LogTimes(logs=self.logs).within(log, scope, wish, when)
            if untimed:
                found += [untimed] if untold or (wish.severities and (listing or counted)) else []
                continue
            told: list[Passage] = []
            for each in plainly_asked(plain, question) if not terms else ():
                told += await self._in_plain_words(log, scope, within, each, question, meant=meant)
            found += told or await self._of_log(
                log, scope, within, terms, question, plain=plain, listing=listing, meant=meant
            )
        capped = [note for log in logs for note in log.notes] if found else []
        more = (
            [f"Only the first {_MOST_LOGS} of {len(logs)} logs were counted."]
            if found and len(logs) > _MOST_LOGS
            else []
        )
        if wish.lines and len(lined) < len(numbered):
            more = [f"Lines were looked up in the first {len(lined)} of {len(numbered)} documents: name the one meant."]
        return Finding(passages=tuple(found), searched=(asked,) if found else (), notes=(*capped, *more))

    async def _lines(self, document: Document, scope: Scope, numbers: Sequence[int]) -> list[Passage]:
        if document.document_type is not DocumentType.LOG:
            return await self._text_lines(document, scope, numbers)
        passages = []
        for number in numbers:
            around = await self.logs.around([document.document_id], scope, number, neighbours=NEIGHBOURS)
            lines = [line for _, line in around]
            if any(line.line == number for line in lines):
                passages.append(
                    computed_passage(document, listed_lines(lines, mark=number), lines, lines, section=f"line {number}")
                )
            else:
                told = f"{document.name} has {document.lines} lines; there is no line {number}."
                passages.append(computed_passage(document, told, (), (), section=f"line {number}"))
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
            passages.append(
                computed_passage(document, listed_lines(near, mark=number), near, near, section=f"line {number}")
            )
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
        counted = QUANTITY.search(question) or TIMES.search(question)
        if not meant and not (counted and (plain.topic or plain.alone)):
            return []
        ids = [log.document_id]
        only, terms = plain.in_a_log(counts)
        if terms and not (await self.logs.select(ids, scope, severities=only, terms=terms, limit=0))[0]:
            none = counted_passage(log, described(only, terms, Wanted()), 0, (), ())
            return [none, await self._overview(log, scope)] if meant else []
        listing = bool(ALL.search(question))
        found = await self._selected(log, scope, wish, only, terms, listing=listing)
        if not (wish.since or wish.until) and not listing and (plain.sought or QUANTITY.search(question)):
            what = described(only, terms, wish)
            told = [f"{log.name}: {counts[each]} {each} entries." for each in only if len(only) > 1 and not terms]
            kinds = await self.logs.templates(ids, scope, severities=only, terms=terms, limit=_TEMPLATES)
            told += [f"{number} times: {template}" for template, number in kinds]
            paths = await self.logs.paths(ids, scope, severities=only, terms=terms, limit=_TEMPLATES)
            told += [f"{path}: {number} {what}." for path, number in paths]
            found += [computed_passage(log, "\n".join(told), (), (), section="counted")] if told else []
        return found

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
        counted = QUANTITY.search(question) or TIMES.search(question)
        sure = meant or bool(wish.severities)
        if not sure and not (counted or listing):
            return []
        beside = words_beside(question, log, terms) if meant and counted else words_of_errors(question, terms, plain)
        counts = await self.logs.by_severity([log.document_id], scope)
        joined = plain if (BOTH.search(question) if wish.severities else terms) else ()
        only, saying = severities_asked(wish, joined, counts)
        beside = replace(beside, words=(*beside.words, *saying))
        bad = [] if only else [each for each in _BAD if counts.get(each)]
        failed = bool(bad) and any(map(says_failed, beside.words))
        found: list[Passage] = []
        if plain and terms and not only and not any(map(STATUS.match, beside.exact)):
            told = f"{log.name}: none of its {log.lines} lines names a severity: errors are not told from other lines."
            found += [computed_passage(log, told, (), (), section="counted")] if sure else []
        for named in await self._together(log, scope, terms, question):
            narrowing = [(*named, *words) for words in tiers(beside)]
            held = await self._held(log, scope, wish, only, narrowing)
            if narrowing and held is None and sure:
                lacking = (*named, *(beside.exact or beside.words))
                found.append(counted_passage(log, described(only, lacking, wish), 0, (), ()))
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
        asked = alternatives(terms, question)
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
        what = described(only, terms, wish)
        counted = counted_passage(log, what, total, lines, last)
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
            told.append(f"First entry {told_time(first.astimezone(zone))}, last entry {told_time(last.astimezone(zone))}.")
        told += [f"{number} times: {template}" for template, number in templates if number > 1]
        return computed_passage(log, "\n".join(told), (), (), section="counted")
