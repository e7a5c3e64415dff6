"""Exact facts of logs: counts, first and last times, single lines, all entries of a severity. Counted, never guessed.

What is found comes as computed passages that a model quotes and the verifier checks like any other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.documents.access import Scope
from knowledge.documents.asked_times import names_a_time, without_times
from knowledge.documents.asking_words import wanted
from knowledge.documents.log_facts import LogFacts
from knowledge.documents.log_passages import computed_passage
from knowledge.documents.log_questions import (
    ENTRIES,
    LISTING,
    QUANTITY,
    TIMES,
    Asked,
    is_cued,
    names_of,
    plainly_asked,
    terms_of,
)
from knowledge.documents.log_times import LogTimes, without_names
from knowledge.documents.models import Document, DocumentId, DocumentType, Finding, Passage, Wanted
from knowledge.documents.numbered_lines import NumberedLines
from knowledge.documents.plain_words import in_plain_words, speaks_of_logs
from knowledge.documents.ports import EvidenceSource, LogStore, PassageStore
from knowledge.documents.statuses import names_a_status
from knowledge.documents.uncountable import gathers, is_uncountable

_MOST_LOGS: Final = 50
_MOST_NUMBERED: Final = 100
"""Lines that are looked up by their numbers, of all documents together."""

_UNCOUNTABLE: Final = (
    "this cannot be counted. Lines are counted by what they hold, their severity and their moments; not by how large a"
    " number in them is, by what they lack, or back from now, nor are they gathered by minute, user or status, or added"
    " up."
)


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
        asked = Asked(
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
                found += await LogFacts(logs=self.logs, log=log, scope=scope).told(within, asked)
            elif untold or (wish.severities and (listing or counted)):
                found.append(untimed)
        if not found or len(logs) <= _MOST_LOGS:
            return found, []
        return found, [f"Only the first {_MOST_LOGS} of {len(logs)} logs were counted."]
